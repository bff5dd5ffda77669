// Tables. A column is {title, field, kind, show, hint, width}; `kind` is text, id, number, time, duration,
// bytes or percent, `show(row)` gives a node where the kind does not suffice, `text(row)` what a search sees.

const NUMERIC = new Set(["number", "duration", "bytes", "percent"]);
const SHOW = {
  text: (value) => known(value) ? shown(value) : DASH,
  id: code, number, duration, bytes, percent, time: (value) => time(value),
};
const cellOf = (column, row) => column.show ? column.show(row) : SHOW[column.kind ?? "text"](row[column.field]);

/** A table as HTML has it. `most` rows are shown, and a word says how many are not. */
function plainTable(columns, rows, { most = 200, nothing = "Nothing to show.", caption } = {}) {
  if (!rows.length) return h("p", { class: "empty" }, nothing);
  const side = (column) => NUMERIC.has(column.kind) ? "number" : null;
  return h("div", { class: "table-box", tabindex: "0", role: "group", "aria-label": caption ?? "Table" },
    h("table", { class: "plain" },
      caption ? h("caption", { class: "only-read" }, caption) : null,
      h("thead", {}, h("tr", {}, columns.map((column) => h("th", { scope: "col", class: side(column), title: column.hint }, column.title)))),
      h("tbody", {}, rows.slice(0, most).map((row) => h("tr", {}, columns.map((column, index) =>
        h(index ? "td" : "th", { class: side(column), scope: index ? null : "row" }, cellOf(column, row))))))),
    rows.length > most ? h("p", { class: "muted small" }, `The first ${number(most)} of ${number(rows.length)} rows.`) : null);
}

/** Compares values of a column; unknown values come last in either direction. */
function compare(a, b, direction) {
  const left = Array.isArray(a) ? a.join() : a;
  const right = Array.isArray(b) ? b.join() : b;
  if (!known(left) || !known(right)) {
    const order = known(left) ? -1 : known(right) ? 1 : 0;
    return direction === "asc" ? order : -order;
  }
  if (typeof left === "number" && typeof right === "number") return left - right;
  return String(left) < String(right) ? -1 : String(left) > String(right) ? 1 : 0;
}

/** Rows of a table on paper. */
const PRINTED = 300;
const grids = new Set();
const closeGrids = () => { for (const grid of [...grids]) grid.close(); };

/**
 * A table of any length: only the rows in view are in the document. It has a search and filters above.
 * `filters`: {name, title, options: [[value, words]] or a list, test(row, value)}, or with `prefix: true` a
 * text field. The state of search and filters is kept in the address of the view (`params`).
 */
function grid({ label, columns, rows, search, filters = [], sort, height = 480, nothing = "Nothing to show", params, noun = "row" }) {
  const state = { text: params?.get("search") ?? "" };
  const text = (row) => (row._text ??= search.map((one) => {
    const value = typeof one === "function" ? one(row) : row[one];
    return Array.isArray(value) ? value.join("\n") : value ?? "";
  }).join("\n").toLowerCase());
  const count = h("span", { class: "count", role: "status" });
  const host = h("div", {});
  const printed = h("div", { class: "print-table" });
  const box = h("div", { class: "grid" });
  const unmatched = `No ${noun} matches ${filters.length ? "the search and the filters" : "the search"}.`;
  let table = null;
  let listed = rows;

  const passes = (row) => (!state.text || text(row).includes(state.text.toLowerCase()))
    && filters.every((filter) => !state[filter.name] || filter.test(row, state[filter.name]));
  const active = () => state.text || filters.some((filter) => state[filter.name]);
  const recount = () => {
    count.textContent = listed.length === rows.length ? plural(rows.length, noun)
      : `${number(listed.length)} of ${plural(rows.length, noun)}`;
  };
  const apply = () => {
    listed = active() ? rows.filter(passes) : rows;
    recount();
    if (params) {
      for (const [name, value] of [["search", state.text], ...filters.map((one) => [one.name, state[one.name]])]) {
        if (value) params.set(name, value); else params.delete(name);
      }
      const [path] = location.hash.split("?");
      history.replaceState(null, "", `${path || "#/"}${params.size ? `?${params}` : ""}`);
    }
    if (table?.ready) table.replaceData(listed).then(relabel);
  };
  let timer = 0;
  const later = () => { clearTimeout(timer); timer = setTimeout(apply, 120); };

  const tools = h("div", { class: "tools" });
  if (search) {
    tools.append(h("div", { class: "grow" }, h("input", {
      type: "search", placeholder: "Search", "aria-label": `Search: ${label}`, value: state.text, spellcheck: "false",
      oninput: (event) => { state.text = event.target.value.trim(); later(); },
    })));
  }
  for (const filter of filters) {
    state[filter.name] = params?.get(filter.name) ?? "";
    if (filter.prefix) {
      tools.append(h("label", {}, filter.title, h("input", {
        type: "text", "aria-label": filter.title, value: state[filter.name], size: "12", spellcheck: "false",
        oninput: (event) => { state[filter.name] = event.target.value.trim(); later(); },
      })));
      continue;
    }
    const options = filter.options.map((one) => Array.isArray(one) ? one : [one, spaced(one)]);
    tools.append(h("label", {}, filter.title, h("select", {
      "aria-label": filter.title,
      onchange: (event) => { state[filter.name] = event.target.value; apply(); },
    }, h("option", { value: "" }, "all"), options.map(([value, words]) =>
      h("option", { value, selected: String(value) === state[filter.name] }, words)))));
  }
  tools.append(count);

  const relabel = () => {
    const root = host.querySelector(".tabulator") ?? host.firstElementChild;
    root?.setAttribute("aria-rowcount", String(listed.length + 1));
    // A grid has rows and groups of rows only. Tabulator's scrolling box has no role.
    host.querySelector(".tabulator-tableholder")?.setAttribute("role", "rowgroup");
    host.querySelector(".tabulator-table")?.setAttribute("role", "presentation");
  };
  const build = () => {
    const place = h("div", { "aria-label": label });
    host.replaceChildren(place);
    table = new Tabulator(place, {
      data: listed, layout: "fitColumns", height: listed.length > 12 || active() ? `${height}px` : false, renderVerticalBuffer: 400,
      // Tabulator makes a new box for it at each drawing, so the roles are in what is put into the box.
      placeholder: h("div", { role: "row" }, h("div", { role: "gridcell", class: "tabulator-placeholder-contents" }, unmatched)), headerSortTristate: false, columnHeaderVertAlign: "bottom",
      resizableColumnFit: false, initialSort: sort ? [{ column: sort[0], dir: sort[1] ?? "desc" }] : [],
      columns: columns.map((column) => ({
        title: column.title, field: column.field, hozAlign: NUMERIC.has(column.kind) ? "right" : "left",
        headerHozAlign: NUMERIC.has(column.kind) ? "right" : "left",
        minWidth: column.width ?? (NUMERIC.has(column.kind) ? 104 : column.kind === "time" ? 176 : 130),
        widthGrow: column.grow ?? (NUMERIC.has(column.kind) || column.kind === "time" ? 0.4 : 1),
        resizable: false, headerSortStartingDir: NUMERIC.has(column.kind) || column.kind === "time" ? "desc" : "asc",
        headerTooltip: column.hint ?? false,
        sorter: (a, b, _rowA, _rowB, _column, direction) => compare(a, b, direction),
        formatter: (cell) => {
          const made = cellOf(column, cell.getRow().getData());
          return made instanceof Node ? made : document.createTextNode(made);
        },
      })),
      rowFormatter: (row) => {
        const place = row.getPosition(true);
        if (place) row.getElement().setAttribute("aria-rowindex", String(place + 1));
      },
    });
    table.on("tableBuilt", () => {
      table.ready = true;
      relabel();
      if (listed.length !== table.getDataCount()) table.replaceData(listed).then(relabel);
      for (const column of table.getColumns()) {
        const element = column.getElement();
        element.tabIndex = 0;
        element.addEventListener("keydown", (event) => {
          if (event.key !== "Enter" && event.key !== " ") return;
          event.preventDefault();
          const now = element.getAttribute("aria-sort");
          table.setSort(column.getField(), now === "descending" ? "asc" : now === "ascending" ? "desc" : column.getDefinition().headerSortStartingDir);
        });
      }
    });
  };
  const one = {
    beforePrint: () => printed.replaceChildren(plainTable(columns,
      table?.ready ? table.getRows("active").map((row) => row.getData()) : listed, { most: PRINTED, caption: label, nothing: unmatched })),
    afterPrint: () => printed.replaceChildren(),
    close: () => { clearTimeout(timer); table?.destroy(); grids.delete(one); },
  };
  grids.add(one);
  if (rows.length) {
    if (active()) listed = rows.filter(passes);
    recount();
    box.append(search || filters.length ? tools : "", host, printed);
    requestAnimationFrame(() => { if (host.isConnected) build(); });
  } else {
    box.append(h("p", { class: "empty" }, nothing));
  }
  return box;
}

window.addEventListener("beforeprint", () => {
  document.documentElement.dataset.printing = "";
  for (const one of grids) one.beforePrint();
  for (const one of charts) one.draw();
});
window.addEventListener("afterprint", () => {
  delete document.documentElement.dataset.printing;
  for (const one of grids) one.afterPrint();
  redrawCharts();
});
