// Addresses (the part after #), the theme, and the first view.

const VIEWS = [
  ["", "Overview", overviewView, () => null],
  ["rebalances", "Rebalances", rebalancesView, () => data.report.summary.rebalances],
  ["readiness", "Readiness", readinessView, () => data.report.summary.verdicts?.blocked ? `${data.report.summary.verdicts.blocked} blocked` : null],
  ["hygiene", "Hygiene", hygieneView, () => null],
  ["findings", "Findings", findingsView, () => data.report.summary.findings],
  ["groups", "Groups", groupsView, () => data.report.summary.groups],
];

/** The blocks that a view needs and that may be compressed. */
function blocksOf(name, id) {
  if (name === "rebalances") return ["rebalance-list"];
  if (name !== "group") return [];
  const row = data.groupRows().get(id);
  if (row === undefined) return [];
  const timeline = data.groups().at(row, "timeline");
  return ["members", "rebalance-list", ...(known(timeline) ? [`timeline-${timeline}`] : [])];
}

let asked = 0;
async function showView(focus) {
  const address = location.hash;
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const params = new URLSearchParams(query ?? "");
  const [name, ...rest] = path.split("/");
  let view = VIEWS.find(([own]) => own === name) ?? VIEWS[0];
  let title = view[1];
  let id = rest.join("/");
  try { id = decodeURIComponent(id); } catch { /* an address that is not ours */ }
  asked += 1;
  const mine = asked;
  const needed = blocksOf(name, id);
  if (needed.length) await Promise.all(needed.map(unpack));
  if (mine !== asked) return; // another view was asked for in the meantime
  closeCharts();
  closeGrids();
  const main = $("main");
  let content;
  if (name === "group") {
    view = VIEWS.at(-1);
    title = shown(id);
    content = groupView(params, id);
  } else {
    // Without a replay, only the records and the findings are known.
    content = unreplayed() && !["", "findings"].includes(view[0]) ? [head(title)] : view[2](params);
  }
  const [top, ...below] = content.flat(Infinity);
  main.replaceChildren(...[top, missingNote("replay"), ...below].filter(Boolean));
  for (const link of $("tabs").children) {
    if (link.dataset.view === view[0]) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
  }
  const { lake } = data.report;
  document.title = `${title} – consumer groups of ${shown(lake.cluster_id ?? lake.source ?? lake.path)}`;
  document.documentElement.dataset.shown = address;
  if (focus) {
    const list = params.size ? $("list") : null;
    if (list) list.scrollIntoView(); else window.scrollTo(0, 0);
    (main.querySelector("h1") ?? main).focus({ preventScroll: true });
  }
}

function setUpTheme() {
  const button = $("theme");
  const names = { auto: "Theme: auto", light: "Theme: light", dark: "Theme: dark" };
  let chosen = "auto";
  try { chosen = localStorage.getItem("kip848-theme") ?? "auto"; } catch { /* no storage for files */ }
  const apply = () => {
    if (chosen === "auto") delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = chosen;
    button.textContent = names[chosen];
    redrawCharts();
  };
  button.addEventListener("click", () => {
    const order = Object.keys(names);
    chosen = order[(order.indexOf(chosen) + 1) % order.length];
    try { localStorage.setItem("kip848-theme", chosen); } catch { /* no storage for files */ }
    apply();
  });
  if (!(chosen in names)) chosen = "auto";
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawCharts);
  apply();
}

function setUpTabs() {
  $("tabs").append(...VIEWS.map(([name, title, , count]) => {
    const value = count();
    return h("a", { href: `#/${name}`, "data-view": name }, title, value ? h("span", { class: "n" }, typeof value === "number" ? number(value) : value) : null);
  }));
}

function setUpJump() {
  const field = $("jump-text");
  const list = $("jump-list");
  const ids = () => data.groups().columns.group_id;
  field.addEventListener("input", () => {
    const text = field.value.toLowerCase();
    const found = [];
    for (const id of ids()) {
      if (id.toLowerCase().includes(text)) found.push(id);
      if (found.length === 20) break;
    }
    list.replaceChildren(...found.map((id) => h("option", { value: id })));
  });
  $("jump").addEventListener("submit", (event) => {
    event.preventDefault();
    const text = field.value;
    if (!text) return;
    location.hash = data.groupRows().has(text) ? `#/group/${encodeURIComponent(text)}` : `#/groups?search=${encodeURIComponent(text)}`;
    field.value = "";
  });
}

function setUpFoot() {
  const { program, made_at: made, lake, period } = data.report;
  $("foot").append(h("p", {}, `${shown(program.name)} ${shown(program.version)}, made `, time(made), " UTC from ", code(lake.path), " (run ", code(lake.run_id), "). ",
    known(period.from) ? ["Rebalances since ", time(period.from, 16), " UTC. "] : null, "All times are UTC; point at a time to see it in your time zone."));
}

setUpTheme();
setUpTabs();
setUpJump();
setUpFoot();
showView(false).then(() => { document.documentElement.dataset.ready = ""; });
window.addEventListener("hashchange", () => {
  showView(true);
});
// The link that skips the header has no address of a view.
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  $("main").focus();
});
