// Tables: what stands behind every picture, for readers of the screen, of paper and of spreadsheets.

const ROWS_AT_ONCE = 500;
const LONG = 20; // more rows have a filter

const MOST_IN_A_CELL = 2000;

const clipped = (text) =>
  text.length <= MOST_IN_A_CELL ? text : `${text.slice(0, MOST_IN_A_CELL)}… (${format.number(text.length)} characters)`;

// Return rows as CSV by RFC 4180; a text that a spreadsheet would take for a formula gets a leading '.
function csv(columns, rows) {
  const cell = (value) => {
    if (value === null || value === undefined) return "";
    let text = String(value);
    if (typeof value === "string" && /^[=+\-@\t\r\n\0]/.test(text)) text = `'${text}`;
    return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const lines = [columns.map((column) => column.name), ...rows.map((row) => columns.map((column) => column.raw(row)))];
  return lines.map((line) => line.map(cell).join(",") + "\r\n").join("");
}

// Return a column: its name, how its raw value is read of a row, and how that is shown.
function column(name, raw, { number = false, long = false, mono = false, shown = null, title = null } = {}) {
  const show =
    shown || ((value) => (value === null || value === undefined ? UNKNOWN : visible(clipped(String(value)))));
  return { name, raw, number, long, mono, show, title };
}

// Return a table with its buttons, and a filter where it is long. `pick` is called with a row that is chosen; `more` are
// further buttons.
function table(caption, columns, rows, { pick = null, more = [], file = "table" } = {}) {
  const body = el("tbody");
  const head = columns.map((one) =>
    el("th", { scope: "col", class: one.number ? "number" : null, title: one.title }, one.name),
  );
  const made = el("table", {}, el("caption", {}, caption), el("thead", {}, el("tr", {}, head)), body);
  const rest = el("button", {});
  let found = rows;
  const draw = (count) => {
    const from = body.childNodes.length;
    const part = document.createDocumentFragment();
    for (const row of found.slice(from, from + count)) part.append(line(columns, row, pick));
    body.append(part);
    if (pick && !from && body.firstChild) body.firstChild.tabIndex = 0;
    const left = found.length - body.childNodes.length;
    rest.hidden = !left;
    rest.textContent = `show the other ${format.number(left)} rows`;
  };
  const filter = (words) => {
    const holds = (row) =>
      columns.some((one) =>
        String(one.raw(row) ?? "")
          .toLowerCase()
          .includes(words),
      );
    found = words ? rows.filter(holds) : rows;
    body.replaceChildren();
    draw(ROWS_AT_ONCE);
  };
  if (pick) walk(body);
  rest.addEventListener("click", () => draw(found.length));
  draw(ROWS_AT_ONCE);
  const asFile = () => save(`${file}.csv`, new Blob([csv(columns, found)], { type: "text/csv" }));
  const buttons = [
    rows.length > LONG ? search(`filter ${caption.toLowerCase()}`, filter) : null,
    copyButton("copy as CSV", () => csv(columns, found)),
    el("button", { onclick: asFile }, "save CSV"),
    ...more,
    rest,
  ];
  const scroll = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, made);
  return [el("div", { class: "tools" }, buttons), scroll];
}

// Return a field whose words, in small letters, are handed on when typing has paused.
function search(label, filter) {
  let timer = 0;
  const field = el("input", { class: "search", type: "search", placeholder: "filter", "aria-label": label, size: 16 });
  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => filter(field.value.trim().toLowerCase()), 120);
  });
  return field;
}

// Let the arrows go from row to row: of all rows, one is reached by the tabulator.
function walk(body) {
  body.addEventListener("keydown", (event) => {
    const row = event.target.closest("tr");
    const next = { ArrowDown: row.nextSibling, ArrowUp: row.previousSibling }[event.key];
    if (!next) return;
    event.preventDefault();
    row.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
}

function line(columns, row, pick) {
  const cells = columns.map((one) => {
    const kind = one.number ? "number" : one.long ? (one.mono ? "long mono" : "long") : null;
    return el("td", { class: kind }, one.show(one.raw(row), row));
  });
  const made = el("tr", pick ? { tabindex: "-1" } : {}, cells);
  if (pick) {
    made.addEventListener("click", () => pick(row));
    made.addEventListener("keydown", (event) => {
      if (event.key === "Enter") pick(row);
    });
  }
  return made;
}
