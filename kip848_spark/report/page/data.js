// The data of the page: blocks of JSON, each parsed when it is first used. Large ones are compressed.

const blocks = new Map();
function block(name) {
  if (!blocks.has(name)) blocks.set(name, JSON.parse($(name).textContent));
  return blocks.get(name);
}

/** Makes `block(name)` ready if the block is compressed. */
async function unpack(name) {
  const element = $(name);
  if (blocks.has(name) || element.type === "application/json") return;
  const packed = Uint8Array.from(atob(element.textContent), (one) => one.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  blocks.set(name, JSON.parse(await new Response(stream).text()));
}

/** A table of the data: columns, with dictionaries for values that repeat. */
class Table {
  constructor(raw) {
    this.length = raw?.length ?? 0;
    this.columns = raw?.columns ?? {};
    this.dictionaries = raw?.dictionaries ?? {};
  }

  /** The value of a column in a row. Lists of dictionary entries become lists of strings. */
  at(row, name) {
    const value = this.columns[name]?.[row] ?? null;
    const entries = this.dictionaries[name];
    if (!entries || value === null) return value;
    return Array.isArray(value) ? value.map((one) => entries[one]) : entries[value];
  }

  /** A row as an object; `row` is its number. */
  object(row, names = Object.keys(this.columns)) {
    const found = { row };
    for (const name of names) found[name] = this.at(row, name);
    return found;
  }

  objects(rows) {
    const names = Object.keys(this.columns);
    const wanted = rows ?? Array.from({ length: this.length }, (_, row) => row);
    return wanted.map((row) => this.object(row, names));
  }

  /** The rows in which a column has a value (an index, where it has a dictionary). */
  where(name, value) {
    const found = [];
    const column = this.columns[name] ?? [];
    for (let row = 0; row < this.length; row += 1) if (column[row] === value) found.push(row);
    return found;
  }
}

const once = (make) => {
  let value;
  return () => (value ??= make());
};
const data = {
  report: block("report"),
  groups: once(() => new Table(block("groups"))),
  findings: once(() => new Table(block("findings"))),
  members: once(() => new Table(block("members"))),
  rebalances: once(() => block("rebalances")),
  rebalanceList: once(() => new Table(block("rebalance-list"))),
  readiness: once(() => block("readiness")),
  hygiene: once(() => block("hygiene")),
  /** The rows of groups by id. */
  groupRows: once(() => new Map(data.groups().columns.group_id.map((id, row) => [id, row]))),
};
const groupId = (row) => known(row) ? data.groups().columns.group_id[row] : null;
const groupHref = (row) => `#/group/${encodeURIComponent(groupId(row))}`;
const groupLink = (row) => known(row)
  ? h("a", { class: groupId(row).length > 40 ? "id" : "id one-line", href: groupHref(row), title: shown(groupId(row)) }, shown(groupId(row)) || "(empty id)")
  : h("span", { class: "muted" }, DASH);

const SEVERITIES = ["critical", "error", "warning", "info"];
const LOOPS = new Set(["storm", "restart_loop", "poll_interval_loop"]);
const BETWEEN = new Set(["Reconciling", "Assigning", "PreparingRebalance", "CompletingRebalance"]);

/** Groups that somebody should look at: `level` 3 (wrong), 2 (unstable) or 1 (worth knowing), with reasons. */
const worries = once(() => {
  const found = new Map();
  const add = (row, level, text, at = null) => {
    if (!known(row)) return;
    const one = found.get(row) ?? { row, level: 0, reasons: [] };
    one.level = Math.max(one.level, level);
    one.reasons.push({ level, text, at });
    found.set(row, one);
  };
  const findings = data.findings();
  const perGroup = new Map();
  for (let row = 0; row < findings.length; row += 1) {
    const severity = findings.at(row, "severity");
    if (severity === "info" || known(findings.at(row, "root"))) continue;
    const group = findings.at(row, "group");
    const seen = perGroup.get(group) ?? 0;
    perGroup.set(group, seen + 1);
    if (seen < 2) add(group, severity === "warning" ? 2 : 3, findings.at(row, "title"), findings.at(row, "at"));
  }
  for (const [row, count] of perGroup) if (count > 2) add(row, 1, `${plural(count - 2, "more finding")} of this group`);
  const groups = data.groups();
  const newest = data.report.summary.newest_record;
  for (let row = 0; row < groups.length; row += 1) {
    const started = groups.at(row, "last_rebalance");
    const state = groups.at(row, "state");
    if (BETWEEN.has(state) && known(started) && newest - started > 60_000) {
      add(row, 2, `${state} for ${duration(newest - started)}: its last rebalance has not ended`, started);
    }
  }
  const patterns = new Table(data.rebalances().patterns);
  const loops = new Map();
  for (let row = 0; row < patterns.length; row += 1) {
    const kind = patterns.at(row, "pattern");
    if (!LOOPS.has(kind)) continue;
    const key = `${kind} ${patterns.at(row, "group")}`;
    const one = loops.get(key) ?? { row, found: 0 };
    one.found += 1;
    if (patterns.at(row, "count") >= patterns.at(one.row, "count")) one.row = row;
    loops.set(key, one);
  }
  for (const { row, found: times } of loops.values()) {
    const kind = spaced(patterns.at(row, "pattern"));
    const others = times > 1 ? ` (the worst of ${number(times)} ${kind}s of this group)` : "";
    add(patterns.at(row, "group"), 2, `${capital(kind)}: ${patterns.at(row, "explanation")}${others}`, patterns.at(row, "since"));
  }
  const rewinds = new Table(data.hygiene()?.rewinds);
  const back = new Map();
  for (let row = 0; row < rewinds.length; row += 1) {
    const group = rewinds.at(row, "group");
    const one = back.get(group) ?? { count: 0, most: 0, at: rewinds.at(row, "at") };
    one.count += 1;
    one.most = Math.max(one.most, rewinds.at(row, "distance"));
    back.set(group, one);
  }
  for (const [row, one] of back) {
    add(row, 1, `${plural(one.count, "committed offset")} went back, by up to ${number(one.most)}`, one.at);
  }
  const weight = (one) => one.level * 1e6 + Math.min(groups.at(one.row, "rebalances") ?? 0, 1e5);
  return [...found.values()].sort((a, b) => weight(b) - weight(a));
});
const LEVEL_TONES = ["is-plain", "is-plain", "is-warn", "is-bad"];
const LEVEL_WORDS = ["", "note", "unstable", "wrong"];
