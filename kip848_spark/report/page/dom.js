// Builds elements. No function of this page writes markup: names in the data come from strangers, so
// they become text nodes or attribute values only.

const $ = (id) => document.getElementById(id);

/** An element. `attributes`: `on…` are listeners, `style` an object, false and null are left out. */
function h(tag, attributes, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, one] of Object.entries(value)) element.style.setProperty(key, one ?? "");
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// Libraries write a few constants as markup. The browser passes every text that is to become markup to
// this policy, and whatever is not one of these constants is shown as text.
const CONSTANT_MARKUP = new Set(["", "&nbsp;", "<div class='tabulator-arrow'></div>"]);
if (window.trustedTypes) {
  window.trustedTypes.createPolicy("default", {
    createHTML: (text) => CONSTANT_MARKUP.has(text)
      ? text
      : text.replace(/[&<>"']/g, (one) => `&#${one.charCodeAt(0)};`),
  });
}

/** A section with a heading. `side` stands on the right of the heading, `lead` below it. */
function card(title, { side, lead, id } = {}, ...children) {
  return h("section", { class: "card", id, "aria-label": title },
    h("header", {}, h("h2", {}, title), side ? h("div", { class: "side" }, side) : null),
    lead ? h("p", { class: "lead" }, lead) : null,
    children);
}

const head = (title, ...text) => h("div", { class: "head" }, h("h1", { tabindex: "-1" }, title),
  text.length ? h("p", {}, text) : null);
const stack = (...children) => h("div", {}, children);
const empty = (title, text) => h("p", { class: "empty" }, h("b", {}, title), text ?? null);
const note = (...text) => h("p", { class: "note" }, text);

/** The sentence that says why a section has no data, if there is one. */
const missingNote = (section) => {
  const text = data.report.missing_sections[section];
  return text ? note(prose(text)) : null;
};

/** Whether a run has audited the lake. An audit of a lake without records verifies nothing. */
const hasAudit = () => !data.report.missing_sections.audit;

/** Whether no group is known because no record was replayed. */
const unreplayed = () => Boolean(data.report.missing_sections.replay) && !data.report.summary.groups;
const tones = {
  critical: "is-bad", error: "is-bad", warning: "is-warn", info: "is-plain",
  blocker: "is-bad", blocked: "is-bad", unknown: "is-warn", ready_with_warnings: "is-warn",
  ready: "is-good", already_migrated: "is-good", migrating: "is-warn", not_applicable: "is-plain",
  Stable: "is-good", Reconciling: "is-warn", Assigning: "is-warn", PreparingRebalance: "is-warn",
  CompletingRebalance: "is-warn", open: "is-warn", high: "is-bad", medium: "is-warn",
};
const badge = (value, words) => value === null || value === undefined ? null
  : h("span", { class: `badge ${tones[value] ?? "is-plain"}` }, words ?? spaced(value));
