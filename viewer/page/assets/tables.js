// Tables: what stands behind every picture, for readers of the screen, of paper and of spreadsheets.

const ROWS_AT_ONCE = 500;

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

// Return a table with its buttons. `pick` is called with a row that is chosen; `more` are further buttons.
function table(caption, columns, rows, { pick = null, more = [], file = "table" } = {}) {
  const body = el("tbody");
  const head = columns.map((one) =>
    el("th", { scope: "col", class: one.number ? "number" : null, title: one.title }, one.name),
  );
  const made = el("table", {}, el("caption", {}, caption), el("thead", {}, el("tr", {}, head)), body);
  const rest = el("button", {});
  const draw = (count) => {
    const from = body.childNodes.length;
    const part = document.createDocumentFragment();
    for (const row of rows.slice(from, from + count)) part.append(line(columns, row, pick));
    body.append(part);
    const left = rows.length - body.childNodes.length;
    rest.hidden = !left;
    rest.textContent = `show the other ${format.number(left)} rows`;
  };
  rest.addEventListener("click", () => draw(rows.length));
  draw(ROWS_AT_ONCE);
  const buttons = [
    copyButton("copy as CSV", () => csv(columns, rows)),
    el(
      "button",
      { onclick: () => save(`${file}.csv`, new Blob([csv(columns, rows)], { type: "text/csv" })) },
      "save CSV",
    ),
    ...more,
    rest,
  ];
  return [el("div", { class: "tools" }, buttons), el("div", { class: "scroll", tabindex: "0" }, made)];
}

function line(columns, row, pick) {
  const cells = columns.map((one) => {
    const kind = one.number ? "number" : one.long ? (one.mono ? "long mono" : "long") : null;
    return el("td", { class: kind }, one.show(one.raw(row), row));
  });
  const made = el("tr", pick ? { tabindex: "0" } : {}, cells);
  if (pick) {
    made.addEventListener("click", () => pick(row));
    made.addEventListener("keydown", (event) => {
      if (event.key === "Enter") pick(row);
    });
  }
  return made;
}
