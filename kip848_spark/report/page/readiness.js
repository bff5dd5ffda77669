// Readiness: who can move to the new protocol, and what stands against it.

function ruleNames(list, rules, tone) {
  return (list ?? []).map((row) => h("span", { class: `badge ${tone}`, title: shown(rules.at(row, "means") ?? "") }, shown(rules.at(row, "rule"))));
}

const VERDICTS = ["blocked", "unknown", "migrating", "ready_with_warnings", "ready", "already_migrated", "not_applicable"];

function verdictBars(verdicts) {
  return shareTable([
    { title: "Verdict", show: (row) => h("a", { href: `#/readiness?verdict=${encodeURIComponent(row.verdict)}`, title: shown(row.about ?? "") }, badge(row.verdict)) },
    { title: "Groups", field: "groups", kind: "number" }], verdicts, "groups", {
    nothing: "No groups.", color: (row) => ({ "is-bad": "var(--bad)", "is-warn": "var(--warn)", "is-good": "var(--good)" })[tones[row.verdict]] ?? "var(--chart-8)" });
}

function rulesTable(rules, severities, nothing) {
  const rows = rules.objects().filter((row) => severities.includes(row.severity) && row.groups > 0);
  return rows.length ? h("ul", { class: "texts" }, rows.map((row) => h("li", {},
    h("p", {}, badge(row.severity), " ", h("b", {}, shown(row.rule)), " ",
      h("a", { class: "nowrap", href: `#/readiness?rule=${encodeURIComponent(row.rule)}` }, plural(row.groups, "group"))),
    h("p", {}, prose(row.means)), row.todo ? h("p", { class: "muted" }, prose(row.todo)) : null,
    row.source?.length ? h("p", { class: "muted small" }, row.source.map(shown).join(", ")) : null))) : empty(nothing);
}

function clusterCard(raw) {
  const notes = new Table(raw.notes).objects();
  if (!notes.length && !raw.settings.length && !known(raw.release)) return null;
  return card("The cluster", { lead: "What concerns all groups is said once." },
    notes.length ? h("ul", { class: "texts" }, notes.map((one) => h("li", {}, h("p", {}, badge(one.severity), " ", prose(one.text)),
      one.todo ? h("p", { class: "muted" }, prose(one.todo)) : null))) : null,
    known(raw.release) ? h("p", { class: "small" }, "Release: ", shown(raw.release)) : null,
    raw.settings.length ? h("details", {}, h("summary", {}, "Settings that are known"),
      plainTable([{ title: "Setting", show: (row) => code(row[0]) }, { title: "Value", show: (row) => code(row[1]) }], raw.settings)) : null);
}

function progressCard(raw) {
  const progress = new Table(raw.progress);
  if (new Set(progress.columns.at ?? []).size < 2) return null;
  return card("Progress", {}, timeBars({ series: seriesBy(progress, "at", "verdict", "groups"), width: DAY, label: "Groups by verdict and run", unit: "groups",
    columns: [{ title: "Run", field: "at", kind: "time" }, { title: "Verdict", show: (row) => spaced(row.verdict) }, { title: "Groups", field: "groups", kind: "number" }],
    rows: () => progress.objects() }));
}

const movesText = (moves, rounds) => known(moves) ? `${plural(moves, "partition")} move${moves === 1 ? "s" : ""}${known(rounds) ? `, ${plural(rounds, "round")}` : ""}` : DASH;

const readinessRows = once(() => {
  const list = new Table(data.readiness().list);
  const rules = new Table(data.readiness().rules);
  const groups = data.groups();
  return list.objects().map((row) => {
    const all = [...(row.blockers ?? []), ...(row.warnings ?? []), ...(row.unknowns ?? []), ...(row.notes ?? [])];
    return { ...row, id: groupId(row.group), topics: groups.at(row.group, "topics") ?? [], rules: all.map((one) => rules.at(one, "rule")),
      against: (row.blockers?.length ?? 0) * 100 + (row.warnings?.length ?? 0) };
  });
});

function readinessView(params) {
  const raw = data.readiness();
  const rules = new Table(raw.rules);
  const verdicts = new Table(raw.verdicts).objects().sort((a, b) => VERDICTS.indexOf(a.verdict) - VERDICTS.indexOf(b.verdict));
  const waves = new Table(raw.waves).objects();
  const rows = readinessRows();
  const topics = [...new Set(rows.flatMap((row) => row.topics))].sort();
  const count = (name) => verdicts.find((row) => row.verdict === name)?.groups ?? 0;
  const ready = count("ready") + count("ready_with_warnings");
  return [
    head("Migration readiness", `${plural(ready, "group")} can move to the consumer protocol of KIP-848 (${number(count("ready_with_warnings"))} with warnings), `
      + `${number(count("blocked"))} ${count("blocked") === 1 ? "is" : "are"} blocked, ${number(count("already_migrated"))} ${count("already_migrated") === 1 ? "has" : "have"} moved.`),
    missingNote("readiness"),
    h("div", { class: "columns" },
      stack(card("Verdicts", {}, verdictBars(verdicts)), card("Blockers", {}, rulesTable(rules, ["blocker"], "Nothing blocks any group")), clusterCard(raw)),
      stack(card("In which order to go", { lead: "Wave 1 is quiet, small and loosely coupled. Wave 0 is being migrated: finish it first." },
        shareTable([{ title: "Wave", show: (row) => h("a", { href: `#/readiness?wave=${row.wave}` }, `Wave ${row.wave}`) }, { title: "Groups", field: "groups", kind: "number" }],
          waves, "groups", { nothing: "No group can move now." })),
      card("Warnings", {}, rulesTable(rules, ["warning", "unknown"], "No warnings")))),
    progressCard(raw),
    card("Groups", { id: "list" }, grid({
      label: "Readiness of groups", noun: "group", rows, params, height: 560, nothing: "No groups.",
      search: ["id", "topics", "rules", "likely_client", "verdict"],
      filters: [
        { name: "verdict", title: "Verdict", options: verdicts.map((row) => row.verdict), test: (row, value) => row.verdict === value },
        { name: "wave", title: "Wave", options: waves.map((row) => [String(row.wave), `wave ${row.wave}`]), test: (row, value) => String(row.wave) === value },
        { name: "rule", title: "Rule", options: [...new Set(rows.flatMap((row) => row.rules))].sort().map((one) => [one, shown(one)]), test: (row, value) => row.rules.includes(value) },
        ...(topics.length <= 500 ? [{ name: "topic", title: "Topic", options: topics.map((one) => [one, shown(one)]), test: (row, value) => row.topics.includes(value) }]
          : [{ name: "topic", title: "Topic", prefix: true, test: (row, value) => row.topics.some((one) => one.startsWith(value)) }]),
        { name: "owner", title: "Id begins with", prefix: true, test: (row, value) => row.id.startsWith(value) },
      ],
      columns: [
        { title: "Group", field: "id", width: 200, grow: 1.3, show: (row) => groupLink(row.group) },
        { title: "Verdict", field: "verdict", width: 178, grow: 0.6, show: (row) => badge(row.verdict) },
        { title: "Wave", field: "wave", kind: "number", width: 78 },
        { title: "Risk", field: "risk", width: 92, grow: 0.3, show: (row) => known(row.risk) ? badge(row.risk) : DASH },
        { title: "What stands against it", field: "against", width: 260, grow: 2, show: (row) => {
          const names = [...ruleNames(row.blockers, rules, "is-bad"), ...ruleNames(row.warnings, rules, "is-warn"), ...ruleNames(row.unknowns, rules, "is-plain")];
          return names.length ? h("span", {}, names.flatMap((one) => [one, " "])) : h("span", { class: "muted" }, "nothing");
        } },
        { title: "Likely client", field: "likely_client", width: 130, grow: 0.5, show: (row) => known(row.likely_client) ? h("span", { title: shown(row.likely_client_from ?? "") }, shown(row.likely_client)) : DASH },
        { title: "Members", field: "members", kind: "number", width: 96 },
        { title: "Would move", field: "uniform_moves", kind: "number", width: 112, hint: "Partitions that would go to another member with the uniform assignor" },
      ] })),
  ];
}
