// The timeline of one exchange: phases and stalls, events, reads, and gaps on a log scale, on one axis of time.

const LANES = { phases: 22, high: 36, marks: 66, events: 84, reads: 130, gaps: 180, end: 312 };
const KIND_COLOURS = {
  content: "content",
  reasoning: "reasoning",
  tool: "tool",
  refusal: "refusal",
  error: "bad",
  malformed: "bad",
  sent: "accent",
  boundary: "muted",
  comment: "muted",
  ping: "muted",
  pong: "muted",
};
const GAP_COLOURS = ["muted", "text", "accent", "warn", "bad"];

// Return the timeline: its picture, and what changes it. `at` gives the playhead, `moved` is called with a time to go
// to, `chosen` with a read.
function timeline(exchange, { stateStore, at, moved, chosen, hovered }) {
  let view = [0, exchange.end];
  let brush = null;
  let pointer = null;
  const left = 52;
  let right = 84;
  let hasGaps, bottom, segments, columns, smallest, largest, ticksApart, end;
  // What comes at the very end still has its tick.
  const x = (ns, width) => left + ((ns - view[0]) / (view[1] - view[0])) * (width - left - right);
  const time = (px, width) => view[0] + ((px - left) / (width - left - right)) * (view[1] - view[0]);
  const clamp = (ns) => Math.min(Math.max(ns, 0), exchange.end);

  // The width of a tick: less than what lies between two.
  const apart = (times) => {
    const between = times
      .slice(1)
      .map((ns, place) => ns - times[place])
      .filter(Boolean)
      .sort((a, b) => a - b);
    return between[between.length >> 1] || exchange.end;
  };

  function measure() {
    end = exchange.end;
    hasGaps = exchange.outputs.gap.some((gap) => gap > 0);
    bottom = hasGaps ? LANES.end : LANES.reads + 40;
    segments = stretches(exchange);
    columns = stacked(exchange);
    [smallest, largest] = minmax(exchange.reads.size.filter((size) => size)).map(Math.log);
    ticksApart = { events: apart(columns.list.map((column) => column.at)), reads: apart(exchange.reads.at) };
  }
  measure();

  const tickWidth = (lane, width) =>
    Math.min(4, Math.max(1.5, (ticksApart[lane] / (view[1] - view[0])) * (width - left - right) * 0.6));

  function base(pen, width) {
    right = width < 640 ? 12 : 84;
    const colours = Object.fromEntries(
      [...Object.values(KIND_COLOURS), ...GAP_COLOURS, "wait", "line", "stall", "raised", "good", "back"].map(
        (name) => [name, theme.colour(name)],
      ),
    );
    pen.save();
    axis(pen, width, colours);
    pen.beginPath();
    pen.rect(left - 4, 0, width - left - right + 8, bottom);
    pen.clip();
    tints(pen, width, colours);
    phases(pen, width, colours);
    marks(pen, width, colours);
    eventLane(pen, width, colours);
    readLane(pen, width, colours);
    pen.restore();
    if (hasGaps) gapLane(pen, width, colours);
    pen.fillStyle = colours.muted;
    pen.textBaseline = "middle";
    const names = [
      ["phases", LANES.phases + 18],
      ["events", LANES.events + 24],
      ["reads", LANES.reads + 24],
      ["gaps", hasGaps ? LANES.gaps - 3 : -99],
    ];
    for (const [name, y] of names) pen.fillText(name, 0, y);
  }

  function axis(pen, width, colours) {
    if (exchange.end <= 1) {
      pen.fillStyle = colours.muted;
      pen.textBaseline = "top";
      pen.fillText("no timestamps", left, 0);
      return;
    }
    const found = timeTicks(view[0], view[1], (width - left - right) / 90);
    const step = found.length > 1 ? found[1] - found[0] : view[1] - view[0];
    pen.textBaseline = "top";
    for (const ns of found) {
      const px = Math.round(x(ns, width)) + 0.5;
      pen.strokeStyle = colours.line;
      pen.globalAlpha = 0.6;
      pen.beginPath();
      pen.moveTo(px, 14);
      pen.lineTo(px, bottom);
      pen.stroke();
      pen.globalAlpha = 1;
      pen.fillStyle = colours.muted;
      pen.textAlign = px > width - right - 20 ? "right" : px < left + 20 ? "left" : "center";
      pen.fillText(tickLabel(ns, step, exchange.end), px, 0);
    }
    pen.textAlign = "left";
  }

  // Stalls go through all lanes, so that the eye finds what they interrupted.
  function tints(pen, width, colours) {
    pen.fillStyle = colours.stall;
    pen.globalAlpha = 0.08;
    for (const stall of exchange.stalls) {
      const from = x(stall.from_ns, width);
      pen.fillRect(from, LANES.phases, x(stall.from_ns + stall.lasted_ns, width) - from, bottom - LANES.phases);
    }
    pen.globalAlpha = 1;
  }

  function phases(pen, width, colours) {
    const top = LANES.phases;
    pen.textBaseline = "middle";
    const box = (from, to, colour, texts, least) => {
      const start = x(from, width);
      const size = Math.max(x(to, width) - start, least);
      pen.fillStyle = colour;
      pen.fillRect(start, top, size, LANES.high);
      if (size < 30) return;
      pen.fillStyle = inkOn(colour);
      const inside = Math.max(start, left);
      const stall = exchange.stalls.find((other) => other.from_ns > from);
      const room = Math.min(start + size, width - right, stall ? x(stall.from_ns, width) : Infinity) - inside - 10;
      pen.fillText(texts.find((text) => pen.measureText(text).width <= room) || "", inside + 5, top + LANES.high / 2);
    };
    for (const bar of exchange.bars) {
      if (bar.kind === "wait")
        box(bar.start_ns, bar.end_ns, colours.wait, named(bar.name, bar.end_ns - bar.start_ns), 1);
    }
    for (const { kind, start, end, count } of segments) {
      const things = `${format.number(count)} ${count === 1 ? "event" : "events"}`;
      box(
        start,
        end,
        colours[KIND_COLOURS[kind]],
        [`${kind} · ${things} · ${format.span(end - start)}`, ...named(kind, end - start)],
        2,
      );
    }
    pen.strokeStyle = colours.back;
    for (const bar of exchange.bars) {
      if (bar.kind === "wait")
        pen.strokeRect(
          x(bar.start_ns, width) - 0.5,
          top - 1,
          x(bar.end_ns, width) - x(bar.start_ns, width),
          LANES.high + 2,
        );
    }
    const lines = hatch(pen, colours.stall);
    for (const stall of exchange.stalls) {
      const start = x(stall.from_ns, width);
      const size = Math.max(x(stall.from_ns + stall.lasted_ns, width) - start, 3);
      pen.fillStyle = colours.back;
      pen.fillRect(start, top, size, LANES.high);
      pen.fillStyle = lines;
      pen.fillRect(start, top, size, LANES.high);
      pen.strokeStyle = colours.stall;
      pen.strokeRect(start + 0.5, top + 0.5, size - 1, LANES.high - 1);
    }
  }

  // The length of a stall, and below it the words that it interrupted, as far as there is room.
  function stallLabel(pen, stall, width) {
    const start = Math.max(x(stall.from_ns, width), left);
    const room = Math.min(x(stall.from_ns + stall.lasted_ns, width), width - right) - start;
    const words = stall.before || stall.after ? `${quoted(stall.before, true)} … ${quoted(stall.after)}` : "";
    const fits = (text) => pen.measureText(text).width <= room - 14;
    pen.font = `bold ${FONT}`;
    const lasted = `stall ${format.span(stall.lasted_ns)}`;
    const length = [`${lasted} · ${stall.who || "unclear"}`, lasted, format.span(stall.lasted_ns)].find(fits);
    if (!length) return;
    const bold = pen.measureText(length).width;
    pen.font = FONT;
    const below = words && (fits(words) ? words : fitting(pen, words, room - 14));
    const wide = Math.max(bold, below ? pen.measureText(below).width : 0) + 8;
    const high = below ? 30 : 18;
    const top = LANES.phases + (LANES.high - high) / 2;
    pen.fillStyle = theme.colour("back");
    pen.fillRect(start + (room - wide) / 2, top, wide, high);
    pen.fillStyle = theme.colour("text");
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    if (below) pen.fillText(below, start + room / 2, top + 22);
    pen.font = `bold ${FONT}`;
    pen.fillText(length, start + room / 2, top + 9);
    pen.font = FONT;
    pen.textAlign = "left";
  }

  // What happened at an instant; a label that would stand in another one's place is left out.
  function marks(pen, width, colours) {
    let until = -Infinity;
    pen.textBaseline = "top";
    for (const [name, ns] of exchange.marks) {
      const px = x(ns, width);
      if (px < left - 1 || px > width - right + 1) continue;
      pen.fillStyle = /^(error|end:)/.test(name) ? colours.bad : colours.text;
      pen.fillRect(Math.round(px), LANES.phases + LANES.high, 1, 7);
      const wide = pen.measureText(name).width;
      const begin = Math.min(px + 4, width - right - wide);
      if (begin < until + 6) continue;
      pen.fillText(name, begin, LANES.marks);
      until = begin + wide;
    }
  }

  function eventLane(pen, width, colours) {
    const high = 34;
    const cell = Math.min(12, Math.max(high / columns.most, 1));
    const wide = tickWidth("events", width);
    const [from, to] = seen(columns.list, (column) => column.at);
    for (const { at: ns, events } of columns.list.slice(from, to)) {
      const px = x(ns, width) - wide / 2;
      let up = 0;
      for (const event of events) {
        pen.fillStyle = colours[KIND_COLOURS[kindOf(exchange, event)] || "muted"];
        const sent = exchange.events.sent.has(event);
        const y = sent ? LANES.events - 2 : LANES.events + high - up - cell;
        pen.fillRect(px, y, wide, Math.max(cell - 1, 0.6));
        if (!sent) up = Math.min(up + cell, high - cell);
      }
    }
    pen.fillStyle = colours.line;
    pen.fillRect(left, LANES.events + high, width - left - right, 1);
  }

  function readLane(pen, width, colours) {
    const high = 34;
    const base = LANES.reads + high;
    const { at: times, size, seq } = exchange.reads;
    const wide = tickWidth("reads", width);
    const [from, to] = seen(times, (ns) => ns);
    const labels = [];
    for (let place = from; place < to; place += 1) {
      const many = (exchange.completed.get(seq[place]) || []).length;
      const px = x(times[place], width);
      const tall = size[place] ? 8 + (18 * (Math.log(size[place]) - smallest)) / (largest - smallest || 1) : 2;
      pen.fillStyle = many > 1 ? colours.accent : colours.muted;
      if (many) pen.fillRect(px - wide / 2, base - tall, wide, tall);
      else {
        // A part of an event: only its outline.
        pen.strokeStyle = colours.muted;
        pen.lineWidth = 1;
        pen.strokeRect(px - Math.max(wide, 3) / 2 + 0.5, base - tall + 0.5, Math.max(wide, 3) - 1, tall - 1);
      }
      if (many > 1) labels.push({ many, px, y: base - tall - 1 });
    }
    readLabels(pen, labels, width - right + 2);
    pen.fillStyle = colours.line;
    pen.fillRect(left, base, width - left - right, 1);
  }

  // How many events reads brought, where there is room for it: of reads that are close together, that with the most.
  function readLabels(pen, labels, end) {
    const taken = [];
    const apart = labels.length * 30 > end - left ? 90 : 12;
    pen.textBaseline = "bottom";
    for (const { many, px, y } of labels.sort((a, b) => b.many - a.many || a.px - b.px)) {
      const text = `×${many}`;
      const half = pen.measureText(text).width / 2;
      const middle = Math.min(Math.max(px, left + half), end - half);
      const place = after(taken, middle);
      const least = 2 * half + apart;
      if (middle - (taken[place - 1] ?? -Infinity) < least || (taken[place] ?? Infinity) - middle < least) continue;
      taken.splice(place, 0, middle);
      pen.fillText(text, middle - half, y);
    }
  }

  function gapLane(pen, width, colours) {
    const top = LANES.gaps + 12;
    const floor = LANES.end - 18;
    const { at: times, gap } = exchange.outputs;
    const above = gap.filter((ns) => ns > 0);
    const low = Math.min(Math.floor(Math.log10(minmax(above)[0])), 6);
    const high = Math.max(Math.log10(minmax(above)[1]) + 0.15, 8.15);
    const y = (ns) =>
      ns > 0 ? floor - ((Math.log10(Math.max(ns, 10 ** low)) - low) / (high - low)) * (floor - top) : LANES.end - 5;
    pen.textBaseline = "middle";
    pen.textAlign = "right";
    for (let power = low; power <= high; power += 1) {
      pen.fillStyle = colours.line;
      pen.fillRect(left, Math.round(y(10 ** power)), width - left - right, 1);
      pen.fillStyle = colours.muted;
      pen.fillText(format.span(10 ** power).replace(/\.0+ /, " "), left - 6, y(10 ** power));
    }
    pen.fillText("0", left - 6, y(0));
    pen.textAlign = "left";
    pen.save();
    pen.beginPath();
    pen.rect(left - 3, LANES.gaps, width - left - right + 6, LANES.end - LANES.gaps);
    pen.clip();
    sums(pen, width, colours, top, floor);
    const [from, to] = seen(times, (ns) => ns);
    const size = to - from > 3 * (width - left - right) ? 2 : 4;
    pen.globalAlpha = size / 4;
    for (let place = Math.max(from, 1); place < to; place += 1) {
      pen.fillStyle = colours[GAP_COLOURS[level(gap[place])]];
      pen.fillRect(x(times[place], width) - size / 2, y(gap[place]) - size / 2, size, size);
    }
    pen.globalAlpha = 1;
    pen.restore();
    const lines = [
      ["p99", exchange.figures.gap_p99_ms],
      ["p50", exchange.figures.gap_p50_ms],
    ].filter(([, value]) => value !== null);
    let above99 = -99;
    for (const [name, value] of lines) {
      const line = y(value * 1e6);
      pen.strokeStyle = pen.fillStyle = colours.text;
      pen.setLineDash([5, 4]);
      pen.beginPath();
      pen.moveTo(left, line);
      pen.lineTo(width - right, line);
      pen.stroke();
      pen.setLineDash([]);
      above99 = Math.max(right > 12 ? line : line - 8, above99 + 13);
      const text = `${name} ${format.span(value * 1e6)}`;
      const begin = right > 12 ? width - right + 12 : width - right - pen.measureText(text).width;
      pen.fillStyle = colours.back;
      pen.fillRect(begin - 3, above99 - 7, width - begin, 14);
      pen.fillStyle = colours.text;
      pen.fillText(text, begin, above99);
    }
  }

  // Output chunks as they add up, and the tokens that usage reported.
  function sums(pen, width, colours, top, floor) {
    const times = exchange.outputs.at;
    const y = (count) => floor - (count / times.length) * (floor - top);
    pen.strokeStyle = colours.content;
    pen.globalAlpha = 0.55;
    pen.lineWidth = 1.5;
    pen.beginPath();
    pen.moveTo(x(0, width), y(0));
    times.forEach((ns, place) => {
      pen.lineTo(x(ns, width), y(place));
      pen.lineTo(x(ns, width), y(place + 1));
    });
    pen.lineTo(x(exchange.end, width), y(times.length));
    pen.stroke();
    pen.globalAlpha = 1;
    pen.lineWidth = 1;
    const most = exchange.tokens.length ? Math.max(...exchange.tokens.slice(-1).map((pair) => pair[1]), 1) : 1;
    const point = ([ns, count]) => [x(ns, width), floor - (count / most) * (floor - top)];
    pen.fillStyle = colours.tool;
    for (const pair of exchange.tokens) {
      const [px, py] = point(pair);
      pen.beginPath();
      pen.moveTo(px, py - 4);
      pen.lineTo(px + 4, py);
      pen.lineTo(px, py + 4);
      pen.lineTo(px - 4, py);
      pen.fill();
    }
  }

  // Return which of an ascending list are in view.
  function seen(list, ns) {
    let from = 0;
    let to = list.length;
    if (view[0] > 0 || view[1] < exchange.end) {
      const times = list.map(ns);
      from = Math.max(after(times, view[0]) - 2, 0);
      to = Math.min(after(times, view[1]) + 1, list.length);
    }
    return [from, to];
  }

  function over(pen, width) {
    const px = x(at(), width);
    const edge = Math.max(px, left);
    if (at() < exchange.end && edge < width - right) {
      pen.fillStyle = theme.colour("back");
      pen.globalAlpha = 0.68;
      pen.fillRect(edge, LANES.phases, width - right - edge + 8, bottom - LANES.phases);
      pen.globalAlpha = 1;
    }
    exchange.stalls.slice(0, 100).forEach((stall) => stallLabel(pen, stall, width));
    if (brush) {
      pen.fillStyle = theme.colour("accent");
      pen.globalAlpha = 0.2;
      pen.fillRect(Math.min(...brush), LANES.phases, Math.abs(brush[1] - brush[0]), bottom - LANES.phases);
      pen.globalAlpha = 1;
    }
    if (pointer !== null) {
      pen.fillStyle = theme.colour("muted");
      pen.fillRect(Math.round(pointer), LANES.phases, 1, bottom - LANES.phases);
    }
    if (px >= left - 1 && px <= width - right + 1) {
      pen.fillStyle = theme.colour("text");
      pen.globalAlpha = at() < exchange.end ? 1 : 0.35;
      pen.fillRect(Math.round(px) - 1, 14, 2, bottom - 14);
      pen.globalAlpha = 1;
      pen.beginPath();
      pen.moveTo(px - 5, 14);
      pen.lineTo(px + 5, 14);
      pen.lineTo(px, 21);
      pen.fill();
    }
  }

  const made = picture(bottom, [base, over]);
  const node = made.node;
  const place = (event) => {
    const box = node.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const nearest = (px) => {
    const ns = time(px, made.width);
    const next = after(exchange.reads.at, ns);
    const near = [next - 1, next].filter((read) => read >= 0 && read < exchange.reads.at.length);
    return near.sort((a, b) => Math.abs(exchange.reads.at[a] - ns) - Math.abs(exchange.reads.at[b] - ns))[0] ?? null;
  };
  node.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    const [px, py] = place(event);
    node.setPointerCapture(event.pointerId);
    if (event.shiftKey) brush = [px, px];
    else if (py >= LANES.events && py < LANES.gaps - 8 && nearest(px) !== null) chosen(nearest(px));
    else moved(clamp(time(px, made.width)));
  });
  node.addEventListener("pointermove", (event) => {
    const [px] = place(event);
    pointer = px >= left && px <= made.width - right ? px : null;
    if (brush) brush[1] = px;
    else if (event.buttons & 1) moved(clamp(time(px, made.width)));
    hovered(pointer === null ? null : { ns: clamp(time(px, made.width)), read: nearest(px) });
    made.draw(1);
  });
  node.addEventListener("pointerup", () => {
    if (brush && Math.abs(brush[1] - brush[0]) > 4)
      show(...brush.map((px) => time(px, made.width)).sort((a, b) => a - b));
    brush = null;
    made.draw(1);
  });
  node.addEventListener("pointerleave", () => {
    pointer = null;
    hovered(null);
    made.draw(1);
  });
  node.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      zoom(event.deltaY < 0 ? 1.25 : 0.8, time(place(event)[0], made.width));
    },
    { passive: false },
  );

  function show(from, to) {
    const size = Math.max(to - from, Math.min(exchange.end, 20000));
    const begin = Math.min(Math.max(from, 0), exchange.end - Math.min(size, exchange.end));
    view = [begin, Math.min(begin + size, exchange.end)];
    stateStore.set("zoom", view[0] > 0 || view[1] < exchange.end ? view.map((ns) => Math.round(ns)).join("-") : null);
    made.drawAll();
  }

  function zoom(factor, around = at()) {
    const middle = Math.min(Math.max(around, view[0]), view[1]);
    show(middle - (middle - view[0]) / factor, middle + (view[1] - middle) / factor);
  }

  const given = (stateStore.get("zoom") || "").split("-").map(Number);
  if (given.length === 2 && given[0] < given[1]) view = [Math.max(given[0], 0), Math.min(given[1], exchange.end)];
  return {
    picture: made,
    zoom,
    fit: () => show(0, exchange.end),
    // Take what came since, of a stream that was shown to its end also from there on.
    grow() {
      const [from, to] = view;
      if (exchange.end < end) view = [0, exchange.end];
      else if (to >= end) view = [from > 0 ? from + exchange.end - end : 0, exchange.end];
      measure();
      made.resize(bottom);
    },
    // Draw the playhead; where it leaves the view, the view goes with it.
    follow() {
      const ns = at();
      if (ns < view[0] || ns > view[1]) show(ns - (view[1] - view[0]) * 0.1, ns + (view[1] - view[0]) * 0.9);
      else made.draw(1);
    },
  };
}

const named = (name, ns) => [`${name} ${format.span(ns)}`, name, format.span(ns)];

function quoted(text, isLast = false) {
  if (!text) return UNKNOWN;
  const shown = visible(isLast ? text.slice(-100) : text.slice(0, 100)); // of a text of any length
  return shown.length <= 24 ? `'${shown}'` : isLast ? `'…${shown.slice(-24)}'` : `'${shown.slice(0, 23)}…'`;
}

function minmax(values) {
  let found = values.length ? [values[0], values[0]] : [1, 1];
  for (const value of values) found = [Math.min(found[0], value), Math.max(found[1], value)];
  return found;
}

// Return the events that share an instant, one column each.
function stacked(exchange) {
  const list = [];
  exchange.events.at.forEach((ns, event) => {
    if (list.length && list.at(-1).at === ns) list.at(-1).events.push(event);
    else list.push({ at: ns, events: [event] });
  });
  return { list, most: list.reduce((most, column) => Math.max(most, column.events.length), 4) };
}
