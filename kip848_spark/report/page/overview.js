// The first view: is anything wrong, which groups, why.

const HOUR = 3_600_000;
const DAY = 86_400_000;
/** Kinds of records that have a colour of their own; the others are added up. */
const MOST_KINDS = 6;

function verdictOfAll() {
  const { summary } = data.report;
  const list = worries();
  const wrong = list.filter((one) => one.level === 3).length;
  const unstable = list.filter((one) => one.level === 2).length;
  const audited = hasAudit() && summary.verified + summary.unverifiable + summary.disagreed > 0;
  const checked = audited
    ? `${number(summary.verified)} recorded decisions and rows were verified, ${number(summary.disagreed)} disagreed`
      + `${summary.unverifiable ? `, ${number(summary.unverifiable)} could not be judged` : ""}.`
    : hasAudit() ? "The audit found nothing to check."
    : "No run has audited these records, so nothing is said about whether the coordinator was right.";
  const has = (count) => count === 1 ? "group has" : "groups have";
  if (wrong) {
    return { tone: "is-bad", sign: "!", title: `Something is wrong in ${plural(wrong, "group")}`,
      text: `${number(wrong)} ${has(wrong)} findings of the audit${unstable ? `, and ${number(unstable)} ${unstable === 1 ? "is" : "are"} unstable` : ""}. ${checked}` };
  }
  const stray = summary.findings_roots > 0 && ["critical", "error"].includes(summary.findings_worst);
  if (stray) return { tone: "is-bad", sign: "!", title: `The audit has ${plural(summary.findings, "finding")}`, text: checked };
  if (unstable) return { tone: "is-warn", sign: "!", title: `${plural(unstable, "group")} ${unstable === 1 ? "is" : "are"} unstable`, text: audited ? `No finding says that the coordinator was wrong. ${checked}` : checked };
  if (unreplayed()) return { tone: "is-plain", sign: "?", title: "The groups of this lake are not known yet", text: checked };
  if (!summary.groups) return { tone: "is-plain", sign: "0", title: "This lake has no consumer groups", text: checked };
  return audited
    ? { tone: "is-good", sign: "✓", title: "Nothing is wrong", text: `No findings, no unstable groups. ${checked}` }
    : { tone: "is-plain", sign: "?", title: "No unstable groups", text: checked };
}

function worryItem(one) {
  const { row, level, reasons } = one;
  return h("li", {},
    h("div", { class: "who" }, h("span", { class: `dot ${LEVEL_TONES[level]}`, role: "img", "aria-label": LEVEL_WORDS[level] }), groupLink(row)),
    h("ul", {}, reasons.slice(0, 3).map((reason) => h("li", {}, shown(reason.text),
      known(reason.at) ? [" ", h("span", { class: "muted small" }, time(reason.at))] : null)),
    reasons.length > 3 ? h("li", { class: "muted small" }, `and ${plural(reasons.length - 3, "more reason")}`) : null));
}

function worriesCard() {
  const list = worries();
  if (!list.length) return null;
  const most = 10;
  return card(list[0].level > 1 ? "Look at these first" : "Worth knowing", { side: list.length > most ? h("a", { href: "#/groups?attention=any" }, `All ${number(list.length)} groups`) : null },
    h("ul", { class: "worries" }, list.slice(0, most).map(worryItem)));
}

function tile(title, value, sub, href) {
  const inner = [h("dt", {}, title), h("dd", {}, value, sub ? h("span", { class: "sub" }, sub) : null)];
  return href ? h("a", { class: "tile", href }, h("dl", {}, inner)) : h("div", { class: "tile" }, h("dl", {}, inner));
}

function tiles() {
  const { summary, period } = data.report;
  const verdicts = summary.verdicts ?? {};
  const ready = (verdicts.ready ?? 0) + (verdicts.ready_with_warnings ?? 0);
  const days = known(period.from) && known(period.to) ? Math.max(1, Math.round((period.to - period.from) / DAY)) : 0;
  const ofGroups = !unreplayed();
  return h("div", { class: "tiles" },
    ofGroups && tile("Groups", number(summary.groups), `${plural(summary.members, "member")}, ${plural(summary.partitions, "partition")}`, "#/groups"),
    tile("Findings", number(summary.findings), summary.findings ? `${plural(summary.findings_roots, "root")}, worst: ${summary.findings_worst}` : hasAudit() ? `${number(summary.verified)} verified` : "not audited", "#/findings"),
    ofGroups && tile(days ? `Rebalances, ${plural(days, "day")}` : "Rebalances", number(summary.rebalances),
      known(summary.longest_ms) ? `longest ${duration(summary.longest_ms)}` : `${number(summary.rebalances_open)} open`, "#/rebalances"),
    ofGroups && tile("Without an owner", duration(summary.unowned_ms), "partitions, summed", "#/rebalances"),
    ofGroups && tile("Can migrate", number(ready), `${number(verdicts.blocked ?? 0)} blocked, ${number(verdicts.already_migrated ?? 0)} done`, "#/readiness"),
    tile("Records read", short.format(summary.records), `${number(summary.quarantined)} not decodable, ${number(summary.unknown)} unknown`),
  );
}

/** Series of a chart by day or hour: one for each of the largest kinds, and one for the rest. */
function seriesBy(table, at, kind, value) {
  const sums = new Map();
  for (let row = 0; row < table.length; row += 1) {
    const name = table.at(row, kind);
    sums.set(name, (sums.get(name) ?? 0) + table.at(row, value));
  }
  const names = [...sums.keys()].sort((a, b) => sums.get(b) - sums.get(a));
  const own = names.length > MOST_KINDS + 1 ? names.slice(0, MOST_KINDS) : names;
  // Stacked bars need a value of each series at each time.
  const times = [...new Set(table.columns[at])].sort((a, b) => a - b);
  const zeros = () => new Map(times.map((time) => [time, 0]));
  const series = new Map(own.map((name) => [name, zeros()]));
  const rest = zeros();
  for (let row = 0; row < table.length; row += 1) {
    const values = series.get(table.at(row, kind)) ?? rest;
    const when = table.at(row, at);
    values.set(when, (values.get(when) ?? 0) + table.at(row, value));
  }
  const made = own.map((name) => ({ name: spaced(name), values: [...series.get(name)] }));
  if (own.length < names.length) made.push({ name: `${names.length - own.length} others`, values: [...rest] });
  return made;
}

function recordsCard() {
  const days = new Table(data.report.overview.records_by_day);
  const kinds = new Table(data.report.overview.records_by_kind);
  const columns = [{ title: "Kind", field: "kind", show: (row) => spaced(row.kind) }, { title: "Records", field: "records", kind: "number" },
    { title: "Tombstones", field: "tombstones", kind: "number" }];
  const spread = new Set(days.columns.day ?? []).size > 1;
  return card("Records by kind", { side: h("span", { class: "muted" }, `${number(data.report.summary.records)} read`) },
    spread ? timeBars({ series: seriesBy(days, "day", "kind", "records"), width: DAY, label: "Records read, by day and kind", unit: "records",
      columns: [{ title: "Day", field: "day", show: (row) => time(row.day, 10) }, ...columns.slice(0, 2)], rows: () => days.objects() }) : null,
    data.report.missing_sections.replay ? note("Commits among the records that were not replayed are not counted.") : null,
    spread ? h("details", {}, h("summary", {}, "By kind"), plainTable(columns, kinds.objects())) : plainTable(columns, kinds.objects(), { nothing: "No records." }));
}

function groupsCard() {
  const table = new Table(data.report.overview.groups);
  return card("Groups by type and state", { side: h("a", { href: "#/groups" }, "All groups") },
    plainTable([
      { title: "Type", field: "type", show: (row) => spaced(row.type) },
      { title: "State", field: "state", show: (row) => badge(row.state) },
      { title: "Groups", field: "groups", kind: "number", show: (row) => h("a", { href: `#/groups?type=${encodeURIComponent(row.type)}&state=${encodeURIComponent(row.state)}` }, number(row.groups)) },
    ], table.objects(), { nothing: unreplayed() ? "No group is known yet." : "This lake has no groups." }));
}

function auditCard() {
  const { overview } = data.report;
  const agreement = new Table(overview.agreement);
  const reasons = new Table(overview.not_judged);
  return card("The audit", { side: h("a", { href: "#/findings" }, "Findings") }, missingNote("audit"),
    plainTable([
      { title: "Check", field: "check", show: (row) => h("span", { title: shown(row.about ?? "") }, spaced(row.check)) },
      { title: "Verified", field: "verified", kind: "number" },
      { title: "Not judged", field: "unverifiable", kind: "number" },
      { title: "Disagreed", field: "disagreed", kind: "number", show: (row) => h("span", { class: row.disagreed ? "bad" : "" }, number(row.disagreed)) },
    ], agreement.objects(), { nothing: hasAudit() ? "The audit found nothing to check." : "No audit has run." }),
    reasons.length ? h("details", {}, h("summary", {}, "What was not judged, and why"), plainTable([
      { title: "Check", field: "check", show: (row) => spaced(row.check) }, { title: "Reason", field: "reason" },
      { title: "Count", field: "count", kind: "number" }], reasons.objects())) : null);
}

function gapsCard() {
  const gaps = new Table(data.report.overview.gaps);
  const list = new Table(data.report.overview.gap_list);
  const errors = new Table(data.report.overview.errors);
  return card("Missing offsets", {},
    plainTable([
      { title: "Cause", field: "cause", show: (row) => h("span", { title: shown(row.about ?? "") }, spaced(row.cause)) },
      { title: "Ranges", field: "ranges", kind: "number" }, { title: "Offsets", field: "offsets", kind: "number" },
    ], gaps.objects(), { nothing: "No offset is missing." }),
    list.length ? h("details", {}, h("summary", {}, "The largest ranges"), plainTable([
      { title: "Partition", field: "partition", kind: "number" }, { title: "First offset", field: "first_offset", kind: "number" },
      { title: "Last offset", field: "last_offset", kind: "number" }, { title: "Cause", field: "cause" }], list.objects())) : null,
    errors.length ? h("div", {}, h("h3", {}, "Records that could not be decoded"), plainTable([
      { title: "Reason", field: "reason" }, { title: "Records", field: "records", kind: "number" }], errors.objects())) : null);
}

function runsCard() {
  const runs = new Table(data.report.overview.runs);
  return card("Runs", { side: h("span", { class: "muted" }, plural(runs.length, "run")) }, plainTable([
    { title: "Finished", field: "finished_at", kind: "time" }, { title: "Records", field: "records", kind: "number" },
    { title: "Missing", field: "missing", kind: "number" },
    { title: "Time taken", kind: "duration", show: (row) => duration(known(row.finished_at) && known(row.started_at) ? row.finished_at - row.started_at : null) },
    { title: "Audit", field: "audit" }, { title: "Source", field: "source", kind: "id" },
  ], runs.objects(), { most: 8, nothing: "No run." }));
}

function overviewView() {
  const found = verdictOfAll();
  const { summary, lake } = data.report;
  return [
    h("div", { class: `status ${found.tone}` }, h("span", { class: "sign", "aria-hidden": "true" }, found.sign),
      h("div", {}, h("h1", { tabindex: "-1" }, found.title), h("p", {}, found.text),
        h("p", { class: "small muted" }, known(summary.newest_record) ? ["Records up to ", time(summary.newest_record), " UTC, from ", code(lake.source ?? lake.path)] : null))),
    worriesCard(),
    tiles(),
    rebalancesByHour({ compact: true }),
    h("div", { class: "columns" }, stack(groupsCard(), recordsCard()), stack(auditCard(), gapsCard())),
    runsCard(),
    leftOutCard(),
  ];
}

function leftOutCard() {
  const { left_out: cut, missing } = data.report;
  if (!cut.length && !missing.length) return null;
  const list = (items) => h("ul", { class: "texts" }, items.map((text) => h("li", {}, prose(text))));
  return card("What this page does not show", {}, list([...cut, ...missing]));
}
