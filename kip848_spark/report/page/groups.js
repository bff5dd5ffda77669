// All groups.

const groupRows = once(() => {
  const levels = new Map(worries().map((one) => [one.row, one.level]));
  return data.groups().objects().map((row) => ({ ...row, attention: levels.get(row.row) ?? 0 }))
    .map((row) => ({ ...row, weight: row.attention + Math.min(row.rebalances ?? 0, 1e6) / 1e7 }));
});

function groupsView(params) {
  const rows = groupRows();
  const distinct = (name) => [...new Set(rows.map((row) => row[name]).filter(known))].sort();
  return [
    head("Groups", `${plural(data.report.summary.groups, "group")}${data.report.summary.groups_deleted ? ` and ${number(data.report.summary.groups_deleted)} deleted ones that rebalanced in the period` : ""}.`),
    grid({
      label: "Groups", noun: "group", rows, params, height: Math.max(420, window.innerHeight - 300), sort: ["weight", "desc"],
      search: ["group_id", "topics", "cause"], nothing: "This lake has no groups.",
      filters: [
        { name: "attention", title: "Attention", options: [["any", "any reason"], ["3", "wrong"], ["2", "unstable"], ["1", "note"]],
          test: (row, value) => value === "any" ? row.attention > 0 : String(row.attention) === value },
        { name: "type", title: "Type", options: distinct("type"), test: (row, value) => row.type === value },
        { name: "state", title: "State", options: distinct("state"), test: (row, value) => row.state === value },
        { name: "verdict", title: "Readiness", options: distinct("verdict"), test: (row, value) => row.verdict === value },
      ],
      columns: [
        { title: "Group", field: "group_id", width: 188, grow: 2, show: (row) => groupLink(row.row) },
        { title: "Look", field: "weight", width: 80, grow: 0.1, hint: "Whether the first view lists this group", show: (row) => row.attention
          ? h("span", { class: `dot ${LEVEL_TONES[row.attention]}`, role: "img", "aria-label": LEVEL_WORDS[row.attention], title: LEVEL_WORDS[row.attention], style: { display: "inline-block" } }) : DASH },
        { title: "Type", field: "type", width: 94, grow: 0.3 },
        { title: "State", field: "state", width: 112, grow: 0.4, show: (row) => badge(row.state) },
        { title: "Members", field: "members", kind: "number", width: 96 },
        { title: "Rebalances", field: "rebalances", kind: "number", width: 112 },
        { title: "No owner", field: "unowned_ms", kind: "duration", width: 112, hint: "Partitions without an owner during rebalances, summed" },
        { title: "Findings", field: "findings", kind: "number", width: 88, show: (row) => h("span", { class: row.findings && tones[row.severity] === "is-bad" ? "bad" : "" }, number(row.findings)) },
        { title: "Readiness", field: "verdict", width: 186, grow: 0.6, show: (row) => badge(row.verdict) ?? DASH },
        { title: "Last commit (UTC)", field: "last_commit", kind: "time", width: 150, show: (row) => time(row.last_commit, 16) },
      ] }),
  ];
}
