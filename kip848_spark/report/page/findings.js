// Findings of the audit.

/** A line of a finding's text as a pair of its label and the rest. */
function findingLine(text) {
  const [, title, rest] = /^([A-Z][\w ,]{0,24}): ([\s\S]*)$/u.exec(text) ?? [null, "", text];
  return [title ? h("dt", {}, shown(title)) : h("dt", {}), h("dd", {}, shown(rest))];
}

function findingItem(table, row, { withGroup = true } = {}) {
  const at = table.at(row, "at");
  const followers = table.at(row, "followers");
  const root = table.at(row, "root");
  return h("li", {},
    h("p", {}, badge(table.at(row, "severity")), " ", h("b", {}, shown(table.at(row, "title")))),
    h("p", { class: "muted small" }, [
      withGroup && known(table.at(row, "group")) ? [groupLink(table.at(row, "group")), " · "] : null,
      `check ${spaced(table.at(row, "check"))}`,
      known(table.at(row, "offset")) ? ` · __consumer_offsets-${table.at(row, "partition")} offset ${number(table.at(row, "offset"))}` : null,
      known(at) ? [" · ", time(at)] : null,
      followers ? ` · ${plural(followers, "finding follows", "findings follow")} from it` : null,
      known(root) ? ` · follows from: ${shown(table.at(root, "title"))}` : null]),
    h("dl", { class: "small" }, (table.at(row, "lines") ?? []).map(findingLine)));
}

function findingsView(params) {
  const table = data.findings();
  const { summary, overview } = data.report;
  const checks = new Table(overview.findings_by_check).objects();
  if (!table.length) {
    return [head("Findings"), missingNote("audit"), card("Findings", {}, empty("No findings",
      !hasAudit() ? "No audit has run." : !summary.verified ? "The audit found nothing to check." : `${number(summary.verified)} recorded decisions and rows agree with the reference coordinator.`))];
  }
  const detail = h("ul", { class: "texts" });
  const box = card("The worst ones in full", {}, detail);
  const roots = Array.from({ length: table.length }, (_, row) => row).filter((row) => !known(table.at(row, "root")));
  detail.append(...roots.slice(0, 15).map((row) => findingItem(table, row)));
  const rows = table.objects();
  return [
    head("Findings", `${plural(summary.findings, "finding")}, ${number(summary.findings_roots)} of them not a consequence of another. A finding is a record or a row that disagrees with the reference coordinator.`),
    missingNote("audit"),
    h("div", { class: "columns" },
      card("By check", {}, shareTable([{ title: "Check", show: (row) => spaced(row.check) }, { title: "Severity", show: (row) => badge(row.severity) },
        { title: "Findings", field: "findings", kind: "number" }], checks, "findings")),
      auditCard()),
    box,
    card("All findings", { id: "list" }, grid({
      label: "Findings", noun: "finding", rows, params, height: 460, search: [(row) => groupId(row.group) ?? "", "title", "check", "lines", "member"],
      filters: [
        { name: "severity", title: "Severity", options: SEVERITIES.filter((one) => rows.some((row) => row.severity === one)), test: (row, value) => row.severity === value },
        { name: "check", title: "Check", options: [...new Set(rows.map((row) => row.check))].sort(), test: (row, value) => row.check === value },
        { name: "kind", title: "Show", options: [["root", "roots only"]], test: (row) => !known(row.root) },
      ],
      columns: [
        { title: "Severity", field: "severity", width: 104, grow: 0.3, show: (row) => badge(row.severity) },
        { title: "Group", field: "group", width: 190, show: (row) => groupLink(row.group) },
        { title: "Finding", field: "title", width: 340, grow: 3, show: (row) => h("span", { title: [row.title, ...(row.lines ?? [])].map(shown).join("\n") }, shown(row.title)) },
        { title: "Check", field: "check", width: 130, grow: 0.5, show: (row) => spaced(row.check) },
        { title: "Partition", field: "partition", kind: "number", width: 98 },
        { title: "Offset", field: "offset", kind: "number" },
        { title: "At (UTC)", field: "at", kind: "time" },
      ] })),
  ];
}
