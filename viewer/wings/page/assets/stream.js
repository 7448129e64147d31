// The page of one exchange.

function verdictLine(one, buttons) {
  const tone = { success: "good", warning: "warn", error: "bad" }[one.state.tone] || "muted";
  // Of many stalls the longest, as in show.
  const isStall = (verdict) => verdict.kind === "stall";
  const ranked = one.verdicts.toSorted((a, b) => isStall(a) - isStall(b) || b.lasted_ns - a.lasted_ns).slice(0, 5);
  const judged = one.verdicts
    .filter((verdict) => ranked.includes(verdict))
    .flatMap((verdict) => [
      el("dt", { class: isStall(verdict) ? "bad" : "warn" }, verdict.kind),
      el("dd", {}, el("p", { class: "any" }, visible(verdict.sentence)), el("p", {}, visible(verdict.evidence))),
    ]);
  const more = one.verdicts.length - ranked.length;
  const others = `and ${more} shorter ${more === 1 ? "stall" : "stalls"}: see phases and stalls`;
  if (more) judged.push(el("dt", {}), el("dd", { class: "muted" }, others));
  if (one.none && one.outputs.at.length)
    judged.push(el("dt", { class: "muted" }, "timing"), el("dd", { class: "muted" }, one.none));
  return el(
    "header",
    { class: "who" },
    el(
      "div",
      { class: "row" },
      el("h1", { class: "any" }, visible(one.model || one.asked.method)),
      el("span", { class: "mono muted" }, one.id),
      el("span", { class: "spread" }),
      buttons,
    ),
    el("p", { class: "mono muted any" }, visible(one.request)),
    el(
      "p",
      { class: "verdict" },
      el("span", { class: `sign ${tone}`, "aria-hidden": "true" }, one.state.sign),
      el("span", { class: tone }, visible(one.state.text)),
      one.status === null ? "" : ` · ${one.status}`,
      one.brief ? el("span", { class: one.stalls.length ? "bad" : "warn" }, ` · ${visible(one.brief)}`) : "",
    ),
    one.reasons.map((reason) => el("p", { class: "any" }, visible(reason))),
    el("dl", { class: "judged" }, judged),
    one.flags.length
      ? el(
          "p",
          { class: "flags" },
          one.flags.map(([flag, meaning], place) => [
            place ? " · " : "",
            el("b", {}, visible(flag)),
            ` ${visible(meaning)}`,
          ]),
        )
      : null,
  );
}

function switches(one) {
  return el(
    "div",
    { class: "switches row" },
    theme.switch(),
    el("button", { onclick: () => one.savePicture() }, "PNG"),
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

function cards(one) {
  const isStream = !one.flags.some(([flag]) => flag === "nonstream");
  const figures = one.figures;
  const ms = (value) => exactly(value, "ms");
  const found = [
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
    found.map(([name, value, title]) => el("div", { title }, el("dt", {}, name), el("dd", {}, value))),
  );
}

function legend(one) {
  const kinds = new Set(one.events.kind.map((code) => one.events.kinds[code]));
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
    one.outputs.at.length > 1 ? swatch("content", "output chunks, adding up") : null,
    one.tokens.length ? swatch("tool", `tokens by usage: ${format.number(one.tokens.at(-1)[1])}`) : null,
  );
}

function gapLegend(one) {
  const whole = () => one.texts.map((text) => text.pieces.join("")).join("\n\n");
  const names = LEVELS.map(([name], place) => el("span", { class: `g${place}` }, name));
  return el(
    "div",
    { class: "legend" },
    el("span", {}, "a text's colour is the gap before it:"),
    names,
    el("span", { class: "spread" }),
    one.texts[0].sizes ? null : copyButton("copy text", whole),
  );
}

const nsColumn = (name, raw, title) =>
  column(name, (row) => (raw(row) === null ? null : raw(row) / 1e6), {
    number: true,
    shown: (value) => format.number(value, 3),
    title,
  });

function eventTable(one, jump) {
  const { events } = one;
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
    column("kind", (event) => kindOf(one, event)),
    column("type", (event) => events.types[events.type[event]]),
    column("read", (event) => events.read[event], { number: true }),
    column("bytes", (event) => events.size[event], { number: true }),
  ];
  if (events.sent.size) columns.push(column("sender", (event) => (events.sent.has(event) ? "client" : "upstream")));
  columns.push(
    column("data", (event) => told(one, event), {
      long: true,
      mono: true,
      title: "what it adds to the answer, or says",
    }),
  );
  return table("Events", columns, rows, { pick: (event) => jump(events.at[event]), file: `${one.id}-events` });
}

function readTable(one, choose) {
  const { reads } = one;
  const rows = reads.seq.map((_, place) => place);
  const columns = [
    column("seq", (place) => reads.seq[place], { number: true }),
    nsColumn("at_ms", (place) => reads.at[place], "since the request"),
    nsColumn("gap_ms", (place) => (place ? reads.at[place] - reads.at[place - 1] : null), "since the read before"),
    column("size", (place) => reads.size[place], { number: true, title: "bytes" }),
    nsColumn("handed_on_ms", (place) => reads.relayed[place], "from the read until the client had it"),
    column("events", (place) => (one.completed.get(reads.seq[place]) || []).length, {
      number: true,
      title: "events that it completed: 0 is a part of one",
    }),
    column("missing_before", (place) => reads.skipped[place], {
      number: true,
      title: "bytes that are not on the tape",
    }),
  ];
  return table("Reads", columns, rows, { pick: choose, file: `${one.id}-reads` });
}

function gapTable(one, jump) {
  const { outputs } = one;
  const rows = outputs.at.map((_, place) => place);
  const columns = [
    column("output", (place) => place, { number: true }),
    column("event", (place) => outputs.event[place], { number: true }),
    nsColumn("at_ms", (place) => outputs.at[place], "since the request"),
    nsColumn("gap_ms", (place) => outputs.gap[place], "since the output chunk before"),
  ];
  return table("Output chunks and the gaps between them", columns, rows, {
    pick: (place) => jump(outputs.at[place]),
    file: `${one.id}-gaps`,
  });
}

function phaseTable(one, jump) {
  const rows = [
    ...one.bars.map((bar) => ({ name: bar.name, from: bar.start_ns, to: bar.end_ns, note: bar.note })),
    ...one.verdicts.map((verdict) => ({
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
  return table("Phases, stalls and bursts", columns, rows, { pick: (row) => jump(row.from), file: `${one.id}-phases` });
}

function figures(one) {
  const facts = el(
    "dl",
    { class: "facts" },
    one.facts.flatMap(([label, parts]) => [
      el("dt", {}, visible(label)),
      el(
        "dd",
        {},
        parts.map((part) => el("span", { class: "any" }, visible(part))),
      ),
    ]),
  );
  const rows = one.slow.map(([name, n, p50, p99, max, meaning]) => ({ name, n, p50, p99, max, meaning }));
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
      ? [el("h3", {}, "Who was slow?"), ...table("Who was slow", columns, rows, { file: `${one.id}-slow` })]
      : []),
  ];
}

function headers(one) {
  const part = (title, found, name) => {
    const columns = [column("name", (row) => row[0]), column("value", (row) => row[1], { long: true, mono: true })];
    return found.length ? [el("h3", {}, title), ...table(title, columns, found, { file: `${one.id}-${name}` })] : [];
  };
  return [
    ...part("Request", one.headers.request, "request-headers"),
    ...part("Response", one.headers.response, "response-headers"),
    ...part("Trailers", one.headers.trailers, "response-trailers"),
  ];
}

function request(one) {
  const { asked } = one;
  const parts = [
    el(
      "div",
      { class: "tools" },
      copyButton("copy as curl", () => asked.curl),
    ),
    el("pre", { class: "curl mono any" }, visibleLines(asked.curl)),
  ];
  const kept = asked.stored < asked.size ? `, of which the tape keeps ${format.number(asked.stored)}` : "";
  const hash = asked.sha256 ? ` · sha256 ${asked.sha256}` : "";
  parts.push(el("p", { class: "muted any" }, `body of ${format.number(asked.size)} bytes${kept}${hash}`));
  if (one.askedBody && one.askedBody.length) {
    const text = new TextDecoder().decode(one.askedBody);
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
    .map((one) => visible(one.replaceAll("\t", "    ")))
    .join("\n");

function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function others(one) {
  const names = ["metric", "unit", "n", "value", "mean", "p50", "p99", "max"];
  const rows = one.tools.flatMap(({ tool, rows: found }) =>
    found.map((row) => ({ tool, ...Object.fromEntries(names.map((name, place) => [name, row[place]])) })),
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
  const notes = one.tools.map(({ tool, remarks }) =>
    el(
      "section",
      { class: "tool" },
      el("h3", {}, tool),
      remarks.map((remark) => el("p", { class: "any" }, visible(remark))),
    ),
  );
  return [
    el("p", { class: "muted" }, "This exchange alone, under each tool's own names, units and definitions."),
    ...table("As other tools count it", columns, rows, { file: `${one.id}-tools` }),
    ...notes,
  ];
}

// Return the tables behind the pictures: name, title, note, what builds it, and whether there is anything in it.
function tables(one, jump, choose) {
  const count = (values, thing) => `${format.number(values.length)} ${thing}${values.length === 1 ? "" : "s"}`;
  return [
    ["figures", "Figures", "as show and stats print them", () => figures(one), true],
    ["tools", "As other tools count it", one.tools.map(({ tool }) => tool).join(", "), () => others(one), true],
    ["phases", "Phases and stalls", count([...one.bars, ...one.verdicts], "row"), () => phaseTable(one, jump), true],
    ["events", "Events", count(one.events.kind, "event"), () => eventTable(one, jump), one.events.kind.length],
    ["reads", "Reads", count(one.reads.seq, "read"), () => readTable(one, choose), one.reads.seq.length],
    ["gaps", "Gaps", count(one.outputs.at, "output chunk"), () => gapTable(one, jump), one.outputs.at.length],
    ["headers", "Headers", "credentials redacted", () => headers(one), true],
    ["request", "Request", "as curl", () => request(one), true],
  ];
}

boot(async (data) => {
  const one = exchange(data);
  one.body = await unpack("body");
  one.askedBody = await unpack("asked");
  const shown = player(one);
  one.savePicture = async () =>
    save(
      `${one.id}.png`,
      await shown.picture.image(`${visible(one.title)} · ${one.state.text}${one.brief ? ` · ${one.brief}` : ""}`),
    );
  const choose = (read) => {
    shown.seekRead(read);
    shown.bytes.show(read);
    shown.bytes.node.scrollIntoView({ block: "nearest" });
  };
  const buttons = switches(one);
  const listed = () => tables(one, shown.seek, choose);
  const sections = new Map();
  for (const [name, title, note] of listed()) {
    const build = () => listed().find((table) => table[0] === name)[3]();
    sections.set(name, section(name, title, note, build));
  }
  const head = block(() => verdictLine(one, buttons));
  const tiles = block(() => cards(one));
  const left = block(() => banner(one.banner));
  const under = block(() => (one.reads.at.length ? legend(one) : null));
  const said = block(() => (one.texts.length ? gapLegend(one) : el("p", { class: "muted" }, visible(one.silence))));
  function hide() {
    for (const [name, , , , isThere] of listed()) sections.get(name).hidden = !isThere;
    for (const node of [shown.controls, shown.readout]) node.hidden = !one.reads.at.length;
    shown.pane.hidden = !one.texts.length;
  }
  hide();
  live?.follow(async (fresh) => {
    const [body, askedBody] = [await unpack("body"), await unpack("asked")];
    const isOver = one.live.open && !fresh.live.open;
    shown.grow({ ...exchange(fresh), body, askedBody });
    hide();
    for (const part of [head, tiles, under, said, left]) part.again();
    for (const [name, , note] of listed()) sections.get(name).again(note);
    document.title = `${visible(one.title)} · wiretape`;
    if (isOver) announce(`over: ${one.state.text}`);
  });
  return [
    head.node,
    shown.slider,
    under.node,
    shown.controls,
    shown.readout,
    tiles.node,
    shown.pane,
    said.node,
    shown.bytes.node,
    el("h2", {}, "Figures and tables"),
    [...sections.values()],
    left.node,
    el("p", { class: "muted" }, `wiretape ${one.version}`),
  ];
});
