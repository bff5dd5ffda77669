// Charts, each with a table of the same values. A chart is drawn when it first comes into view, and
// again when the theme or its width changes.

const charts = new Set();

/** The colours of the theme, as the canvas needs them. */
function palette() {
  const probe = h("span", {});
  document.body.append(probe);
  const read = (name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const names = ["ink", "muted", "line", "strong-line", "surface", "raised", "accent", "accent-soft", "bad", "bad-soft", "warn", "warn-soft", "good", "good-soft"];
  const found = Object.fromEntries(names.map((name) => [name, read(name)]));
  found.series = Array.from({ length: 8 }, (_, index) => read(`chart-${index + 1}`));
  found.font = getComputedStyle(document.body).fontFamily;
  probe.remove();
  return found;
}

/** Text for a tooltip: the canvas would take `{name|text}` for a style. */
const tipText = (text) => shown(text).replace(/\{(?=\w+\|)/g, "{ ");
const tooltip = (colors) => ({
  renderMode: "richText", confine: true, backgroundColor: colors.surface, borderColor: colors["strong-line"],
  textStyle: { color: colors.ink, fontFamily: colors.font, fontSize: 12, lineHeight: 17 }, padding: [7, 10],
});
const timeAxis = (colors) => ({
  type: "time",
  axisLine: { lineStyle: { color: colors["strong-line"] } }, axisTick: { show: false }, splitLine: { show: false },
  axisLabel: { color: colors.muted, fontSize: 11, fontFamily: colors.font, hideOverlap: true,
    formatter: { year: "{yyyy}-{MM}-{dd}", month: "{MM}-{dd}", day: "{MM}-{dd}", hour: "{HH}:{mm}", minute: "{HH}:{mm}", second: "{HH}:{mm}:{ss}", millisecond: "{ss}.{SSS}" } },
});
const valueAxis = (colors, format = (value) => short.format(value)) => ({
  type: "value", splitNumber: 4, splitLine: { lineStyle: { color: colors.line } },
  axisLabel: { color: colors.muted, fontSize: 11, fontFamily: colors.font, formatter: format },
});

/** A chart. `option(colors, width)` gives the option of ECharts; `label` says in words what the
 * chart shows; `columns` and `rows` are its table (see `plainTable`). */
function chart({ height, label, option, columns, rows, scroll, ready }) {
  const canvas = h("div", { class: "canvas", role: "img", "aria-label": label, style: { height: `${height}px` } });
  const box = scroll ? h("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": label }, canvas) : canvas;
  const twin = columns ? h("details", { class: "twin" }, h("summary", {}, "Show as a table")) : null;
  twin?.addEventListener("toggle", () => {
    if (twin.open && twin.childElementCount === 1) twin.append(plainTable(columns, rows(), { most: 1000 }));
  });
  const one = { canvas, drawn: null, height };
  one.draw = () => {
    if (!canvas.clientWidth) return;
    const zoom = one.drawn?.getOption()?.dataZoom?.[0];
    one.drawn?.dispose();
    canvas.style.height = `${one.height}px`;
    one.drawn = echarts.init(canvas, null, { renderer: "canvas" });
    const made = option(palette(), canvas.clientWidth);
    if (zoom && made.dataZoom) for (const each of made.dataZoom) Object.assign(each, { startValue: zoom.startValue, endValue: zoom.endValue });
    one.drawn.setOption({ animation: false, useUTC: true, aria: { enabled: false }, ...made });
    one.width = canvas.clientWidth;
    ready?.(one.drawn);
  };
  const seen = new IntersectionObserver((entries) => {
    if (entries.some((entry) => entry.isIntersecting) && !one.drawn) one.draw();
  }, { rootMargin: "200px" });
  const resized = new ResizeObserver(() => { if (one.drawn && canvas.clientWidth !== one.width) one.draw(); });
  seen.observe(canvas);
  resized.observe(canvas);
  one.close = () => { seen.disconnect(); resized.disconnect(); one.drawn?.dispose(); charts.delete(one); };
  charts.add(one);
  const figure = h("figure", { class: "chart" }, box, twin);
  figure.redraw = (newHeight) => { one.height = newHeight ?? one.height; if (one.drawn) one.draw(); else canvas.style.height = `${one.height}px`; };
  figure.instance = () => one.drawn;
  return figure;
}

const redrawCharts = () => { for (const one of charts) if (one.drawn) one.draw(); };
const closeCharts = () => { for (const one of [...charts]) one.close(); };

/** Bars over time. `series`: [{name, values: [[ms, value], …]}], stacked. */
function timeBars({ series, width, label, unit, height = 200, columns, rows, format = number }) {
  return chart({
    height, label, columns, rows,
    option: (colors) => ({
      color: colors.series, grid: { left: 46, right: 8, top: series.length > 1 ? 34 : 12, bottom: 24 },
      legend: series.length > 1 ? { top: 0, left: 0, itemWidth: 12, itemHeight: 9, icon: "rect", type: "scroll",
        textStyle: { color: colors.muted, fontSize: 12, fontFamily: colors.font }, pageTextStyle: { color: colors.muted } } : undefined,
      tooltip: { ...tooltip(colors), trigger: "axis", axisPointer: { type: "shadow" },
        formatter: (points) => [`${utc(points[0].value[0], width < 60_000 ? 19 : width < 86_400_000 ? 16 : 10)} UTC`,
          ...points.filter((point) => point.value[1]).map((point) => `${tipText(point.seriesName)}: ${format(point.value[1])}${unit ? ` ${unit}` : ""}`)].join("\n") },
      xAxis: { ...timeAxis(colors), minInterval: width }, yAxis: valueAxis(colors),
      series: series.map((one) => ({ type: "bar", name: shown(one.name), stack: "all", data: one.values,
        barMaxWidth: 26, barMinWidth: 2, large: one.values.length > 2000 })),
    }),
  });
}
