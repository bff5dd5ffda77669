// Rebalances: when, why, which groups.

const CAUSE_COLUMN = { title: "Causes", field: "causes", width: 190, show: (row) => (row.causes ?? []).map(spaced).join(", ") || DASH };
const REBALANCE_COLUMNS = [
  { title: "Started (UTC)", field: "started_at", kind: "time" },
  { title: "Group", field: "group", width: 190, show: (row) => groupLink(row.group) },
  { title: "Epoch", field: "epoch", kind: "number", width: 82 },
  CAUSE_COLUMN,
  { title: "Took", field: "duration_ms", kind: "duration", hint: "From the epoch until the group was Stable again; not known for classic groups" },
  { title: "Outcome", field: "outcome", width: 118, show: (row) => badge(row.outcome) },
  { title: "Moved", field: "moved", kind: "number", width: 104, hint: "Partitions that went to another member; (min.) the fewest that give the same balance",
    show: (row) => known(row.moved) && known(row.minimal) ? row.moved > row.minimal ? h("span", {}, number(row.moved), h("span", { class: "muted" }, ` (min. ${number(row.minimal)})`)) : number(row.moved) : number(row.moved) },
  { title: "Waited for", field: "slowest", width: 150, show: (row) => known(row.slowest) ? h("span", { title: duration(row.slowest_ms) }, code(row.slowest)) : DASH },
  { title: "No owner", field: "unowned_ms", kind: "duration", hint: "Time without an owner, summed over the partitions" },
];

function rebalancesByHour({ compact } = {}) {
  const raw = data.rebalances();
  const hours = new Table(raw.by_hour);
  if (!hours.length) return compact ? null : card("Rebalances over time", {}, missingNote("rebalances") ?? empty("No rebalances", "No group rebalanced in this period."));
  const { period } = data.report;
  const causes = new Table(raw.by_hour_and_cause);
  const busiest = hours.objects().reduce((a, b) => (a.rebalances >= b.rebalances ? a : b));
  const side = compact ? h("a", { href: "#/rebalances" }, "All rebalances") : null;
  if (hours.length < 3) {
    return card(compact ? "Rebalances" : "Rebalances over time", { side, lead: `All of them began between ${utc(hours.at(0, "hour"), 16)} and ${utc(hours.at(hours.length - 1, "hour") + HOUR, 16)} UTC.` }, compact ? causesTable() : shortTime());
  }
  return card("Rebalances over time", { side, lead: `The busiest hour began at ${utc(busiest.hour, 16)} UTC: ${plural(busiest.rebalances, "rebalance")} of ${plural(busiest.groups, "group")}. A rebalance with several causes counts once for each.` },
    timeBars({ series: seriesBy(causes, "hour", "cause", "rebalances"), width: HOUR, height: compact ? 190 : 240, unit: "",
      label: `Rebalances by hour and cause, ${utc(period.from, 10)} to ${utc(period.to, 10)}; most at ${utc(busiest.hour, 16)}: ${number(busiest.rebalances)}`,
      columns: [{ title: "Hour (UTC)", field: "hour", show: (row) => time(row.hour, 16) }, { title: "Rebalances", field: "rebalances", kind: "number" },
        { title: "Groups", field: "groups", kind: "number" }, { title: "Longest", field: "longest_ms", kind: "duration" },
        { title: "No owner", field: "unowned_ms", kind: "duration" }],
      rows: () => hours.objects().reverse() }));
}

/** A chart of less than three hours, from the list: hours would be too coarse. */
function shortTime() {
  const rows = allRebalances();
  if (rows.length < 2) return null;
  const length = rows[0].started_at - rows.at(-1).started_at;
  const width = [1000, 5000, 10_000, 30_000, 60_000, 300_000].find((size) => length / size <= 80) ?? 300_000;
  const counts = new Map();
  for (const row of rows) {
    const at = row.started_at - row.started_at % width;
    for (const cause of row.causes ?? []) {
      const key = `${at} ${cause}`;
      counts.set(key, { at, cause, rebalances: (counts.get(key)?.rebalances ?? 0) + 1 });
    }
  }
  const found = [...counts.values()].sort((a, b) => a.at - b.at);
  const table = new Table({ length: found.length, columns: { at: found.map((one) => one.at), cause: found.map((one) => one.cause),
    rebalances: found.map((one) => one.rebalances) } });
  return timeBars({ series: seriesBy(table, "at", "cause", "rebalances"), width, height: 220, unit: "",
    label: `Rebalances by cause, counted for each ${duration(width)}`,
    columns: [{ title: "From (UTC)", field: "at", kind: "time" }, { title: "Cause", show: (row) => spaced(row.cause) }, { title: "Rebalances", field: "rebalances", kind: "number" }],
    rows: () => [...found].reverse() });
}

const causesTable = () => shareTable([
  { title: "Cause", show: (row) => h("a", { href: `#/rebalances?cause=${encodeURIComponent(row.cause)}` }, shown(row.words ?? spaced(row.cause))) },
  { title: "Rebalances", field: "rebalances", kind: "number" }, { title: "Groups", field: "groups", kind: "number" }],
new Table(data.rebalances().causes).objects(), "rebalances", { nothing: "No rebalances." });

/** Rows with a bar each. */
function shareTable(columns, rows, field, options) {
  const most = Math.max(1, ...rows.map((row) => row[field] ?? 0));
  const bar = { title: "", show: (row) => h("span", { class: "share-box", "aria-hidden": "true" },
    row[field] > 0 && h("span", { class: "share", style: { width: `${Math.max(1, (row[field] ?? 0) / most * 100)}%`, "--c": options?.color?.(row) } })) };
  return plainTable([...columns, bar], rows, options);
}

function worstGroups() {
  const groups = data.groups();
  const rows = [];
  for (let row = 0; row < groups.length; row += 1) if (groups.at(row, "rebalances") > 0) rows.push(row);
  const weight = (row) => (groups.at(row, "unowned_ms") ?? 0) + (groups.at(row, "rebalances") ?? 0) * 1000;
  rows.sort((a, b) => weight(b) - weight(a));
  return plainTable([
    { title: "Group", show: (row) => groupLink(row.row) }, { title: "Rebalances", field: "rebalances", kind: "number" },
    { title: "No owner", field: "unowned_ms", kind: "duration" }, { title: "Longest", field: "longest_ms", kind: "duration" },
    { title: "Mostly because", field: "cause", show: (row) => known(row.cause) ? spaced(row.cause) : DASH },
  ], groups.objects(rows.slice(0, 12)), { nothing: "No group rebalanced in this period." });
}

function patternsCard() {
  const patterns = new Table(data.rebalances().patterns);
  if (!patterns.length) return card("Patterns", {}, empty("No patterns", "No storm, no restart loop, no rolling restart in this period."));
  const rows = patterns.objects().reverse();
  return card("Patterns", { lead: "Rebalances that belong together: rolling restarts, clients that come and go, storms." },
    grid({ label: "Patterns of rebalances", noun: "pattern", height: 360, rows, search: [(row) => groupId(row.group) ?? "", "explanation", "pattern"],
      filters: [{ name: "pattern", title: "Pattern", options: [...new Set(rows.map((row) => row.pattern))].sort(), test: (row, value) => row.pattern === value }],
      columns: [
        { title: "Since (UTC)", field: "since", kind: "time" },
        { title: "Pattern", field: "pattern", width: 150, grow: 0.5, show: (row) => badge(LOOPS.has(row.pattern) ? "open" : row.pattern, spaced(row.pattern)) },
        { title: "Group", field: "group", width: 190, show: (row) => known(row.group) ? groupLink(row.group) : `__consumer_offsets-${row.partition}` },
        { title: "What happened", field: "explanation", width: 340, grow: 2.4, show: (row) => h("span", { title: shown(row.explanation) }, shown(row.explanation)) },
      ] }));
}

function rebalanceGrid(rows, { columns = REBALANCE_COLUMNS, params, height = 520, label = "Rebalances" } = {}) {
  const causes = [...new Set(rows.flatMap((row) => row.causes ?? []))].sort();
  const outcomes = [...new Set(rows.map((row) => row.outcome))].sort();
  return grid({ label, noun: "rebalance", rows, columns, params, height, nothing: "No rebalances.",
    search: [(row) => groupId(row.group) ?? "", "causes", "slowest", "trigger"],
    filters: [
      { name: "cause", title: "Cause", options: causes, test: (row, value) => (row.causes ?? []).includes(value) },
      { name: "outcome", title: "Outcome", options: outcomes, test: (row, value) => row.outcome === value },
    ] });
}

const REBALANCE_FIELDS = ["group", "started_at", "epoch", "causes", "duration_ms", "outcome", "moved", "minimal", "slowest", "slowest_ms", "unowned_ms", "trigger", "joined", "left", "members", "likely"];
const allRebalances = once(() => {
  const table = data.rebalanceList();
  const rows = new Array(table.length);
  for (let row = 0; row < table.length; row += 1) rows[table.length - 1 - row] = table.object(row, REBALANCE_FIELDS);
  return rows;
});

function rebalancesView(params) {
  const raw = data.rebalances();
  const all = new Table(raw.durations).objects();
  const filled = all.flatMap((row, index) => row.rebalances ? [index] : []);
  const durations = filled.length ? all.slice(filled[0], filled.at(-1) + 1) : [];
  const clients = new Table(raw.clients).objects();
  const outcomes = new Table(raw.outcomes).objects();
  return [
    head("Rebalances", shown(raw.sentence ?? "").replaceAll("_", " ")),
    missingNote("rebalances"),
    rebalancesByHour(),
    h("div", { class: "columns" },
      stack(card("Why", {}, causesTable()),
        outcomes.length ? card("How they ended", {}, plainTable([{ title: "Outcome", show: (row) => h("span", {}, shown(row.words ?? spaced(row.outcome))) },
          { title: "Rebalances", field: "rebalances", kind: "number" }], outcomes)) : null),
      card("How long", { lead: "Rebalances of consumer, share and streams groups that ended. The log does not say when one of a classic group began." },
        shareTable([{ title: "Took", show: (row) => known(row.to_ms) ? `${row.from_ms ? `${duration(row.from_ms)} to ` : "below "}${duration(row.to_ms)}` : `${duration(row.from_ms)} or longer` },
          { title: "Rebalances", field: "rebalances", kind: "number" }], durations, "rebalances", { nothing: "No rebalance has a known duration." }),
      )),
    card("Groups with the most trouble", { side: h("a", { href: "#/groups" }, "All groups") }, worstGroups()),
    patternsCard(),
    clients.length ? card("Clients that come and go", {}, plainTable([
        { title: "Client", show: (row) => [code(row.client), row.about ? h("div", { class: "muted small" }, shown(row.about)) : null] },
        { title: "Group", show: (row) => groupLink(row.group) }, { title: "Joined", field: "joined", kind: "number" }, { title: "Left", field: "left", kind: "number" }],
      clients, { most: 12, nothing: "No client joined or left more than once." })) : null,
    card("All rebalances", { id: "list" }, rebalanceGrid(allRebalances(), { params })),
  ];
}
