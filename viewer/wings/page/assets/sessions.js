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
  return run.sessions.each.map((session) => {
    const unpacked = { ...session, name: visible(session.key), stretches: [], rows: [] };
    let at = 0;
    (session.lane?.part ?? []).forEach((code, place) => {
      unpacked.stretches.push({ part: names[code], from: at, to: (at += session.lane.us[place]) });
    });
    if (!session.by_turn) return unpacked;
    const [places, starts] = [undelta(session.by_turn.row), undelta(session.by_turn.start_us)];
    const seen = new Set();
    unpacked.rows = places.map((row, place) => {
      const turn = { number: place + 1, row, start: starts[place], before: names[session.by_turn.before[place]] };
      for (const name of Object.keys(session.by_turn))
        if (name.endsWith("_us")) turn[name] = session.by_turn[name][place];
      turn.start_us = turn.start;
      turn.is_turn = session.by_turn.is_turn[place] === 1;
      // Tokens of a WebSocket are those of all of its turns, and stand at its first.
      const isFirst = row !== null && !seen.has(row);
      seen.add(row);
      const of = (name) => (isFirst ? run.rows[name][row] : null);
      turn.input = of("input_tokens");
      turn.cached = of("cache_read_input_tokens");
      turn.output = of("output_tokens");
      turn.verdict = isFirst ? run.text("cache_verdict", row) : null;
      turn.broken = isFirst ? run.text("cache_broken_at", row) : null;
      const sizes = session.by_turn.context.map((column_) => column_[place]);
      turn.context = isFirst && sizes.some((size) => size !== null) ? sizes.map((size) => size ?? 0) : null;
      return turn;
    });
    return unpacked;
  });
}

// Draw the parts of a session's time in a bar; `x` places a time since its beginning.
function sessionBar(pen, session, x, y, height, colours, hatched) {
  const end = Math.max(x(session.wall_us), x(0) + 1.5);
  // A failure is often short: it is drawn last, and can always be seen.
  const isLast = ({ part }) => part === "failed";
  const ordered = [...session.stretches.filter((part) => !isLast(part)), ...session.stretches.filter(isLast)];
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
function partAt(session, us) {
  return session.stretches.find(({ from, to }) => us >= from && us < to) ?? null;
}

const sessionWords = (session) => [
  session.name,
  session.models.map(visible).join(", "),
  session.asked && visible(session.asked),
];

// Return the picture of the lanes of all sessions, and what changes it. `view.align` says what they have in common.
function sessionLanes(run, view, { onPick, describe }) {
  let hatched = null;
  let [from, to] = [0, 1];
  const begin = (session) => (view.align === "start" ? 0 : session.started_us - run.first);
  const x = (us, width) => ((us - from) / (to - from)) * (width - 8);
  function axis(pen, width) {
    const colours = palette();
    pen.fillStyle = colours.back;
    pen.fillRect(0, 0, width, 22);
    pen.fillStyle = colours.muted;
    pen.textBaseline = "middle";
    const isClock = view.align !== "start";
    const axisTicks = isClock ? clockTicks(run, [from, to], width / 110) : ticks(from, to, width / 110);
    const step = axisTicks.length > 1 ? axisTicks[1] - axisTicks[0] : to - from;
    for (const at of axisTicks) {
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
    view.sessions.forEach((session, place) => {
      const y = place * SESSION_ROW.high;
      if (session.key === view.key) {
        pen.fillStyle = colours.raised;
        pen.fillRect(0, y, width, SESSION_ROW.high);
        pen.fillStyle = colours.accent;
        pen.fillRect(0, y, 2, SESSION_ROW.high);
      }
      const [name, ...details] = sessionWords(session);
      const left = Math.floor(width * 0.42);
      pen.fillStyle = colours.text;
      const shortName = fitting(pen, name, left / 2);
      pen.fillText(shortName, 6, y + SESSION_ROW.words + 3);
      const used = 6 + pen.measureText(shortName).width + 10;
      pen.fillText(fitting(pen, session.said, width - left - 8), left, y + SESSION_ROW.words + 3);
      pen.fillStyle = colours.muted;
      pen.fillText(
        fitting(pen, details.filter(Boolean).join(" · "), left - used - 12),
        used,
        y + SESSION_ROW.words + 3,
      );
      const at = begin(session);
      sessionBar(pen, session, (us) => x(at + us, width) + 4, y + 21, SESSION_ROW.bar, colours, hatched);
    });
  }
  const lanesPicture = picture(SESSION_ROW.high, [base]);
  const top = picture(22, [axis]);
  top.node.classList.add("above");
  theme.listeners.unshift(() => (hatched = null));
  const pointedAt = (event) => {
    const box = lanesPicture.node.getBoundingClientRect();
    const session = view.sessions[Math.floor((event.clientY - box.top) / SESSION_ROW.high)] ?? null;
    const us = from + ((event.clientX - box.left - 4) / (lanesPicture.width - 8)) * (to - from);
    return [session, session && us - begin(session)];
  };
  lanesPicture.node.style.cursor = "pointer";
  lanesPicture.node.addEventListener("click", (event) => pointedAt(event)[0] && onPick(pointedAt(event)[0]));
  lanesPicture.node.addEventListener("pointermove", (event) => describe(...pointedAt(event)));
  lanesPicture.node.addEventListener("pointerleave", () => describe(null));
  const node = el("div", { class: "scroll tall sessionlanes" }, top.node, lanesPicture.node);
  return {
    node,
    update() {
      from = Math.min(...view.sessions.map(begin));
      to = Math.max(...view.sessions.map((session) => begin(session) + session.wall_us), from + 1);
      lanesPicture.resize(view.sessions.length * SESSION_ROW.high + 4);
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
function sessionTable(run, view, onPick) {
  const parts = Object.entries(run.sessions.parts).filter(([name]) =>
    view.sessions.some((session) => session[`${name}_us`]),
  );
  const share = (ms, session) => (ms ? ` · ${format.number((100_000 * ms) / session.wall_us, 1)} %` : "");
  const times = parts.map(([name, meaning]) =>
    msColumn(`${name} ms`, (session) => session[`${name}_us`], `${meaning}; share of the wall time`, share),
  );
  const verdicts = (session) =>
    Object.entries(session.verdicts)
      .map(([name, count]) => `${name} ${format.number(count)}`)
      .join(" · ");
  const columns = [
    column("session", (session) => session.key),
    column("model", (session) => session.models.join(", ")),
    ...(view.sessions.some((session) => session.asked !== null) ? [column("asked", (session) => session.asked)] : []),
    countColumn("exchanges", (session) => session.exchanges),
    countColumn("turns", (session) => session.turns, "generations that ended and did not fail"),
    countColumn("failed", (session) => session.failed),
    ...(view.sessions.some((session) => session.open) ? [countColumn("open", (session) => session.open)] : []),
    msColumn("wall ms", (session) => session.wall_us, "first T0 → last end"),
    ...times,
    msColumn(
      "parallel ms",
      (session) => session.parallel_us,
      "sum of the durations − time with at least one open exchange",
    ),
    countColumn("at once", (session) => session.exchanges_max, "most exchanges open at once"),
    msColumn("TTFT p50 ms", (session) => session.ttft_p50_us, "median time to first token of the turns"),
    countColumn("tokens in", (session) => session.input_tokens),
    countColumn("cached", (session) => session.cache_read_input_tokens, "tokens read from the provider's cache"),
    countColumn("tokens out", (session) => session.output_tokens),
    column("cache", verdicts, { title: "verdicts about the provider's cache, each with the number of its turns" }),
  ];
  return table("Sessions", columns, view.sessions, { pick: onPick, file: "sessions" });
}

// Return what is known of a turn in a line.
function turnLine(run, turn) {
  const parts = [`turn ${turn.number}`, `TTFT ${format.span(turn.ttft_us === null ? null : turn.ttft_us * 1000)}`];
  if (turn.before_us) parts.push(`${turn.before} before it ${format.span(turn.before_us * 1000)}`);
  if (turn.stalled_us) parts.push(`stalled ${format.span(turn.stalled_us * 1000)}`);
  if (turn.failed_us) parts.push("failed");
  if (turn.input !== null)
    parts.push(
      `input ${format.number(turn.input)}${turn.cached === null ? "" : `, ${format.number(turn.cached)} of it cached`}`,
    );
  if (turn.verdict !== null) parts.push(`cache: ${cacheWords(turn)}`);
  const largest = largestOf(run, turn);
  if (largest) parts.push(`${largest.name} ${format.number(largest.size)} of ${format.number(largest.total)} bytes`);
  return parts.join(" · ");
}

const sourceName = (run, place) => run.sessions.sources[place].replaceAll("_", " ");

const cacheWords = (turn) => {
  if (turn.broken === null) return visible(turn.verdict);
  const isRead = turn.verdict === "hit" || turn.verdict === "partial";
  return `${visible(turn.verdict)}${isRead ? ", prompts differ" : ""} at ${visible(turn.broken)}`;
};

// Return the largest source of a turn's request; null if that is unknown.
function largestOf(run, turn) {
  if (!turn.context) return null;
  const size = Math.max(...turn.context);
  const total = turn.context.reduce((all, part) => all + part, 0);
  return { name: sourceName(run, turn.context.indexOf(size)), size, total };
}

// Return a plot over the turns of the chosen session: `layers` gives the sizes of a turn's bar from the bottom up with
// their colours, [] where nothing is known.
function overTurns(view, caption, name, { layers, shown, labelled = null, marked = () => false, describe, onPick }) {
  const [top, bottom] = [14, 18];
  let pointer = null;
  const turnX = (width, number) => BESIDE + ((number - 1) / Math.max(view.turns.length, 1)) * (width - BESIDE - 6);
  const barWidth = (width) => (width - BESIDE - 6) / Math.max(view.turns.length, 1);
  function base(pen, width, tall) {
    const colours = palette();
    const bars = view.turns.map((turn) => layers(turn, colours));
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
    view.turns.forEach((turn, place) => {
      const left = turnX(width, turn.number);
      const gap = room > 6 ? Math.min(room * 0.2, 8) : 0;
      let value = 0;
      for (const [size, colour] of bars[place]) {
        pen.fillStyle = colour;
        pen.fillRect(left + gap / 2, y(value + size), Math.max(room - gap, 0.7), y(value) - y(value + size));
        value += size;
      }
      if (marked(turn)) {
        pen.fillStyle = colours.bad;
        groupSign(pen, 2, left + room / 2, y(value) - 4, -3);
      }
      if (turn.failed_us) {
        pen.fillStyle = colours.bad;
        pen.fillRect(left + gap / 2, tall - bottom - 4, Math.max(room - gap, 1.5), 4);
      }
      pen.fillStyle = colours.muted;
      if (place % every === 0) pen.fillText(String(turn.number), left + room / 2, tall - 8);
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
  const plotPicture = picture(132, [base, over]);
  const turnAt = (event) => {
    const px = event.clientX - plotPicture.node.getBoundingClientRect().left - BESIDE;
    return px < 0 ? null : (view.turns[Math.floor(px / barWidth(plotPicture.width))] ?? null);
  };
  const point = (turn) => {
    pointer = turn;
    plotPicture.draw(1);
    describe(turn);
  };
  plotPicture.node.addEventListener("pointermove", (event) => point(turnAt(event)));
  plotPicture.node.addEventListener("pointerleave", () => point(null));
  plotPicture.node.addEventListener("click", (event) => turnAt(event) && onPick(turnAt(event)));
  return { node: figureOf(() => caption, { picture: plotPicture }, name).node, draw: plotPicture.drawAll };
}

// Return the strip of the chosen session: its parts, on the time since its first request, and where turns begin.
function sessionStrip(view, describe) {
  const stripPicture = picture(62, [
    (pen, width) => {
      const colours = palette();
      const x = (us) => 2 + (us / Math.max(view.chosen.wall_us, 1)) * (width - 4);
      const axisTicks = ticks(0, view.chosen.wall_us, width / 90);
      const step = axisTicks.length > 1 ? axisTicks[1] - axisTicks[0] : view.chosen.wall_us;
      pen.textBaseline = "middle";
      for (const at of axisTicks) {
        pen.fillStyle = colours.line;
        pen.fillRect(Math.round(x(at)), 2, 1, 14);
        pen.fillStyle = colours.muted;
        const label = tickLabel(at * 1000, step * 1000);
        pen.fillText(label, Math.min(x(at) + 3, width - pen.measureText(label).width), 8);
      }
      sessionBar(pen, view.chosen, x, 18, 24, colours, hatch(pen, colours.stall));
      let free = -9;
      for (const turn of view.turns) {
        const px = x(turn.start);
        pen.fillStyle = turn.failed_us ? colours.bad : colours.text;
        pen.fillRect(px, 42, 1, 5);
        if (px < free) continue;
        pen.fillText(String(turn.number), px, 54);
        free = px + pen.measureText(String(turn.number)).width + 6;
      }
    },
  ]);
  stripPicture.node.addEventListener("pointermove", (event) => {
    const px = event.clientX - stripPicture.node.getBoundingClientRect().left;
    describe(view.chosen, ((px - 2) / (stripPicture.width - 4)) * view.chosen.wall_us);
  });
  stripPicture.node.addEventListener("pointerleave", () => describe(null));
  return stripPicture;
}

// Return the table of the chosen session's turns, as show --part time has them.
function turnTable(run, view, onPick) {
  const rows = view.turns;
  const isKnown = (name) => rows.some((turn) => turn[name]);
  const before = (name) => (turn) => (turn.before === name ? turn.before_us : 0);
  const ownParts = ["waiting", "streaming", "stalled", "closing", "failed"].filter((name) => isKnown(`${name}_us`));
  const pauseParts = ["backoff", "tools", "idle"].filter((name) => rows.some(before(name)));
  const { parts } = run.sessions;
  const text_ = (name) => (turn) => (turn.row === null ? null : run.text(name, turn.row));
  const columns = [
    countColumn("turn", (turn) => turn.number),
    column("id", (turn) => (turn.row === null ? null : run.rows.id[turn.row]), {
      mono: true,
      shown: (value) => (value === null ? UNKNOWN : visible(value.slice(0, 8))),
    }),
    column("outcome", text_("outcome")),
    column("cache", (turn) => turn.verdict, { title: "why its prompt was read from the provider's cache, or was not" }),
    column("broken at", (turn) => turn.broken, {
      title: "the first place where the prompt differs from the one before",
    }),
    msColumn("start ms", (turn) => turn.start, "since the first request of the session"),
    ...pauseParts.map((name) => msColumn(`${name} ms`, before(name), `before it: ${parts[name]}`)),
    msColumn("TTFT ms", (turn) => turn.ttft_us),
    ...ownParts.map((name) => msColumn(`${name} ms`, (turn) => turn[`${name}_us`], parts[name])),
    countColumn("tokens in", (turn) => turn.input),
    countColumn("cached", (turn) => turn.cached),
    countColumn("tokens out", (turn) => turn.output),
    column("largest", (turn) => largestOf(run, turn)?.name ?? null, { title: "the largest source of bytes" }),
  ];
  return table("Turns of the session", columns, rows, { pick: onPick, file: "turns" });
}

// Draw the name of the source that is largest in the last request into its stretch of the bars.
function nameLargest(run, view) {
  return (pen, { width, y, turnX, barWidth }) => {
    const last = view.turns.findLast((turn) => turn.context);
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
  const view = {
    sessions: unpackSessions(run),
    align: state.get("align", "clock"),
    key: null,
    chosen: null,
    turns: [],
  };
  const readout = el("p", { class: "readout muted any" });
  const turnReadout = el("p", { class: "readout muted any" });
  function describe(session, us) {
    const part = session && partAt(session, us);
    const at =
      part && `${part.part} ${format.span((part.to - part.from) * 1000)}, from ${format.span(part.from * 1000)}`;
    const words =
      session && [...sessionWords(session), format.span(session.wall_us * 1000), at].filter(Boolean).join(" · ");
    readout.textContent = words ?? "click: select the exchanges of a session, and show its turns";
  }
  const describeTurn = (turn) => (turnReadout.textContent = turn ? turnLine(run, turn) : "");
  const openTurn = (turn) => turn.row !== null && opened(turn.row);
  const lanes = sessionLanes(run, view, { onPick: toggle, describe });
  const tableBlock = block(() => sessionTable(run, view, toggle));
  const strip = sessionStrip(view, (session, us) => {
    const part = session && partAt(session, us);
    turnReadout.textContent = part
      ? `${part.part} ${format.span((part.to - part.from) * 1000)}, from ${format.span(part.from * 1000)}: ${run.sessions.parts[part.part]}`
      : "";
  });
  const plot = (caption, name, options) =>
    overTurns(view, caption, name, { describe: describeTurn, onPick: openTurn, ...options });
  const figures = [
    plot("TTFT of each turn", "ttft-by-turn", {
      layers: (turn, colours) => (turn.is_turn && turn.ttft_us !== null ? [[turn.ttft_us, colours.content]] : []),
      shown: (value) => format.span(value * 1000),
    }),
    plot("input tokens (blue: cached; ▾ too few cached)", "tokens-by-turn", {
      marked: (turn) => turn.verdict !== null && !NO_MISS.has(turn.verdict),
      layers: (turn, colours) =>
        turn.input === null
          ? []
          : [
              [turn.cached ?? 0, colours.content],
              [turn.input - (turn.cached ?? 0), colours.wait],
            ],
      shown: (value) => (value >= 10000 ? `${format.number(value / 1000)}k` : format.number(value)),
    }),
    plot("bytes of the request by source", "context-by-turn", {
      layers: (turn, colours) =>
        turn.context ? turn.context.map((size, place) => [size, sourceColours(colours)[place]]) : [],
      shown: (value) => (value >= 10000 ? `${format.number(value / 1000)} kB` : format.number(value)),
      labelled: nameLargest(run, view),
    }),
  ];
  const head = el("div", { class: "row" });
  const turns = block(() => (view.chosen ? turnTable(run, view, openTurn) : []));
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
      figures.map((figure) => figure.node),
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
  function toggle(session) {
    const isSame = view.key === session.key;
    show(isSame ? null : session);
    select(isSame ? null : session.key);
  }
  function show(session) {
    view.key = session ? session.key : null;
    view.chosen = session;
    view.turns = session ? session.rows : [];
    state.set("session", view.key);
    detail.hidden = !session;
    lanes.update();
    if (!session) return;
    absent.hidden = session.by_turn !== null;
    within.hidden = session.by_turn === null;
    const close = el("button", { onclick: () => toggle(view.chosen) }, "close");
    head.replaceChildren(
      el("p", { class: "any" }, el("strong", {}, session.name), ` ${session.said}`),
      el("span", { class: "spread" }),
      close,
    );
    describeTurn(null);
    sources.hidden = !view.turns.some((turn) => turn.context);
    figures[2].node.hidden = sources.hidden;
    turns.again();
    for (const draw of [strip.drawAll, ...figures.map((figure) => figure.draw)]) draw();
  }
  const align = el(
    "select",
    { "aria-label": "lanes of sessions begin" },
    [
      ["clock", "on the wall clock"],
      ["start", "at the start of each"],
    ].map(([value, label]) => el("option", { value }, label)),
  );
  align.value = view.align === "start" ? "start" : "clock";
  align.addEventListener("change", () => {
    view.align = align.value;
    state.set("align", align.value === "start" ? "start" : null);
    lanes.update();
  });
  const legend = el(
    "div",
    { class: "legend" },
    Object.entries(run.sessions.parts).map(([name, meaning]) => {
      const sign = { idle: "blank", stalled: "hatched" }[name];
      const entry = swatch(SESSION_COLOURS[name], name, sign);
      entry.title = meaning;
      return entry;
    }),
  );
  const node = el(
    "section",
    { class: "sessions", hidden: !view.sessions.length },
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
    tableBlock.node,
  );
  describe(null);
  const chosenBefore = view.sessions.find((session) => session.key === state.get("session"));
  lanes.update();
  if (chosenBefore) show(chosenBefore);
  return {
    node,
    // Take what came since.
    again() {
      view.sessions = unpackSessions(run);
      node.hidden = !view.sessions.length;
      tableBlock.again();
      const chosen = view.sessions.find((session) => session.key === view.key) ?? null;
      if (view.key !== null) show(chosen);
      else lanes.update();
    },
  };
}
