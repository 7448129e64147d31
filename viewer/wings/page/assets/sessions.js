// The sessions of a run: a lane for each on the wall clock, their figures, and the turns of the one that is chosen.

const SESSION_ROW = { high: 40, bar: 15, words: 8 };
const SESSION_COLOURS = {
  streaming: "content",
  stalled: "stall",
  waiting: "wait",
  closing: "muted",
  failed: "bad",
  backoff: "refusal",
  tools: "tool",
};
const NO_MISS = new Set(["hit", "first", "unknown", "unreported"]);
const BESIDE = 58; // where a plot over turns begins

// Return the sessions with the stretches of their lanes and their turns unpacked; times are in µs since each began.
function unpackSessions(run) {
  const names = Object.keys(run.sessions.parts);
  return run.sessions.each.map((one) => {
    const made = { ...one, name: visible(one.key), stretches: [], rows: [] };
    let at = 0;
    (one.lane?.part ?? []).forEach((code, place) => {
      made.stretches.push({ part: names[code], from: at, to: (at += one.lane.us[place]) });
    });
    if (!one.by_turn) return made;
    const [places, starts] = [undelta(one.by_turn.row), undelta(one.by_turn.start_us)];
    const seen = new Set();
    made.rows = places.map((row, place) => {
      const turn = { number: place + 1, row, start: starts[place], before: names[one.by_turn.before[place]] };
      for (const name of Object.keys(one.by_turn)) if (name.endsWith("_us")) turn[name] = one.by_turn[name][place];
      turn.start_us = turn.start;
      turn.is_turn = one.by_turn.is_turn[place] === 1;
      // Tokens of a WebSocket are those of all of its turns, and stand at its first.
      const isFirst = row !== null && !seen.has(row);
      seen.add(row);
      const of = (name) => (isFirst ? run.rows[name][row] : null);
      turn.input = of("input_tokens");
      turn.cached = of("cache_read_input_tokens");
      turn.output = of("output_tokens");
      turn.verdict = isFirst ? run.text("cache_verdict", row) : null;
      turn.broken = isFirst ? run.text("cache_broken_at", row) : null;
      const sizes = one.by_turn.context.map((column_) => column_[place]);
      turn.context = isFirst && sizes.some((size) => size !== null) ? sizes.map((size) => size ?? 0) : null;
      return turn;
    });
    return made;
  });
}

// Draw the parts of a session's time in a bar; `x` places a time since its beginning.
function sessionBar(pen, one, x, y, height, colours, hatched) {
  const end = Math.max(x(one.wall_us), x(0) + 1.5);
  // A failure is often short: it is drawn last, and can always be seen.
  const isLast = ({ part }) => part === "failed";
  const ordered = [...one.stretches.filter((part) => !isLast(part)), ...one.stretches.filter(isLast)];
  for (const { part, from, to } of ordered) {
    if (part === "idle") continue;
    const [left, right] = [x(from), x(to)];
    if (part === "stalled") {
      pen.fillStyle = colours.back;
      pen.fillRect(left, y, right - left, height);
    }
    pen.fillStyle = part === "stalled" ? hatched : colours[SESSION_COLOURS[part]];
    pen.fillRect(left, y, Math.max(right - left, part === "failed" ? 2.5 : 0.5), height);
  }
  pen.strokeStyle = colours.line;
  pen.strokeRect(x(0) + 0.5, y + 0.5, Math.max(end - x(0) - 1, 1), height - 1);
}

// Return the part at a time; null outside of the session.
function partAt(one, us) {
  return one.stretches.find(({ from, to }) => us >= from && us < to) ?? null;
}

const sessionWords = (one) => [one.name, one.models.map(visible).join(", "), one.asked && visible(one.asked)];

// Return the picture of the lanes of all sessions, and what changes it. `kept.align` says what they have in common.
function sessionLanes(run, kept, { picked, told }) {
  let hatched = null;
  let [from, to] = [0, 1];
  const begin = (one) => (kept.align === "start" ? 0 : one.started_us - run.first);
  const x = (us, width) => ((us - from) / (to - from)) * (width - 8);
  function axis(pen, width) {
    const colours = palette();
    pen.fillStyle = colours.back;
    pen.fillRect(0, 0, width, 22);
    pen.fillStyle = colours.muted;
    pen.textBaseline = "middle";
    const isClock = kept.align !== "start";
    const found = isClock ? clockTicks(run, [from, to], width / 110) : ticks(from, to, width / 110);
    const step = found.length > 1 ? found[1] - found[0] : to - from;
    for (const at of found) {
      if (x(at, width) > width - 60) continue;
      const label = isClock ? clock(run, at, step) : tickLabel(at * 1000, step * 1000);
      pen.fillRect(Math.round(x(at, width)) + 4, 4, 1, 18);
      pen.fillText(label, x(at, width) + 8, 9);
    }
  }
  function base(pen, width) {
    const colours = palette();
    hatched ??= hatch(pen, colours.stall);
    pen.textBaseline = "middle";
    kept.sessions.forEach((one, place) => {
      const y = place * SESSION_ROW.high;
      if (one.key === kept.key) {
        pen.fillStyle = colours.raised;
        pen.fillRect(0, y, width, SESSION_ROW.high);
        pen.fillStyle = colours.accent;
        pen.fillRect(0, y, 2, SESSION_ROW.high);
      }
      const [name, ...others] = sessionWords(one);
      const left = Math.floor(width * 0.42);
      pen.fillStyle = colours.text;
      const shown = fitting(pen, name, left / 2);
      pen.fillText(shown, 6, y + SESSION_ROW.words + 3);
      const used = 6 + pen.measureText(shown).width + 10;
      pen.fillText(fitting(pen, one.said, width - left - 8), left, y + SESSION_ROW.words + 3);
      pen.fillStyle = colours.muted;
      pen.fillText(fitting(pen, others.filter(Boolean).join(" · "), left - used - 12), used, y + SESSION_ROW.words + 3);
      const at = begin(one);
      sessionBar(pen, one, (us) => x(at + us, width) + 4, y + 21, SESSION_ROW.bar, colours, hatched);
    });
  }
  const made = picture(SESSION_ROW.high, [base]);
  const top = picture(22, [axis]);
  top.node.classList.add("above");
  theme.listeners.unshift(() => (hatched = null));
  const placed = (event) => {
    const box = made.node.getBoundingClientRect();
    const one = kept.sessions[Math.floor((event.clientY - box.top) / SESSION_ROW.high)] ?? null;
    const us = from + ((event.clientX - box.left - 4) / (made.width - 8)) * (to - from);
    return [one, one && us - begin(one)];
  };
  made.node.style.cursor = "pointer";
  made.node.addEventListener("click", (event) => placed(event)[0] && picked(placed(event)[0]));
  made.node.addEventListener("pointermove", (event) => told(...placed(event)));
  made.node.addEventListener("pointerleave", () => told(null));
  const node = el("div", { class: "scroll tall sessionlanes" }, top.node, made.node);
  return {
    node,
    update() {
      from = Math.min(...kept.sessions.map(begin));
      to = Math.max(...kept.sessions.map((one) => begin(one) + one.wall_us), from + 1);
      made.resize(kept.sessions.length * SESSION_ROW.high + 4);
      top.drawAll();
    },
  };
}

const msColumn = (name, raw, title, more = () => "") =>
  column(name, (row) => (raw(row) === null ? null : raw(row) / 1000), {
    number: true,
    title,
    shown: (value, row) => (value === 0 ? "0" : `${format.number(value, 1)}${more(value, row)}`),
  });
const countColumn = (name, raw, title) =>
  column(name, raw, { number: true, title, shown: (value) => format.number(value) });

// Return the table of all sessions; parts that none of them has are left out.
function sessionTable(run, kept, picked) {
  const parts = Object.entries(run.sessions.parts).filter(([name]) => kept.sessions.some((one) => one[`${name}_us`]));
  const share = (ms, one) => (ms ? ` · ${format.number((100_000 * ms) / one.wall_us, 1)} %` : "");
  const times = parts.map(([name, meaning]) =>
    msColumn(`${name} ms`, (one) => one[`${name}_us`], `${meaning}; share of the wall time`, share),
  );
  const verdicts = (one) =>
    Object.entries(one.verdicts)
      .map(([name, count]) => `${name} ${format.number(count)}`)
      .join(" · ");
  const columns = [
    column("session", (one) => one.key),
    column("model", (one) => one.models.join(", ")),
    ...(kept.sessions.some((one) => one.asked !== null) ? [column("asked", (one) => one.asked)] : []),
    countColumn("exchanges", (one) => one.exchanges),
    countColumn("turns", (one) => one.turns, "generations that ended and did not fail"),
    countColumn("failed", (one) => one.failed),
    ...(kept.sessions.some((one) => one.open) ? [countColumn("open", (one) => one.open)] : []),
    msColumn("wall ms", (one) => one.wall_us, "first T0 → last end"),
    ...times,
    msColumn("parallel ms", (one) => one.parallel_us, "sum of the durations − time with at least one open exchange"),
    countColumn("at once", (one) => one.exchanges_max, "most exchanges open at once"),
    msColumn("TTFT p50 ms", (one) => one.ttft_p50_us, "median time to first token of the turns"),
    countColumn("tokens in", (one) => one.input_tokens),
    countColumn("cached", (one) => one.cache_read_input_tokens, "tokens read from the provider's cache"),
    countColumn("tokens out", (one) => one.output_tokens),
    column("cache", verdicts, { title: "verdicts about the provider's cache, each with the number of its turns" }),
  ];
  return table("Sessions", columns, kept.sessions, { pick: picked, file: "sessions" });
}

// Return what is known of a turn in a line.
function turnLine(run, one) {
  const parts = [`turn ${one.number}`, `TTFT ${format.span(one.ttft_us === null ? null : one.ttft_us * 1000)}`];
  if (one.before_us) parts.push(`${one.before} before it ${format.span(one.before_us * 1000)}`);
  if (one.stalled_us) parts.push(`stalled ${format.span(one.stalled_us * 1000)}`);
  if (one.failed_us) parts.push("failed");
  if (one.input !== null)
    parts.push(
      `input ${format.number(one.input)}${one.cached === null ? "" : `, ${format.number(one.cached)} of it cached`}`,
    );
  if (one.verdict !== null) parts.push(`cache: ${cacheWords(one)}`);
  const largest = largestOf(run, one);
  if (largest) parts.push(`${largest.name} ${format.number(largest.size)} of ${format.number(largest.total)} bytes`);
  return parts.join(" · ");
}

const sourceName = (run, place) => run.sessions.sources[place].replaceAll("_", " ");

const cacheWords = (one) => {
  if (one.broken === null) return visible(one.verdict);
  const isRead = one.verdict === "hit" || one.verdict === "partial";
  return `${visible(one.verdict)}${isRead ? ", prompts differ" : ""} at ${visible(one.broken)}`;
};

// Return the largest source of a turn's request; null if that is unknown.
function largestOf(run, one) {
  if (!one.context) return null;
  const size = Math.max(...one.context);
  const total = one.context.reduce((all, part) => all + part, 0);
  return { name: sourceName(run, one.context.indexOf(size)), size, total };
}

// Return a plot over the turns of the chosen session: `layers` gives the sizes of a turn's bar from the bottom up with
// their colours, [] where nothing is known.
function overTurns(kept, caption, name, { layers, shown, labelled = null, marked = () => false, told, picked }) {
  const [top, bottom] = [14, 18];
  let pointer = null;
  const turnX = (width, number) => BESIDE + ((number - 1) / Math.max(kept.turns.length, 1)) * (width - BESIDE - 6);
  const barWidth = (width) => (width - BESIDE - 6) / Math.max(kept.turns.length, 1);
  function base(pen, width, tall) {
    const colours = palette();
    const bars = kept.turns.map((one) => layers(one, colours));
    const sums = bars.map((parts) => parts.reduce((all, [size]) => all + size, 0));
    const most = Math.max(...sums, 0);
    if (!most) return nothing(pen, width, tall, colours);
    const y = (value) => tall - bottom - (value / most) * (tall - bottom - top);
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    for (const value of ticks(0, most, 3)) {
      pen.fillStyle = colours.line;
      pen.fillRect(BESIDE, Math.round(y(value)), width - BESIDE - 6, 1);
      pen.fillStyle = colours.muted;
      pen.fillText(shown(value), BESIDE - 5, y(value));
    }
    pen.textAlign = "center";
    const room = barWidth(width);
    const every = Math.ceil(26 / room);
    kept.turns.forEach((one, place) => {
      const left = turnX(width, one.number);
      const gap = room > 6 ? Math.min(room * 0.2, 8) : 0;
      let value = 0;
      for (const [size, colour] of bars[place]) {
        pen.fillStyle = colour;
        pen.fillRect(left + gap / 2, y(value + size), Math.max(room - gap, 0.7), y(value) - y(value + size));
        value += size;
      }
      if (marked(one)) {
        pen.fillStyle = colours.bad;
        groupSign(pen, 2, left + room / 2, y(value) - 4, -3);
      }
      if (one.failed_us) {
        pen.fillStyle = colours.bad;
        pen.fillRect(left + gap / 2, tall - bottom - 4, Math.max(room - gap, 1.5), 4);
      }
      pen.fillStyle = colours.muted;
      if (place % every === 0) pen.fillText(String(one.number), left + room / 2, tall - 8);
    });
    pen.textAlign = "left";
    if (labelled) labelled(pen, { width, y, turnX, barWidth, colours });
    return undefined;
  }
  function over(pen, width, tall) {
    if (pointer === null) return;
    pen.strokeStyle = theme.colour("accent");
    pen.strokeRect(turnX(width, pointer.number) + 0.5, top, Math.max(barWidth(width) - 1, 1), tall - top - bottom);
  }
  const made = picture(132, [base, over]);
  const turnAt = (event) => {
    const px = event.clientX - made.node.getBoundingClientRect().left - BESIDE;
    return px < 0 ? null : (kept.turns[Math.floor(px / barWidth(made.width))] ?? null);
  };
  const point = (one) => {
    pointer = one;
    made.draw(1);
    told(one);
  };
  made.node.addEventListener("pointermove", (event) => point(turnAt(event)));
  made.node.addEventListener("pointerleave", () => point(null));
  made.node.addEventListener("click", (event) => turnAt(event) && picked(turnAt(event)));
  return { node: figureOf(() => caption, { picture: made }, name).node, draw: made.drawAll };
}

// Return the strip of the chosen session: its parts, on the time since its first request, and where turns begin.
function sessionStrip(kept, told) {
  const made = picture(62, [
    (pen, width) => {
      const colours = palette();
      const x = (us) => 2 + (us / Math.max(kept.chosen.wall_us, 1)) * (width - 4);
      const found = ticks(0, kept.chosen.wall_us, width / 90);
      const step = found.length > 1 ? found[1] - found[0] : kept.chosen.wall_us;
      pen.textBaseline = "middle";
      for (const at of found) {
        pen.fillStyle = colours.line;
        pen.fillRect(Math.round(x(at)), 2, 1, 14);
        pen.fillStyle = colours.muted;
        const label = tickLabel(at * 1000, step * 1000);
        pen.fillText(label, Math.min(x(at) + 3, width - pen.measureText(label).width), 8);
      }
      sessionBar(pen, kept.chosen, x, 18, 24, colours, hatch(pen, colours.stall));
      let free = -9;
      for (const one of kept.turns) {
        const px = x(one.start);
        pen.fillStyle = one.failed_us ? colours.bad : colours.text;
        pen.fillRect(px, 42, 1, 5);
        if (px < free) continue;
        pen.fillText(String(one.number), px, 54);
        free = px + pen.measureText(String(one.number)).width + 6;
      }
    },
  ]);
  made.node.addEventListener("pointermove", (event) => {
    const px = event.clientX - made.node.getBoundingClientRect().left;
    told(kept.chosen, ((px - 2) / (made.width - 4)) * kept.chosen.wall_us);
  });
  made.node.addEventListener("pointerleave", () => told(null));
  return made;
}

// Return the table of the chosen session's turns, as show --part time has them.
function turnTable(run, kept, picked) {
  const rows = kept.turns;
  const known = (name) => rows.some((one) => one[name]);
  const before = (name) => (one) => (one.before === name ? one.before_us : 0);
  const own = ["waiting", "streaming", "stalled", "closing", "failed"].filter((name) => known(`${name}_us`));
  const between = ["backoff", "tools", "idle"].filter((name) => rows.some(before(name)));
  const { parts } = run.sessions;
  const text_ = (name) => (one) => (one.row === null ? null : run.text(name, one.row));
  const columns = [
    countColumn("turn", (one) => one.number),
    column("id", (one) => (one.row === null ? null : run.rows.id[one.row]), {
      mono: true,
      shown: (value) => (value === null ? UNKNOWN : visible(value.slice(0, 8))),
    }),
    column("outcome", text_("outcome")),
    column("cache", (one) => one.verdict, { title: "why its prompt was read from the provider's cache, or was not" }),
    column("broken at", (one) => one.broken, { title: "the first place where the prompt differs from the one before" }),
    msColumn("start ms", (one) => one.start, "since the first request of the session"),
    ...between.map((name) => msColumn(`${name} ms`, before(name), `before it: ${parts[name]}`)),
    msColumn("TTFT ms", (one) => one.ttft_us),
    ...own.map((name) => msColumn(`${name} ms`, (one) => one[`${name}_us`], parts[name])),
    countColumn("tokens in", (one) => one.input),
    countColumn("cached", (one) => one.cached),
    countColumn("tokens out", (one) => one.output),
    column("largest", (one) => largestOf(run, one)?.name ?? null, { title: "the largest source of bytes" }),
  ];
  return table("Turns of the session", columns, rows, { pick: picked, file: "turns" });
}

// Draw the name of the source that is largest in the last request into its stretch of the bars.
function nameLargest(run, kept) {
  return (pen, { width, y, turnX, barWidth }) => {
    const last = kept.turns.findLast((one) => one.context);
    const place = last.context.indexOf(Math.max(...last.context));
    const below = last.context.slice(0, place).reduce((all, size) => all + size, 0);
    const total = last.context.reduce((all, size) => all + size, 0);
    const share = format.number((100 * last.context[place]) / total);
    const label = `${sourceName(run, place)} ${share} %`;
    const right = turnX(width, last.number) + barWidth(width) - 8;
    const half = pen.measureText(label).width + 8;
    const middle = y(below + last.context[place] / 2);
    pen.fillStyle = theme.colour("back");
    pen.fillRect(right - half, middle - 8, half, 16);
    pen.fillStyle = theme.colour("text");
    pen.fillText(label, right - half + 4, middle + 0.5);
  };
}

const sourceColours = (colours) => [...colours.groups, colours.muted, colours.line];

// Return the part of the page about sessions: `select` selects the exchanges of one, null: all; `opened` opens a row.
function sessionsOf(run, { select, opened }) {
  const kept = {
    sessions: unpackSessions(run),
    align: state.get("align", "clock"),
    key: null,
    chosen: null,
    turns: [],
  };
  const readout = el("p", { class: "readout muted any" });
  const turnReadout = el("p", { class: "readout muted any" });
  function told(one, us) {
    const part = one && partAt(one, us);
    const at =
      part && `${part.part} ${format.span((part.to - part.from) * 1000)}, from ${format.span(part.from * 1000)}`;
    const words = one && [...sessionWords(one), format.span(one.wall_us * 1000), at].filter(Boolean).join(" · ");
    readout.textContent = words ?? "click: select the exchanges of a session, and show its turns";
  }
  const toldTurn = (one) => (turnReadout.textContent = one ? turnLine(run, one) : "");
  const openTurn = (one) => one.row !== null && opened(one.row);
  const lanes = sessionLanes(run, kept, { picked: toggle, told });
  const listed = block(() => sessionTable(run, kept, toggle));
  const strip = sessionStrip(kept, (one, us) => {
    const part = one && partAt(one, us);
    turnReadout.textContent = part
      ? `${part.part} ${format.span((part.to - part.from) * 1000)}, from ${format.span(part.from * 1000)}: ${run.sessions.parts[part.part]}`
      : "";
  });
  const plot = (caption, name, options) =>
    overTurns(kept, caption, name, { told: toldTurn, picked: openTurn, ...options });
  const figures = [
    plot("TTFT of each turn", "ttft-by-turn", {
      layers: (one, colours) => (one.is_turn && one.ttft_us !== null ? [[one.ttft_us, colours.content]] : []),
      shown: (value) => format.span(value * 1000),
    }),
    plot("input tokens (blue: cached; ▾ too few cached)", "tokens-by-turn", {
      marked: (one) => one.verdict !== null && !NO_MISS.has(one.verdict),
      layers: (one, colours) =>
        one.input === null
          ? []
          : [
              [one.cached ?? 0, colours.content],
              [one.input - (one.cached ?? 0), colours.wait],
            ],
      shown: (value) => (value >= 10000 ? `${format.number(value / 1000)}k` : format.number(value)),
    }),
    plot("bytes of the request by source", "context-by-turn", {
      layers: (one, colours) =>
        one.context ? one.context.map((size, place) => [size, sourceColours(colours)[place]]) : [],
      shown: (value) => (value >= 10000 ? `${format.number(value / 1000)} kB` : format.number(value)),
      labelled: nameLargest(run, kept),
    }),
  ];
  const head = el("div", { class: "row" });
  const turns = block(() => (kept.chosen ? turnTable(run, kept, openTurn) : []));
  const sources = el(
    "div",
    { class: "legend" },
    run.sessions.sources.map((_, place) =>
      swatch(place < GROUP_SIGNS ? `group${place}` : ["muted", "line"][place - GROUP_SIGNS], sourceName(run, place)),
    ),
  );
  const absent = el("p", { class: "muted" }, "Its turns are not on this page: wiretape show s:KEY --part time.");
  const within = el(
    "div",
    {},
    strip.node,
    el(
      "div",
      { class: "plots" },
      figures.map((one) => one.node),
    ),
    sources,
    turnReadout,
    turns.node,
  );
  const detail = el(
    "section",
    { class: "opened", hidden: true, "aria-label": "The session that is chosen" },
    head,
    absent,
    within,
  );
  function toggle(one) {
    const isSame = kept.key === one.key;
    show(isSame ? null : one);
    select(isSame ? null : one.key);
  }
  function show(one) {
    kept.key = one ? one.key : null;
    kept.chosen = one;
    kept.turns = one ? one.rows : [];
    state.set("session", kept.key);
    detail.hidden = !one;
    lanes.update();
    if (!one) return;
    absent.hidden = one.by_turn !== null;
    within.hidden = one.by_turn === null;
    const close = el("button", { onclick: () => toggle(kept.chosen) }, "close");
    head.replaceChildren(
      el("p", { class: "any" }, el("strong", {}, one.name), ` ${one.said}`),
      el("span", { class: "spread" }),
      close,
    );
    toldTurn(null);
    sources.hidden = !kept.turns.some((turn) => turn.context);
    figures[2].node.hidden = sources.hidden;
    turns.again();
    for (const each of [strip.drawAll, ...figures.map((figure) => figure.draw)]) each();
  }
  const align = el(
    "select",
    { "aria-label": "lanes of sessions begin" },
    [
      ["clock", "on the wall clock"],
      ["start", "at the start of each"],
    ].map(([value, label]) => el("option", { value }, label)),
  );
  align.value = kept.align === "start" ? "start" : "clock";
  align.addEventListener("change", () => {
    kept.align = align.value;
    state.set("align", align.value === "start" ? "start" : null);
    lanes.update();
  });
  const legend = el(
    "div",
    { class: "legend" },
    Object.entries(run.sessions.parts).map(([name, meaning]) => {
      const sign = { idle: "blank", stalled: "hatched" }[name];
      const made = swatch(SESSION_COLOURS[name], name, sign);
      made.title = meaning;
      return made;
    }),
  );
  const node = el(
    "section",
    { class: "sessions", hidden: !kept.sessions.length },
    el("h2", {}, "Sessions"),
    el(
      "div",
      { class: "row tools" },
      el("label", { class: "small" }, "lanes ", align),
      el(
        "span",
        { class: "muted small" },
        "Time of each session by part, of several at an instant the first; as ls --by conversation.",
      ),
    ),
    lanes.node,
    legend,
    readout,
    detail,
    listed.node,
  );
  told(null);
  const given = kept.sessions.find((one) => one.key === state.get("session"));
  lanes.update();
  if (given) show(given);
  return {
    node,
    // Take what came since.
    again() {
      kept.sessions = unpackSessions(run);
      node.hidden = !kept.sessions.length;
      listed.again();
      const chosen = kept.sessions.find((one) => one.key === kept.key) ?? null;
      if (kept.key !== null) show(chosen);
      else lanes.update();
    },
  };
}
