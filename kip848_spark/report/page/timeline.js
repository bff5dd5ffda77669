// The timeline of a group: lanes of members (what state each was in) or of partitions (who owned each),
// over the same time, with the group's epochs above.

const LANE = 24;
/** Above the epochs are the slider and the times. */
const TOP = 56;
const STATE_WORDS = ["member", "must give up partitions", "waits for partitions of others", "state not known"];

/** The lines of a timeline as the chart draws them: lanes, and bars in lanes. */
function lanesByMember(timeline, end) {
  const members = new Table(timeline.members);
  const states = new Table(timeline.states);
  const owned = new Table(timeline.owned);
  const lanes = [];
  const laneOf = new Map();
  for (let row = 0; row < members.length; row += 1) {
    const client = members.at(row, "client") ?? `m${row}`;
    if (!laneOf.has(client)) {
      laneOf.set(client, lanes.length);
      lanes.push({ name: members.at(row, "name"), about: members.at(row, "about") });
    }
  }
  // worker-9 comes before worker-10.
  const order = lanes.map((_, index) => index).sort((a, b) => lanes[a].name.localeCompare(lanes[b].name, "en", { numeric: true }));
  const place = new Map(order.map((index, at) => [index, at]));
  for (const [client, index] of laneOf) laneOf.set(client, place.get(index));
  lanes.sort((a, b) => a.name.localeCompare(b.name, "en", { numeric: true }));
  const lane = (member) => laneOf.get(members.at(member, "client") ?? `m${member}`);
  const held = members.length ? Array.from({ length: members.length }, () => []) : [];
  for (let row = 0; row < owned.length; row += 1) held[owned.at(row, "member")]?.push(row);
  const atTime = (member, at) => held[member].filter((row) =>
    owned.at(row, "from") <= at && (owned.at(row, "to") ?? Infinity) > at);
  const bars = states.objects().flatMap((one) => {
    const whole = { lane: lane(one.member), from: one.from, to: one.to ?? end, open: one.to === null, state: one.state, member: one.member };
    return one.state === 0 ? cutWhereCountChanges(whole, held[one.member], owned, atTime) : [whole];
  });
  return { lanes, bars, members, owned, atTime };
}

/** Parts of a bar in which the member has the same number of partitions. */
function cutWhereCountChanges(bar, rows, owned, atTime) {
  const times = new Set([bar.from]);
  for (const row of rows) {
    for (const at of [owned.at(row, "from"), owned.at(row, "to")]) if (known(at) && at > bar.from && at < bar.to) times.add(at);
  }
  const parts = [];
  for (const from of [...times].sort((a, b) => a - b)) {
    const count = atTime(bar.member, from).length;
    const last = parts.at(-1);
    if (last && last.count === count) continue;
    if (last) Object.assign(last, { to: from, open: false });
    parts.push({ ...bar, from, count });
  }
  return parts;
}

function lanesByPartition(timeline, end) {
  const partitions = new Table(timeline.partitions);
  const owned = new Table(timeline.owned);
  const members = new Table(timeline.members);
  const lanes = partitions.objects().map((one) => ({ name: `${one.topic}-${one.partition}`, about: "" }));
  const bars = owned.objects().map((one) => ({
    lane: one.partition, from: one.from, to: one.to ?? end, open: one.to === null, role: one.role, member: one.member,
    client: members.at(one.member, "client") ?? one.member,
  }));
  const extra = (raw, kind) => new Table(raw).objects().map((one) => ({
    lane: one.partition, from: one.from, to: one.to ?? end, open: one.to === null, kind, usual: one.usual_ms,
  }));
  return { lanes, bars: [...bars, ...extra(timeline.unowned, "unowned"), ...extra(timeline.stalls, "stall")], members };
}

/** A rectangle of a bar, cut to what the chart shows; null outside. */
function barShape(params, api, lane, from, to, inset, tall = 1) {
  const start = api.coord([from, lane]);
  const stop = api.coord([to, lane]);
  const height = LANE - 2 * inset;
  const area = params.coordSys;
  const x = Math.max(start[0], area.x);
  const right = Math.min(Math.max(stop[0], start[0] + 1.5), area.x + area.width);
  if (right < area.x || x > area.x + area.width || right <= x) return null;
  return { x, y: start[1] - height / 2, width: right - x, height: height * tall };
}

const hatched = (color, back) => {
  const tile = document.createElement("canvas");
  tile.width = tile.height = 8;
  const pen = tile.getContext("2d");
  pen.fillStyle = back;
  pen.fillRect(0, 0, 8, 8);
  pen.strokeStyle = color;
  pen.lineWidth = 2;
  for (const shift of [-8, 0, 8]) { pen.beginPath(); pen.moveTo(shift, 8); pen.lineTo(shift + 8, 0); pen.stroke(); }
  return { type: "pattern", image: tile, repeat: "repeat" };
};

function label(shape, text, colors, fill) {
  if (!text || shape.width < 8 + 7 * Math.min(text.length, 4)) return null;
  return { type: "text", silent: true, style: {
    x: shape.x + 5, y: shape.y + shape.height / 2 + 0.5, text: shown(text), fill, font: `11px ${colors.font}`,
    verticalAlign: "middle", overflow: "truncate", width: shape.width - 9, ellipsis: "…" } };
}

function memberBar(bar, view, colors, timeline) {
  const looks = [
    { fill: colors.series[0], opacity: bar.count ? 0.82 : 0.35, stroke: colors.surface }, { fill: hatched(colors.warn, colors["warn-soft"]), stroke: colors.warn },
    { fill: colors.surface, stroke: colors.accent, lineDash: [3, 2], lineWidth: 1.5 }, { fill: colors.raised, stroke: colors["strong-line"] },
  ];
  return (params, api) => {
    const shape = barShape(params, api, bar.lane, bar.from, bar.to, 4);
    if (!shape) return null;
    const words = bar.state === 0 ? (shape.width > 72 ? plural(bar.count, "partition") : String(bar.count)) : "";
    const style = looks[bar.state] ?? looks[3];
    return { type: "group", children: [{ type: "rect", shape: { ...shape, r: 2 }, style },
      label(shape, words, colors, bar.count ? colors.surface : colors.ink)].filter(Boolean) };
  };
}

function partitionBar(bar, view, colors) {
  return (params, api) => {
    if (bar.kind === "stall") {
      const shape = barShape(params, api, bar.lane, bar.from, bar.to, 4);
      if (!shape) return null;
      return { type: "rect", shape: { x: shape.x, y: shape.y + shape.height - 3, width: shape.width, height: 4 }, style: { fill: colors.bad } };
    }
    const shape = barShape(params, api, bar.lane, bar.from, bar.to, 4);
    if (!shape) return null;
    if (bar.kind === "unowned") {
      return { type: "rect", shape, style: { fill: hatched(colors.bad, colors["bad-soft"]), stroke: colors.bad, lineWidth: 1 } };
    }
    const fill = colors.series[Number(bar.client) % 7];
    const style = bar.role === 1 ? { fill: hatched(fill, colors.surface), stroke: fill } : { fill, opacity: 0.85 };
    return { type: "group", children: [{ type: "rect", shape: { ...shape, r: 2 }, style },
      bar.role === 1 ? null : label(shape, view.members.at(bar.member, "name"), colors, colors.surface)].filter(Boolean) };
  };
}

const span = (from, to, open) => `${utcMs(from)} UTC to ${open ? "the end" : utcMs(to).slice(11)} (${duration(to - from)}${open ? " so far" : ""})`;

function memberTip(bar, view, timeline) {
  const rows = view.atTime(bar.member, bar.from);
  const partitions = new Table(timeline.partitions);
  const names = rows.slice(0, 8).map((row) => {
    const place = view.owned.at(row, "partition");
    return `${partitions.at(place, "topic")}-${partitions.at(place, "partition")}${view.owned.at(row, "role") === 1 ? " (gives up)" : ""}`;
  });
  return [view.members.at(bar.member, "name"), view.members.at(bar.member, "member_id"), view.members.at(bar.member, "about"),
    capital(STATE_WORDS[bar.state] ?? STATE_WORDS[3]), span(bar.from, bar.to, bar.open),
    `${plural(rows.length, "partition")} at its start${names.length ? `: ${names.join(", ")}${rows.length > 8 ? ", …" : ""}` : ""}`]
    .filter(Boolean).map((text) => tipText(text)).join("\n");
}

function partitionTip(bar, view) {
  const lines = [view.lanes[bar.lane].name];
  if (bar.kind === "unowned") lines.push("No owner");
  else if (bar.kind === "stall") lines.push(`Commits stopped (usually one each ${duration(bar.usual)})`);
  else lines.push(`${view.members.at(bar.member, "name")}${bar.role === 1 ? " must give it up" : " owns it"}`, view.members.at(bar.member, "member_id"));
  return [...lines, span(bar.from, bar.to, bar.open)].map((text) => tipText(text)).join("\n");
}

/** The time in which the group rebalanced, if that is a small part of the time covered; else null. */
function busyTime(timeline, marks) {
  if (!marks.length) return null;
  const from = marks[0].at;
  const to = Math.max(...marks.map((mark) => mark.at + (mark.duration_ms ?? 0)));
  const margin = Math.max(5000, (to - from) * 0.15);
  return to - from + 2 * margin > (timeline.to - timeline.from) / 3 ? null
    : { startValue: Math.max(timeline.from, from - margin), endValue: Math.min(timeline.to, to + margin) };
}

/** Names as labels: without what all of them begin with, if they are too long for the room. */
function laneLabels(lanes, room) {
  const names = lanes.map((lane) => shown(lane.name));
  if (names.length < 2 || names.every((name) => name.length * 6.6 <= room)) return names;
  let common = names[0];
  for (const name of names) while (!name.startsWith(common)) common = common.slice(0, -1);
  common = common.replace(/[^-._/]*$/, "");
  const fewer = common.slice(0, -1).replace(/[^-._/]*$/, ""); // the last common word stays if there is room
  if (names.every((name) => (name.length - fewer.length + 2) * 6.6 <= room)) common = fewer;
  return common.length > 3 ? names.map((name) => `…${name.slice(common.length - 1)}`) : names;
}

/** The option of the chart. */
function timelineOption({ timeline, view, by, epochs, marks, shownLanes, zoom }, colors, width) {
  const left = width < 560 ? 96 : width < 1000 ? 170 : 220;
  const bars = view.bars.filter((bar) => bar.lane < shownLanes);
  const draw = by === "member" ? memberBar : partitionBar;
  const tip = by === "member" ? memberTip : partitionTip;
  const lanes = view.lanes.slice(0, shownLanes);
  const labels = laneLabels(lanes, left - 14);
  const custom = (name, items, render, more = {}) => ({ type: "custom", name, data: items.map((one) => ({ value: [one.from, one.lane ?? 0, one.to] })),
    encode: { x: [0, 2], y: 1 }, renderItem: (params, api) => render(items[params.dataIndex], params, api), clip: true, ...more });
  const grid = [{ left, right: 14, top: TOP, height: LANE + 4 }, { left, right: 14, top: TOP + LANE + 10, bottom: 10 }].map((one) => ({ ...one, outerBoundsMode: "none" }));
  const axis = { ...timeAxis(colors), min: timeline.from, max: timeline.to };
  const renderers = new Map(bars.map((bar) => [bar, draw(bar, view, colors, timeline)]));
  return {
    grid,
    tooltip: { ...tooltip(colors), trigger: "item", formatter: (point) => point.seriesName === "epochs" ? epochTip(epochs[point.dataIndex])
      : point.seriesName === "bars" ? tip(bars[point.dataIndex], view, timeline) : markTip(marks[point.dataIndex]) },
    xAxis: [
      { ...axis, gridIndex: 0, position: "top" },
      { ...axis, gridIndex: 1, axisLabel: { show: false }, axisLine: { show: false } },
    ],
    yAxis: [
      { type: "category", gridIndex: 0, data: ["Epoch"], axisLine: { show: false }, axisTick: { show: false }, axisLabel: { color: colors.muted, fontFamily: colors.font } },
      { type: "category", gridIndex: 1, inverse: true, data: lanes.map((_, index) => index), axisLine: { show: false }, axisTick: { show: false },
        splitLine: { show: true, interval: 0, lineStyle: { color: colors.line } },
        axisLabel: { interval: 0, color: colors.ink, fontSize: 11.5, fontFamily: colors.font, width: left - 14, overflow: "truncate", ellipsis: "…",
          formatter: (index) => labels[Number(index)] } },
    ],
    dataZoom: [
      { type: "slider", ...zoom, xAxisIndex: [0, 1], filterMode: "none", left, right: 14, top: 4, height: 20, showDataShadow: false, brushSelect: false,
        borderColor: colors["strong-line"], fillerColor: colors["accent-soft"], backgroundColor: colors.surface, handleStyle: { color: colors.surface, borderColor: colors.accent },
        moveHandleSize: 0, labelFormatter: (value) => utc(value), textStyle: { color: colors.muted, fontSize: 11 } },
      { type: "inside", ...zoom, xAxisIndex: [0, 1], filterMode: "none", zoomOnMouseWheel: "ctrl", moveOnMouseWheel: false, minValueSpan: 100 },
    ],
    series: [
      custom("epochs", epochs, (one, params, api) => epochBand(one, params, api, colors), { xAxisIndex: 0, yAxisIndex: 0 }),
      custom("marks", marks.map((mark) => ({ ...mark, from: mark.at, to: mark.at })), (mark, params, api) => markLine(mark, params, api, colors),
        { xAxisIndex: 1, yAxisIndex: 1, z: 1 }),
      custom("bars", bars, (bar, params, api) => renderers.get(bar)(params, api), { xAxisIndex: 1, yAxisIndex: 1, z: 2 }),
    ],
  };
}

function epochBand(one, params, api, colors) {
  const shape = barShape(params, api, 0, one.from, one.to, 3);
  if (!shape) return null;
  const settled = !BETWEEN.has(one.state);
  return { type: "group", children: [
    { type: "rect", shape, style: settled ? { fill: colors.raised, stroke: colors["strong-line"] } : { fill: hatched(colors.warn, colors["warn-soft"]), stroke: colors.warn } },
    settled ? label(shape, String(one.epoch ?? ""), colors, colors.muted) : null].filter(Boolean) };
}
const epochTip = (one) => [`Epoch ${one.epoch}: ${one.state}`, plural(one.members ?? 0, "member"), span(one.from, one.to, one.open)].map(tipText).join("\n");

function markLine(mark, params, api, colors) {
  const [x] = api.coord([mark.at, 0]);
  const area = params.coordSys;
  if (x < area.x || x > area.x + area.width) return null;
  return { type: "line", shape: { x1: x, x2: x, y1: area.y, y2: area.y + area.height },
    style: { stroke: colors.muted, lineWidth: 1, lineDash: [3, 3], opacity: 0.45 } };
}
const markTip = (mark) => [`Rebalance to epoch ${mark.epoch}`, mark.causes.map(spaced).join(", "), `${utcMs(mark.at)} UTC`,
  known(mark.duration_ms) ? `${duration(mark.duration_ms)}, ${spaced(mark.outcome)}` : spaced(mark.outcome)].map(tipText).join("\n");
