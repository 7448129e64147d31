// The page of one exchange.

function verdictLine(exchange, buttons) {
  const tone = { success: "good", warning: "warn", error: "bad" }[exchange.state.tone] || "muted";
  // Of many stalls the longest, as in show.
  const isStall = (verdict) => verdict.kind === "stall";
  const ranked = exchange.verdicts.toSorted((a, b) => isStall(a) - isStall(b) || b.lasted_ns - a.lasted_ns).slice(0, 5);
  const judged = exchange.verdicts
    .filter((verdict) => ranked.includes(verdict))
    .flatMap((verdict) => [
      el("dt", { class: isStall(verdict) ? "bad" : "warn" }, verdict.kind),
      el("dd", {}, el("p", { class: "any" }, visible(verdict.sentence)), el("p", {}, visible(verdict.evidence))),
    ]);
  const more = exchange.verdicts.length - ranked.length;
  const others = `and ${more} shorter ${more === 1 ? "stall" : "stalls"}: see phases and stalls`;
  if (more) judged.push(el("dt", {}), el("dd", { class: "muted" }, others));
  if (exchange.none && exchange.outputs.at.length)
    judged.push(el("dt", { class: "muted" }, "timing"), el("dd", { class: "muted" }, exchange.none));
  return el(
    "header",
    { class: "who" },
    el(
      "div",
      { class: "row" },
      el("h1", { class: "any" }, visible(exchange.model || exchange.asked.method)),
      el("span", { class: "mono muted" }, exchange.id),
      el("span", { class: "spread" }),
      buttons,
    ),
    el("p", { class: "mono muted any" }, visible(exchange.request)),
    el(
      "p",
      { class: "verdict" },
      el("span", { class: `sign ${tone}`, "aria-hidden": "true" }, exchange.state.sign),
      el("span", { class: tone }, visible(exchange.state.text)),
      exchange.status === null ? "" : ` · ${exchange.status}`,
      exchange.brief
        ? el("span", { class: exchange.stalls.length ? "bad" : "warn" }, ` · ${visible(exchange.brief)}`)
        : "",
    ),
    exchange.reasons.map((reason) => el("p", { class: "any" }, visible(reason))),
    el("dl", { class: "judged" }, judged),
    exchange.flags.length
      ? el(
          "p",
          { class: "flags" },
          exchange.flags.map(([flag, meaning], place) => [
            place ? " · " : "",
            el("b", {}, visible(flag)),
            ` ${visible(meaning)}`,
          ]),
        )
      : null,
  );
}

function switches(exchange) {
  return el(
    "div",
    { class: "switches row" },
    theme.switch(),
    el("button", { onclick: () => exchange.savePicture() }, "PNG"),
    el("button", { onclick: () => print() }, "print"),
    helpButton(),
  );
}

const KEYS = [
  ["space", "play, pause"],
  ["← →", "one read back, on"],
  ["} {", "next stall, the one before (also n)"],
  ["l", "longest gap"],
  ["< >", "slower, faster"],
  ["Home End", "begin, end"],
  ["+ − 0", "zoom in, out, all"],
  ["enter", "the bytes of the read at the playhead"],
  ["esc", "close them"],
];

function helpButton() {
  const list = KEYS.map(([keys, meaning]) => [
    el(
      "dt",
      {},
      keys
        .split(" ")
        .map((key, place) => [place ? " " : "", el("kbd", {}, key)])
        .flat(),
    ),
    el("dd", {}, meaning),
  ]);
  const dialog = el(
    "dialog",
    { "aria-label": "Keys" },
    el("h2", {}, "Keys and pointer"),
    el("dl", {}, list.flat()),
    el(
      "p",
      { class: "muted" },
      "A click on the timeline or on a text goes to that time, a drag scrubs; a click on a read shows its bytes. Shift and drag zooms in, so does ctrl and the wheel. The address of the page keeps what is shown.",
    ),
    el("form", { method: "dialog" }, el("p", { class: "tools" }, el("button", {}, "close"))),
  );
  const button = el("button", { "aria-label": "keys and help", onclick: () => dialog.showModal() }, "?");
  addEventListener("keydown", (event) => {
    if (event.key === "?" && !event.target.closest("input, textarea, select")) dialog.showModal();
  });
  return el("span", {}, button, dialog);
}

function cards(exchange) {
  const isStream = !exchange.flags.some(([flag]) => flag === "nonstream");
  const figures = exchange.figures;
  const ms = (value) => exactly(value, "ms");
  const figureTiles = [
    ["TTFT", ms(figures.ttft_ms), "T0 to the first output"],
    ["gap p50", ms(figures.gap_p50_ms), "median of the gaps between reads with output"],
    ["gap p99", ms(figures.gap_p99_ms), "99th percentile of the gaps between reads with output"],
    ["longest gap", ms(figures.max_gap_ms), "between reads with output"],
    ["duration", ms(figures.duration_ms), "T0 to the end"],
    [
      "output tokens",
      [format.number(figures.output_tokens)],
      "as usage reports them; chunks are never counted as tokens",
    ],
    ["reads", [format.number(figures.reads)], "socket reads"],
    isStream ? ["events", [format.number(figures.events)], "that the reads brought"] : null,
    ["bytes", [format.number(figures.bytes)], "of the body"],
  ].filter(Boolean);
  return el(
    "dl",
    { class: "cards" },
    figureTiles.map(([name, value, title]) => el("div", { title }, el("dt", {}, name), el("dd", {}, value))),
  );
}

function legend(exchange) {
  const kinds = new Set(exchange.events.kind.map((code) => exchange.events.kinds[code]));
  const colours = [...new Set([...kinds].map((kind) => KIND_COLOURS[kind]).filter(Boolean))];
  const names = (colour) => [...kinds].filter((kind) => KIND_COLOURS[kind] === colour).join(", ");
  const swatch = (colour, text) => {
    const square = el("i");
    square.style.background = `var(--${colour})`;
    return el("span", {}, square, text);
  };
  const outline = el("i");
  outline.style.border = "1px solid var(--muted)";
  return el(
    "div",
    { class: "legend" },
    el("span", {}, "events:"),
    colours.map((colour) => swatch(colour, names(colour))),
    el("span", {}, "reads, as high as their size:"),
    swatch("muted", "one event"),
    swatch("accent", "several (coalesced)"),
    el("span", {}, outline, "a part of one (split)"),
    exchange.outputs.at.length > 1 ? swatch("content", "output chunks, adding up") : null,
    exchange.tokens.length ? swatch("tool", `tokens by usage: ${format.number(exchange.tokens.at(-1)[1])}`) : null,
  );
}

function gapLegend(exchange) {
  const whole = () => exchange.texts.map((text) => text.pieces.join("")).join("\n\n");
  const names = LEVELS.map(([name], place) => el("span", { class: `g${place}` }, name));
  return el(
    "div",
    { class: "legend" },
    el("span", {}, "a text's colour is the gap before it:"),
    names,
    el("span", { class: "spread" }),
    exchange.texts[0].sizes ? null : copyButton("copy text", whole),
  );
}

const nsColumn = (name, raw, title) =>
  column(name, (row) => (raw(row) === null ? null : raw(row) / 1e6), {
    number: true,
    shown: (value) => format.number(value, 3),
    title,
  });

function eventTable(exchange, jump) {
  const { events } = exchange;
  const rows = events.kind.map((_, event) => event);
  const gap = (event) =>
    event && events.timed[event] !== null && events.timed[event - 1] !== null
      ? events.timed[event] - events.timed[event - 1]
      : null;
  const sharing = (event) => event > 0 && events.read[event] !== null && events.read[event] === events.read[event - 1];
  const columns = [
    column("seq", (event) => event, { number: true }),
    nsColumn("at_ms", (event) => events.timed[event], "since the request"),
    column("gap_ms", (event) => (gap(event) === null ? null : gap(event) / 1e6), {
      number: true,
      title: "since the event before",
      shown: (value, event) => (sharing(event) ? "same read" : format.number(value, 3)),
    }),
    column("kind", (event) => kindOf(exchange, event)),
    column("type", (event) => events.types[events.type[event]]),
    column("read", (event) => events.read[event], { number: true }),
    column("bytes", (event) => events.size[event], { number: true }),
  ];
  if (events.sent.size) columns.push(column("sender", (event) => (events.sent.has(event) ? "client" : "upstream")));
  columns.push(
    column("data", (event) => eventText(exchange, event), {
      long: true,
      mono: true,
      title: "what it adds to the answer, or says",
    }),
  );
  return table("Events", columns, rows, { pick: (event) => jump(events.at[event]), file: `${exchange.id}-events` });
}

function readTable(exchange, choose) {
  const { reads } = exchange;
  const rows = reads.seq.map((_, place) => place);
  const columns = [
    column("seq", (place) => reads.seq[place], { number: true }),
    nsColumn("at_ms", (place) => reads.at[place], "since the request"),
    nsColumn("gap_ms", (place) => (place ? reads.at[place] - reads.at[place - 1] : null), "since the read before"),
    column("size", (place) => reads.size[place], { number: true, title: "bytes" }),
    nsColumn("handed_on_ms", (place) => reads.relayed[place], "from the read until the client had it"),
    column("events", (place) => (exchange.completed.get(reads.seq[place]) || []).length, {
      number: true,
      title: "events that it completed: 0 is a part of one",
    }),
    column("missing_before", (place) => reads.skipped[place], {
      number: true,
      title: "bytes that are not on the tape",
    }),
  ];
  return table("Reads", columns, rows, { pick: choose, file: `${exchange.id}-reads` });
}

function gapTable(exchange, jump) {
  const { outputs } = exchange;
  const rows = outputs.at.map((_, place) => place);
  const columns = [
    column("output", (place) => place, { number: true }),
    column("event", (place) => outputs.event[place], { number: true }),
    nsColumn("at_ms", (place) => outputs.at[place], "since the request"),
    nsColumn("gap_ms", (place) => outputs.gap[place], "since the output chunk before"),
  ];
  return table("Output chunks and the gaps between them", columns, rows, {
    pick: (place) => jump(outputs.at[place]),
    file: `${exchange.id}-gaps`,
  });
}

function phaseTable(exchange, jump) {
  const rows = [
    ...exchange.bars.map((bar) => ({ name: bar.name, from: bar.start_ns, to: bar.end_ns, note: bar.note })),
    ...exchange.verdicts.map((verdict) => ({
      name: verdict.kind,
      from: verdict.from_ns,
      to: verdict.from_ns + verdict.lasted_ns,
      note: `${verdict.sentence}; ${verdict.evidence}`,
    })),
  ].sort((a, b) => a.from - b.from);
  const columns = [
    column("phase", (row) => row.name),
    nsColumn("from_ms", (row) => row.from),
    nsColumn("to_ms", (row) => row.to),
    nsColumn("lasted_ms", (row) => row.to - row.from),
    column("note", (row) => row.note || null, { long: true }),
  ];
  return table("Phases, stalls and bursts", columns, rows, {
    pick: (row) => jump(row.from),
    file: `${exchange.id}-phases`,
  });
}

function figures(exchange) {
  const facts = el(
    "dl",
    { class: "facts" },
    exchange.facts.flatMap(([label, parts]) => [
      el("dt", {}, visible(label)),
      el(
        "dd",
        {},
        parts.map((part) => el("span", { class: "any" }, visible(part))),
      ),
    ]),
  );
  const rows = exchange.slow.map(([name, n, p50, p99, max, meaning]) => ({ name, n, p50, p99, max, meaning }));
  const columns = [
    column("side", (row) => row.name),
    column("n", (row) => row.n, { number: true, shown: (value) => format.number(value) }),
    nsColumn("p50_ms", (row) => row.p50),
    nsColumn("p99_ms", (row) => row.p99),
    nsColumn("max_ms", (row) => row.max),
    column("meaning", (row) => row.meaning, { long: true }),
  ];
  return [
    facts,
    ...(rows.length
      ? [el("h3", {}, "Who was slow?"), ...table("Who was slow", columns, rows, { file: `${exchange.id}-slow` })]
      : []),
  ];
}

function headers(exchange) {
  const part = (title, rows, name) => {
    const columns = [column("name", (row) => row[0]), column("value", (row) => row[1], { long: true, mono: true })];
    return rows.length ? [el("h3", {}, title), ...table(title, columns, rows, { file: `${exchange.id}-${name}` })] : [];
  };
  return [
    ...part("Request", exchange.headers.request, "request-headers"),
    ...part("Response", exchange.headers.response, "response-headers"),
    ...part("Trailers", exchange.headers.trailers, "response-trailers"),
  ];
}

function request(exchange) {
  const { asked } = exchange;
  const parts = [
    el(
      "div",
      { class: "tools" },
      copyButton("copy as curl", () => asked.curl),
    ),
    el("pre", { class: "curl mono any" }, visibleLines(asked.curl)),
  ];
  const storedNote = asked.stored < asked.size ? `, of which the tape keeps ${format.number(asked.stored)}` : "";
  const hash = asked.sha256 ? ` · sha256 ${asked.sha256}` : "";
  parts.push(el("p", { class: "muted any" }, `body of ${format.number(asked.size)} bytes${storedNote}${hash}`));
  if (exchange.askedBody && exchange.askedBody.length) {
    const text = new TextDecoder().decode(exchange.askedBody);
    parts.push(
      el(
        "div",
        { class: "tools" },
        copyButton("copy the body", () => text),
      ),
      el("pre", { class: "curl mono any" }, visibleLines(pretty(text).slice(0, 500000))),
    );
  } else if (asked.size)
    parts.push(el("p", { class: "muted" }, "The body is left out of this page: export it with --with-bodies."));
  return parts;
}

const visibleLines = (text) =>
  text
    .split("\n")
    .map((line) => visible(line.replaceAll("\t", "    ")))
    .join("\n");

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function others(exchange) {
  const names = ["metric", "unit", "n", "value", "mean", "p50", "p99", "max"];
  const rows = exchange.tools.flatMap(({ tool, rows: toolRows }) =>
    toolRows.map((row) => ({ tool, ...Object.fromEntries(names.map((name, place) => [name, row[place]])) })),
  );
  const columns = [
    column("tool", (row) => row.tool),
    ...names.map((name, place) =>
      column(
        name,
        (row) => row[name],
        place < 2 ? {} : { number: true, shown: (value) => format.number(value, name === "n" ? 0 : 2) },
      ),
    ),
  ];
  const notes = exchange.tools.map(({ tool, remarks }) =>
    el(
      "section",
      { class: "tool" },
      el("h3", {}, tool),
      remarks.map((remark) => el("p", { class: "any" }, visible(remark))),
    ),
  );
  return [
    el("p", { class: "muted" }, "This exchange alone, under each tool's own names, units and definitions."),
    ...table("As other tools count it", columns, rows, { file: `${exchange.id}-tools` }),
    ...notes,
  ];
}

// Return the tables behind the pictures: name, title, note, what builds it, and whether there is anything in it.
function tables(exchange, jump, choose) {
  const count = (values, thing) => `${format.number(values.length)} ${thing}${values.length === 1 ? "" : "s"}`;
  return [
    ["figures", "Figures", "as show and stats print them", () => figures(exchange), true],
    [
      "tools",
      "As other tools count it",
      exchange.tools.map(({ tool }) => tool).join(", "),
      () => others(exchange),
      true,
    ],
    [
      "phases",
      "Phases and stalls",
      count([...exchange.bars, ...exchange.verdicts], "row"),
      () => phaseTable(exchange, jump),
      true,
    ],
    [
      "events",
      "Events",
      count(exchange.events.kind, "event"),
      () => eventTable(exchange, jump),
      exchange.events.kind.length,
    ],
    ["reads", "Reads", count(exchange.reads.seq, "read"), () => readTable(exchange, choose), exchange.reads.seq.length],
    [
      "gaps",
      "Gaps",
      count(exchange.outputs.at, "output chunk"),
      () => gapTable(exchange, jump),
      exchange.outputs.at.length,
    ],
    ["headers", "Headers", "credentials redacted", () => headers(exchange), true],
    ["request", "Request", "as curl", () => request(exchange), true],
  ];
}

boot(async (data) => {
  const exchange = unpackExchange(data);
  exchange.body = await unpack("body");
  exchange.askedBody = await unpack("asked");
  const playerPane = player(exchange);
  exchange.savePicture = async () =>
    save(
      `${exchange.id}.png`,
      await playerPane.picture.image(
        `${visible(exchange.title)} · ${exchange.state.text}${exchange.brief ? ` · ${exchange.brief}` : ""}`,
      ),
    );
  const choose = (read) => {
    playerPane.seekRead(read);
    playerPane.bytes.show(read);
    playerPane.bytes.node.scrollIntoView({ block: "nearest" });
  };
  const buttons = switches(exchange);
  const listTables = () => tables(exchange, playerPane.seek, choose);
  const sections = new Map();
  for (const [name, title, note] of listTables()) {
    const build = () => listTables().find((table) => table[0] === name)[3]();
    sections.set(name, section(name, title, note, build));
  }
  const head = block(() => verdictLine(exchange, buttons));
  const tiles = block(() => cards(exchange));
  const notice = block(() => banner(exchange.banner));
  const timelineLegend = block(() => (exchange.reads.at.length ? legend(exchange) : null));
  const textLegend = block(() =>
    exchange.texts.length ? gapLegend(exchange) : el("p", { class: "muted" }, visible(exchange.silence)),
  );
  function hide() {
    for (const [name, , , , isThere] of listTables()) sections.get(name).hidden = !isThere;
    for (const node of [playerPane.controls, playerPane.readout]) node.hidden = !exchange.reads.at.length;
    playerPane.pane.hidden = !exchange.texts.length;
  }
  hide();
  live?.follow(async (fresh) => {
    const [body, askedBody] = [await unpack("body"), await unpack("asked")];
    const isOver = exchange.live.open && !fresh.live.open;
    playerPane.grow({ ...unpackExchange(fresh), body, askedBody });
    hide();
    for (const part of [head, tiles, timelineLegend, textLegend, notice]) part.again();
    for (const [name, , note] of listTables()) sections.get(name).again(note);
    document.title = `${visible(exchange.title)} · wiretape`;
    if (isOver) announce(`over: ${exchange.state.text}`);
  });
  return [
    head.node,
    playerPane.slider,
    timelineLegend.node,
    playerPane.controls,
    playerPane.readout,
    tiles.node,
    playerPane.pane,
    textLegend.node,
    playerPane.bytes.node,
    el("h2", {}, "Figures and tables"),
    [...sections.values()],
    notice.node,
    el("p", { class: "muted" }, `wiretape ${exchange.version}`),
  ];
});
