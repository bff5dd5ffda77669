// Values as people read them. Times are in UTC; the title of each has the reader's local time.

const INVISIBLE = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]/gu;

/** `text` with control and formatting characters as escapes, such as \x00. */
function shown(text) {
  return String(text).replace(INVISIBLE, (one) => {
    const code = one.codePointAt(0);
    return code < 0x100 ? `\\x${code.toString(16).padStart(2, "0")}` : `\\u${code.toString(16).padStart(4, "0")}`;
  });
}

const known = (value) => value !== null && value !== undefined;
const DASH = "–";
const grouped = new Intl.NumberFormat("en-US");
const short = new Intl.NumberFormat("en-US", { notation: "compact", maximumFractionDigits: 1 });
const number = (value) => known(value) ? grouped.format(value) : DASH;
const plural = (count, one, many) => `${number(count)} ${count === 1 ? one : many ?? one + "s"}`;
const percent = (part) => !known(part) ? DASH : part > 0 && part < 0.001 ? "<0.1%" : `${(part * 100).toFixed(part < 0.1 ? 1 : 0)}%`;
const spaced = (name) => shown(name).replaceAll("_", " ");
const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

function bytes(value) {
  if (!known(value)) return DASH;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) { value /= 1024; unit += 1; }
  return `${unit === 0 ? number(value) : value.toFixed(value < 10 ? 1 : 0)} ${units[unit]}`;
}

/** A length of time in its two largest units. */
function duration(ms) {
  if (!known(ms)) return DASH;
  if (ms === 0) return "0 s";
  if (ms < 1000) return `${ms} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1).replace(".0", "")} s`;
  const seconds = Math.round(ms / 1000);
  const parts = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const first = parts.findIndex(([size]) => seconds >= size);
  const [size, unit] = parts[first];
  const rest = parts[first + 1];
  const more = rest ? Math.floor((seconds % size) / rest[0]) : 0;
  return `${number(Math.floor(seconds / size))} ${unit}${more ? ` ${more} ${rest[1]}` : ""}`;
}

const iso = (ms) => new Date(ms).toISOString();
/** Date and time of `ms` in UTC, to the second (`digits` 19), minute (16) or day (10). */
const utc = (ms, digits = 19) => known(ms) ? iso(ms).slice(0, digits).replace("T", " ") : DASH;
const utcMs = (ms) => iso(ms).slice(0, 23).replace("T", " ");
const LOCAL = { dateStyle: "medium", timeStyle: "long" };
const local = (ms) => new Intl.DateTimeFormat(undefined, LOCAL).format(ms);

/** A time element in UTC. */
function time(ms, digits = 19) {
  if (!known(ms)) return h("span", { class: "muted" }, DASH);
  return h("time", { class: "nowrap", datetime: iso(ms), title: `Local time: ${local(ms)}` }, utc(ms, digits));
}

/** A sentence in which `…` marks what somebody types. */
const prose = (text) => shown(text ?? "").split("`").map((part, index) => index % 2 ? h("code", {}, part) : part);
const code = (text) => known(text) ? h("span", { class: text.length > 40 ? "id" : "id one-line" }, shown(text)) : h("span", { class: "muted" }, DASH);
const commaList = (values, most = 4) => values.length <= most ? values.join(", ")
  : `${values.slice(0, most).join(", ")} and ${number(values.length - most)} more`;
