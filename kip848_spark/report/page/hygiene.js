// Hygiene: who makes the topic grow, and which offsets nobody needs.

const topicCell = (row) => code(row.topic);
const groupColumn = { title: "Group", field: "group", width: 200, show: (row) => groupLink(row.group) };
const topicColumn = { title: "Topic", field: "topic", width: 160, show: topicCell };

/** A section with a virtual table if it is long, a plain one if it is short. */
function section(title, raw, { lead, columns, nothing, unknown, noun = "row", sort }) {
  if (raw === null || raw === undefined) return card(title, {}, empty("Not known", unknown ?? "No run has asked a cluster."));
  const rows = new Table(raw).objects();
  const side = rows.length ? h("span", { class: "muted" }, number(rows.length)) : null;
  if (rows.length <= 12) return card(title, { lead: rows.length ? lead : null, side }, plainTable(columns, rows, { nothing }));
  return card(title, { lead, side }, grid({ label: title, rows, columns, noun, sort, height: 380, search: [(row) => groupId(row.group) ?? "", (row) => row.topic ?? ""] }));
}

function sizeCard(size) {
  if (!size) return null;
  const left = size.compacted.commits + size.compacted.control_records;
  const fact = (title, value, more) => h("div", {}, h("dt", {}, title), h("dd", {}, value, more ? h("div", { class: "muted small" }, more) : null));
  return card("What compaction would keep", { lead: "Keys and values only, without headers and compression." }, h("dl", { class: "facts" },
    fact("Records read", number(size.records_read), `${number(size.tombstones_read)} tombstones`),
    fact("Commits read", number(size.commits_read), bytes(size.commit_bytes_read)),
    fact("Would remain", number(left), size.records_read ? `${percent(left / size.records_read)} of the records` : null),
    fact("Their size", bytes(size.compacted.commit_bytes + size.compacted.control_bytes), `${number(size.compacted.control_records)} control records`)));
}

function hygieneView() {
  const raw = data.hygiene();
  if (!raw) return [head("Hygiene"), missingNote("hygiene") ?? card("Hygiene", {}, empty("Not known", "This lake has no summaries of commits."))];
  const growth = new Table(raw.growth);
  const days = new Table(raw.growth_by_day);
  const series = [{ name: "bytes", values: days.objects().map((row) => [row.day, row.bytes]) }];
  return [
    head("Hygiene", "Who makes ", h("code", {}, "__consumer_offsets"), ` grow, and which committed offsets nobody needs: the ${plural(raw.days, "day")} before `, time(raw.as_of, 16), " UTC."),
    missingNote("hygiene"),
    h("div", { class: "columns" },
      card("Bytes of commits by day", {}, days.length > 1 ? timeBars({ series, width: DAY, label: "Bytes of offset commits by day", format: bytes,
        columns: [{ title: "Day", show: (row) => time(row.day, 10) }, { title: "Commits", field: "commits", kind: "number" }, { title: "Bytes", field: "bytes", kind: "bytes" },
          { title: "Rewinds", field: "rewinds", kind: "number" }], rows: () => days.objects() })
        : plainTable([{ title: "Day", show: (row) => time(row.day, 10) }, { title: "Commits", field: "commits", kind: "number" }, { title: "Bytes", field: "bytes", kind: "bytes" }], days.objects(), { nothing: "No commits." })),
      sizeCard(raw.size)),
    section("Committed offsets that went back", raw.rewinds, { nothing: "No committed offset went back.", noun: "rewind",
      lead: "Records from here on may have been processed twice. No owner: probably an administrator's reset.",
      columns: [{ title: "At (UTC)", field: "at", kind: "time" }, groupColumn, topicColumn, { title: "Partition", field: "topic_partition", kind: "number" },
        { title: "From", field: "from_committed", kind: "number" }, { title: "To", field: "to_committed", kind: "number" }, { title: "Back by", field: "distance", kind: "number" },
        { title: "Owner then", field: "owner", width: 170, show: (row) => known(row.owner) ? code(row.owner) : h("span", { class: "muted" }, "no owner") }] }),
    section("Who makes the topic grow", raw.growth, { nothing: "No commits.",
      lead: growth.length ? `“Could save” is what one commit a partition every ${duration(raw.assumptions.commit_interval_s * 1000)} would have saved.` : null,
      columns: [groupColumn, topicColumn, { title: "Bytes", field: "bytes", kind: "bytes" }, { title: "Share", field: "share", kind: "percent" }, { title: "Commits", field: "commits", kind: "number" },
        { title: "Interval", field: "interval_s", kind: "number", show: (row) => known(row.interval_s) ? duration(Math.round(row.interval_s * 1000)) : DASH },
        { title: "Could save", field: "saved_bytes", kind: "bytes" }] }),
    section("Dead groups", raw.dead_groups, { nothing: "No group is dead.", lead: `No member, and nothing written for ${plural(raw.days, "day")}.`,
      columns: [groupColumn, { title: "Last activity (UTC)", field: "last_activity", kind: "time" }, { title: "Last commit (UTC)", field: "last_commit", kind: "time" },
        { title: "Offsets", field: "offsets", kind: "number" }, { title: "Topics", field: "topics", kind: "number" }] }),
    section("Groups whose offsets expire soon", raw.expiring, { nothing: "No offsets expire soon.",
      lead: `Within ${duration(raw.assumptions.expires_within_s * 1000)}, if offsets are kept for ${duration(raw.assumptions.offsets_retention_s * 1000)}.`,
      columns: [groupColumn, { title: "Expire (UTC)", field: "expires_at", kind: "time" }, { title: "Offsets", field: "offsets", kind: "number" }, { title: "Topics", field: "topics", kind: "number" }] }),
    h("div", { class: "columns" },
      section("Offsets that are no longer read", raw.no_longer_read, { nothing: "Every committed offset has a reader.", lead: "No member subscribes to the topic or has a partition of it.",
        columns: [groupColumn, topicColumn, { title: "Offsets", field: "offsets", kind: "number" }] }),
      section("Offsets of deleted topics", raw.deleted_topics, { nothing: "No offsets of deleted topics.", columns: [groupColumn, topicColumn,
        { title: "Offsets", field: "offsets", kind: "number" }, { title: "Created again", show: (row) => row.recreated ? "yes" : "no" }] }),
      section("Open transactions", raw.open_transactions, { nothing: "No open transaction holds back a partition.", columns: [{ title: "Partition", field: "partition", kind: "number" },
        { title: "From offset", field: "offset", kind: "number" }, { title: "Held back", field: "open_offsets", kind: "number" }, { title: "Since (UTC)", field: "since", kind: "time" }] })),
  ];
}
