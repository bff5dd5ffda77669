// The page of one group.

function groupHead(group, row) {
  const fact = (title, value, more) => known(value) && value !== "" ? h("div", {}, h("dt", {}, title), h("dd", {}, value, more ? h("div", { class: "muted small" }, more) : null)) : null;
  const worry = worries().find((one) => one.row === row);
  const topics = group.topics ?? [];
  return [
    h("div", { class: "head" }, h("p", { class: "small" }, h("a", { href: "#/groups" }, "Groups")), h("h1", { class: "id", tabindex: "-1" }, shown(group.group_id) || "(empty id)"),
      h("div", { class: "badges" }, badge(group.type), badge(group.state), badge(group.verdict), known(group.severity) ? badge(group.severity, `worst finding: ${group.severity}`) : null)),
    worry ? h("div", { class: `status ${LEVEL_TONES[worry.level]}` }, h("span", { class: "sign", "aria-hidden": "true" }, worry.level > 1 ? "!" : "i"),
      h("div", {}, h("h2", {}, `${capital(LEVEL_WORDS[worry.level])}`), worry.reasons.map((reason) => h("p", {}, shown(reason.text), known(reason.at) ? [" ", h("span", { class: "muted small" }, time(reason.at))] : null)))) : null,
    h("section", { class: "card", "aria-label": "Facts" }, h("dl", { class: "facts" },
      fact("Members", number(group.members)), fact("Assigned partitions", number(group.assigned_partitions), group.committed_partitions ? `${number(group.committed_partitions)} with a committed offset` : null),
      fact(group.type === "classic" ? "Generation" : "Epoch", number(group.epoch)),
      fact("Assignor", known(group.assignor) || known(group.protocol) ? shown(group.assignor ?? group.protocol) : null),
      fact("Rebalances", number(group.rebalances), known(group.longest_ms) ? `longest ${duration(group.longest_ms)}` : null),
      fact("Without an owner", group.unowned_ms ? duration(group.unowned_ms) : null, "partitions, summed"),
      fact("Last commit (UTC)", known(group.last_commit) ? time(group.last_commit) : null), fact("Last change (UTC)", known(group.updated_at) ? time(group.updated_at) : null),
      fact("Written to", known(group.partition) ? code(`__consumer_offsets-${group.partition}`) : null),
      topics.length ? h("div", { style: { "grid-column": "1 / -1" } }, h("dt", {}, `Topics (${number(group.topic_count)})`),
        h("dd", {}, topics.map((topic, index) => [index ? ", " : "", code(topic)]), group.topic_count > topics.length ? ` and ${number(group.topic_count - topics.length)} more` : null)) : null)),
  ];
}

function timelineCard(group) {
  if (!known(group.timeline)) {
    return card("Timeline", {}, missingNote("history") ?? empty("No timeline in this page",
      h("span", {}, "Timelines are embedded for the groups with the most rebalances and findings. This command shows the group: ", code(`kip848 history ${shellWord(group.group_id)}`))));
  }
  const timeline = block(`timeline-${group.timeline}`);
  if (!timeline.members.length && !timeline.owned.length) return card("Timeline", {}, empty("No members", "Nobody was a member of this group in the time that this page covers."));
  const end = timeline.to;
  const digits = timeline.to - timeline.from < HOUR ? 19 : 16;
  const views = { member: once(() => lanesByMember(timeline, end)), partition: once(() => lanesByPartition(timeline, end)) };
  const marks = new Table(timeline.marks).objects().map((one) => ({ ...one, causes: one.causes ?? [] }));
  const epochs = new Table(timeline.epochs).objects().map((one) => ({ ...one, open: one.to === null, to: one.to ?? end, lane: 0 }));
  const MOST = 40;
  const busy = busyTime(timeline, marks);
  const state = { by: "member", all: false, zoom: busy };
  const view = () => views[state.by]();
  const lanes = () => state.all ? view().lanes.length : Math.min(MOST, view().lanes.length);
  const heightOf = () => Math.max(150, TOP + LANE + 10 + lanes() * LANE + 10);
  const place = h("div", {});
  const legend = h("ul", { class: "legend", "aria-label": "Legend" });
  const more = h("button", { type: "button", class: "plain", onclick: () => { state.all = !state.all; draw(); } });
  let figure = null;

  const item = (color, text, kind) => h("li", {}, h("i", { class: kind, style: { "--c": `var(--${color})` } }), text);
  function draw() {
    place.replaceChildren();
    const by = state.by;
    if (!view().lanes.length) {
      place.append(empty(by === "member" ? "No members in this time" : "Nobody owned a partition in this time"));
    }
    figure = chart({
      height: heightOf(), scroll: true, label: timelineLabel(group, timeline, view(), by, marks),
      option: (colors, width) => timelineOption({ timeline, view: view(), by, epochs, marks, shownLanes: lanes(), zoom: state.zoom }, colors, width),
    });
    place.append(figure);
    legend.replaceChildren(...(by === "member"
      ? [item("chart-1", "member, with its partitions"), item("warn", "must give up partitions", "hatch"), item("accent", "waits for partitions of others", "line")]
      : [item("chart-1", "owned; a colour for each client"), item("chart-1", "its owner must give it up", "hatch"), item("bad", "no owner", "hatch"), item("bad", "commits stopped")]),
    item("muted", "a rebalance begins", "line"));
    more.hidden = view().lanes.length <= MOST;
    more.textContent = state.all ? `Show ${MOST} lanes` : `Show all ${number(view().lanes.length)} lanes`;
    for (const [name, button] of Object.entries(buttons)) button.setAttribute("aria-pressed", String(name === by));
  }
  const choose = (by) => h("button", { type: "button", class: "plain", "aria-pressed": "false", onclick: () => { state.by = by; draw(); } }, by === "member" ? "By member" : "By partition");
  const buttons = { member: choose("member"), partition: choose("partition") };
  const zoom = (from, to) => {
    state.zoom = { startValue: Math.max(timeline.from, from), endValue: Math.min(timeline.to, to) };
    figure.instance()?.dispatchAction({ type: "dataZoom", batch: [0, 1].map((index) => ({ dataZoomIndex: index, ...state.zoom })) });
  };
  const scaled = (factor) => {
    const now = figure.instance()?.getOption().dataZoom[0];
    if (!now) return;
    const middle = (now.startValue + now.endValue) / 2;
    const half = Math.max(50, (now.endValue - now.startValue) / 2 * factor);
    zoom(middle - half, middle + half);
  };
  const jump = h("select", { "aria-label": "Zoom to a rebalance", onchange: (event) => {
    if (event.target.value === "all") { zoom(timeline.from, timeline.to); return; }
    if (event.target.value === "busy") { zoom(busy.startValue, busy.endValue); return; }
    const mark = marks[Number(event.target.value)];
    const length = Math.max(5000, mark.duration_ms ?? 20_000);
    zoom(mark.at - length * 0.4, mark.at + length * 1.6);
  } }, busy ? h("option", { value: "busy" }, "the time with rebalances") : null, h("option", { value: "all" }, "all the time"), marks.map((_, index) => marks.length - 1 - index).slice(0, 400).map((index) =>
    h("option", { value: index }, `${utc(marks[index].at)} epoch ${marks[index].epoch}: ${marks[index].causes.map(spaced).join(", ")}`)));
  const button = (text, name, act) => h("button", { type: "button", class: "plain", "aria-label": name, title: name, onclick: act }, text);
  draw();
  return card("Timeline", { side: h("span", { class: "muted" }, `${utc(timeline.from, digits)} to ${utc(timeline.to, digits)} UTC`) },
    timeline.cut ? note(prose(timeline.cut)) : null,
    timeline.stalls_known ? null : h("p", { class: "muted small" }, "Commits of this group were not looked at for stalls."),
    h("div", { class: "tools" }, buttons.member, buttons.partition, h("label", {}, "Zoom to", jump),
      button("+", "Zoom in", () => scaled(0.5)), button("−", "Zoom out", () => scaled(2)), more),
    legend, place, timelineTwin(timeline));
}

function timelineLabel(group, timeline, view, by, marks) {
  return `Timeline of ${shown(group.group_id)} by ${by}: ${plural(view.lanes.length, "lane")}, ${plural(marks.length, "rebalance")}, `
    + `${utc(timeline.from, 16)} to ${utc(timeline.to, 16)} UTC. A table of the same intervals follows.`;
}

/** Tables of what the timeline draws. */
function timelineTwin(timeline) {
  const twin = h("details", { class: "twin" }, h("summary", {}, "Show as tables"));
  twin.addEventListener("toggle", () => {
    if (!twin.open || twin.childElementCount > 1) return;
    const members = new Table(timeline.members);
    const partitions = new Table(timeline.partitions);
    const name = (row) => members.at(row, "name");
    const placeName = (row) => `${partitions.at(row, "topic")}-${partitions.at(row, "partition")}`;
    const to = { title: "To (UTC)", field: "to", kind: "time", show: (row) => row.to === null ? "still" : time(row.to) };
    const from = { title: "From (UTC)", field: "from", kind: "time" };
    const took = { title: "For", field: "length", kind: "duration" };
    const partition = { title: "Partition", field: "place", kind: "id", width: 170 };
    const member = { title: "Member", field: "name", kind: "id", width: 190 };
    const lengthen = (row) => ({ ...row, length: (row.to ?? timeline.to) - row.from });
    const owned = new Table(timeline.owned).objects().map((row) => lengthen({ ...row, place: placeName(row.partition), name: name(row.member) }));
    const ill = [["no owner", timeline.unowned], ["commits stopped", timeline.stalls]].flatMap(([what, raw]) =>
      new Table(raw).objects().map((row) => lengthen({ ...row, what, place: placeName(row.partition) })));
    const states = new Table(timeline.states).objects().map((row) => lengthen({ ...row, name: name(row.member), words: STATE_WORDS[row.state] }));
    const list = (title, rows, columns) => h("div", {}, h("h3", {}, title), grid({ label: title, rows, columns, height: 300, noun: "interval",
      search: ["name", "place", "what", "words"], nothing: "None." }));
    twin.append(
      list("Who owned which partition", owned, [partition, member, { title: "", field: "role", width: 150, grow: 0.4, show: (row) => row.role === 1 ? "must give up" : "owns" }, from, to, took]),
      list("Members and their states", states, [member, { title: "State", field: "words", width: 200 }, from, to, took]),
      list("Partitions without an owner, and commits that stopped", ill, [partition, { title: "What", field: "what" }, from, to, took]));
  });
  return twin;
}

const shellWord = (text) => /^[\w.-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;

function storiesCard(group) {
  const stories = known(group.timeline) ? block(`timeline-${group.timeline}`).stories : [];
  if (!stories.length) return null;
  return card("The last episode in words", {}, h("ul", { class: "texts" }, stories.map((story) => h("li", {},
    h("p", {}, h("b", {}, shown(story.headline))),
    h("dl", {}, story.lines.map(([title, text]) => [h("dt", {}, shown(title)), h("dd", {}, shown(text))]))))));
}

function groupFindings(row) {
  const table = data.findings();
  const rows = table.where("group", row);
  if (!rows.length) return card("Findings", {}, missingNote("audit") ?? empty("No findings", "The records of this group agree with the reference coordinator as far as they could be judged."));
  return card("Findings", { side: h("span", { class: "muted" }, number(rows.length)) },
    h("ul", { class: "texts" }, rows.slice(0, 50).map((one) => findingItem(table, one, { withGroup: false }))),
    rows.length > 50 ? h("p", { class: "muted small" }, `The first 50 of ${number(rows.length)}.`) : null);
}

function groupMembers(row, group) {
  const table = data.members();
  const rows = table.objects(table.where("group", row));
  const some = (name) => rows.some((one) => known(one[name]) && one[name] !== "");
  const nothing = group.members ? "The members of this group are not embedded in this page." : "The group has no members now.";
  const columns = [
    { title: "Member", field: "name", width: 190, show: (one) => h("span", { title: shown(one.member_id) }, code(one.name), one.classic ? [" ", badge("classic")] : null) },
    { title: "Client id", field: "client_id", kind: "id" }, { title: "Host", field: "host", kind: "id" },
    some("instance_id") ? { title: "Instance id", field: "instance_id", kind: "id" } : null, some("rack") ? { title: "Rack", field: "rack", kind: "id" } : null,
    some("state") ? { title: "State", field: "state", show: (one) => spaced(one.state ?? DASH) } : null,
    { title: "Partitions", field: "partitions", kind: "number" }, some("epoch") ? { title: "Epoch", field: "epoch", kind: "number" } : null,
    { title: "Subscribed to", field: "topics", width: 200, show: (one) => h("span", { class: "id" }, [known(one.regex) && one.regex !== "" ? `/${shown(one.regex)}/` : null, commaList((one.topics ?? []).map(shown))].filter(Boolean).join(" ") || DASH) },
    { title: "Since (UTC)", field: "since", kind: "time" },
  ].filter(Boolean);
  return card("Members", { side: rows.length ? h("span", { class: "muted" }, number(rows.length)) : null }, rows.length > 15
    ? grid({ label: "Members", noun: "member", rows, columns, height: 400, search: ["name", "member_id", "client_id", "host", "topics"] })
    : plainTable(columns, rows, { nothing }));
}

function groupReadiness(row) {
  const one = readinessRows().find((found) => found.group === row);
  if (!one) return null;
  const rules = new Table(data.readiness().rules);
  const texts = new Map(one.details ?? []);
  const list = [...(one.blockers ?? []), ...(one.warnings ?? []), ...(one.unknowns ?? []), ...(one.notes ?? [])];
  const moves = known(one.uniform_moves) || known(one.range_moves);
  return card("Readiness", { side: badge(one.verdict) },
    list.length ? h("ul", { class: "texts" }, list.map((rule) => h("li", {}, h("p", {}, badge(rules.at(rule, "severity")), " ", h("b", {}, shown(rules.at(rule, "rule")))),
      h("p", {}, prose(rules.at(rule, "means"))), texts.get(rule) ? h("p", { class: "id small" }, shown(texts.get(rule))) : null, rules.at(rule, "todo") ? h("p", { class: "muted" }, prose(rules.at(rule, "todo"))) : null)))
      : empty("No rule applies", "Nothing in the records stands against the move."),
    h("p", { class: "small muted" }, [known(one.wave) ? `Wave ${one.wave}. ` : null, known(one.likely_client) ? `Probably ${shown(one.likely_client)}, going by ${shown(one.likely_client_from ?? "its client ids")}. ` : null,
      moves ? `Simulated: uniform, ${movesText(one.uniform_moves, one.uniform_rounds)}; range, ${movesText(one.range_moves, one.range_rounds)}. ` : null,
      known(one.cheaper_rebalances) && one.cheaper_rebalances > 0 ? `${plural(one.cheaper_rebalances, "rebalance")} of the last month would have been cheaper.` : null]));
}

function groupView(params, id) {
  const row = data.groupRows().get(id);
  if (row === undefined) return [head("No such group"), card("No such group", {}, empty(shown(id), h("a", { href: "#/groups" }, "All groups")))];
  const group = data.groups().object(row);
  const own = group.rebalances ? allRebalances().filter((one) => one.group === row) : [];
  const columns = REBALANCE_COLUMNS.filter((one) => one.field !== "group");
  return [
    groupHead(group, row), group.findings ? groupFindings(row) : null,
    timelineCard(group), storiesCard(group),
    card("Rebalances", { side: own.length ? h("span", { class: "muted" }, number(own.length)) : null }, own.length > 12 ? rebalanceGrid(own, { columns, height: 360, label: "Rebalances of this group" })
      : plainTable(columns, own, { nothing: "No rebalances in this period." })),
    groupMembers(row, group),
    groupReadiness(row), group.findings ? null : groupFindings(row),
  ];
}
