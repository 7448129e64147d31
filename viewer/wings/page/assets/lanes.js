// A run over time: swim lanes, the time to first token of each exchange, and how many ran at once, on one axis.

const GROUP_SIGNS = 6;
const LANE = 15;
const PARTS = { axis: 22, lanes: 300, between: 26, ttft: 130, running: 70 };
const PAUSES = ["tools", "backoff"]; // parts of a session's time without an exchange that its lanes show
const BAD_TONES = { error: "bad", warning: "warn" };

// Return the colours that pictures of a run use, computed once for each theme.
function palette() {
  const names = [
    "back",
    "raised",
    "line",
    "text",
    "muted",
    "accent",
    "good",
    "warn",
    "bad",
    "wait",
    "reasoning",
    "content",
    "tool",
    "refusal",
    "stall",
  ];
  const made = Object.fromEntries(names.map((name) => [name, theme.colour(name)]));
  made.groups = Array.from({ length: GROUP_SIGNS }, (_, place) => theme.colour(`group${place}`));
  return made;
}

// Return round times of day in a view, in µs since the first exchange, at most so many.
function clockTicks(run, view, most) {
  const parts = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5];
  const steps = [...parts, ...ROUND_SECONDS].map((step) => step * 1e6);
  const step =
    steps.find((one) => (view[1] - view[0]) / one <= most) ?? 86400e6 * Math.ceil((view[1] - view[0]) / most / 86400e6);
  const found = [];
  const first = run.first + offsetMinutes(run.first) * 60e6;
  for (let at = Math.ceil((first + view[0]) / step) * step - first; at <= view[1]; at += step) found.push(at);
  return found;
}

const LEAST_IDLE = 10e6; // µs
const LEAST_IDLE_LIVE = 30e6; // µs; each cut of a live page has a fixed length
const LAST_MINUTES = 5 * 60e6; // µs that a live page shows

// Return spans, ascending by their start, with those joined that are not further apart than an idle time.
function joined(spans, idle) {
  const found = [];
  for (const { start, end } of spans) {
    const before = found.at(-1);
    if (before && start - before.end <= idle) before.end = Math.max(before.end, end);
    else found.push({ start, end });
  }
  return found;
}

// Return the axis of a run: the wall clock without its long idle times. Times and the positions on it are in µs; `at` and
// `end` are the positions of each row, `cut` is the length of an idle time that is cut.
function clockAxis(run) {
  const spans = run.at.map((start, row) => ({ start, end: Math.max(run.end[row], start + 1) }));
  const busy = joined(
    spans.sort((a, b) => a.start - b.start),
    0,
  );
  const whole = busy.reduce((all, { start, end }) => all + end - start, 0);
  // Of an axis that grows, the cuts may not change with each exchange.
  const periods = joined(busy, live ? LEAST_IDLE_LIVE : Math.max(LEAST_IDLE, whole / 20));
  const cut = Math.round(
    live
      ? Math.min(LAST_MINUTES / 50, 10 ** Math.ceil(Math.log10(whole || 1)) / 24)
      : whole / (4 * Math.max(periods.length - 1, 6)),
  );
  let length = 0;
  for (const period of periods) {
    period.at = length;
    length += period.end - period.start + cut;
  }
  const [starts, places] = [periods.map((one) => one.start), periods.map((one) => one.at)];
  const place = (us) => us + places[after(starts, us) - 1] - starts[after(starts, us) - 1];
  return {
    periods,
    cut,
    length: Math.max(length - cut, 1),
    at: run.at.map(place),
    // Return the position of any time: one in an idle time that is cut is in the cut.
    placed(us) {
      const period = periods[Math.max(after(starts, us) - 1, 0)];
      return period ? period.at + Math.min(us - period.start, period.end - period.start + cut) : us;
    },
    end: run.end.map((us, row) => place(run.at[row]) + us - run.at[row]),
    // Return the time of a position; that of a cut is the end of what ran before.
    time(at) {
      const period = periods[Math.max(after(places, at) - 1, 0)];
      return period ? Math.min(period.start + at - period.at, period.end) : at;
    },
  };
}

// Return rows in lanes: in a lane, one follows the other. Groups stand one below the other, each with lanes of its own.
function laned(run, by, rows) {
  const groups = new Map(by === COMPARED ? run.groups[by].map((group) => [group.name, []]) : []);
  for (const row of rows) {
    const name = by ? run.groupOf(by, row) : null;
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(row);
  }
  const found = [];
  for (const [name, members] of groups) {
    const lanes = [];
    members.sort((a, b) => run.at[a] - run.at[b]);
    for (const row of members) {
      const free = lanes.find((lane) => lane.until <= run.at[row]);
      const lane = free || { name, first: !lanes.length, rows: [], until: 0 };
      if (!free) lanes.push(lane);
      lane.rows.push(row);
      lane.until = Math.max(run.end[row], run.at[row] + 1);
    }
    found.push(...lanes);
  }
  return found;
}

// Return when an exchange ran: while one of its turns did, if it has any.
function spansRun(run, { at, end }, row) {
  const turns = run.rows.turns[row]?.map(([start, , , until]) => ({ start: at[row] + start, end: at[row] + until }));
  return turns
    ? joined(
        turns.sort((a, b) => a.start - b.start),
        0,
      )
    : [{ start: at[row], end: end[row] }];
}

// Return how many ran at once: times, and the count from each on.
function running(run, wall, rows) {
  const moments = rows
    .flatMap((row) => spansRun(run, wall, row))
    .flatMap(({ start, end }) => [
      [start, 1],
      [Math.max(end, start + 1), -1],
    ])
    .sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const times = [];
  const counts = [];
  let count = 0;
  for (const [time, by] of moments) {
    count += by;
    if (times.at(-1) === time) counts[counts.length - 1] = count;
    else (times.push(time), counts.push(count));
  }
  return { times, counts, most: counts.reduce((most, one) => Math.max(most, one), 1) };
}

// Return the width of the widest of some names, in pixels.
function widest(made, names) {
  const pen = made.node.firstChild.getContext("2d");
  pen.font = FONT;
  return [...new Set(names)].reduce((most, name) => Math.max(most, pen.measureText(visible(name)).width), 0);
}

// Draw the sign of a group around a place: colours are told apart by their shapes, too.
function groupSign(pen, place, x, y, size) {
  pen.beginPath();
  if (place === 1) pen.rect(x - size, y - size, 2 * size, 2 * size);
  else if (place === 2)
    (pen.moveTo(x, y - size * 1.3),
      pen.lineTo(x + size * 1.2, y + size),
      pen.lineTo(x - size * 1.2, y + size),
      pen.closePath());
  else if (place === 3)
    (pen.moveTo(x, y - size * 1.4),
      pen.lineTo(x + size * 1.4, y),
      pen.lineTo(x, y + size * 1.4),
      pen.lineTo(x - size * 1.4, y),
      pen.closePath());
  else if (place === 4) pen.rect(x - size * 1.4, y - size * 0.5, 2.8 * size, size);
  else if (place === 5) pen.rect(x - size * 0.5, y - size * 1.4, size, 2.8 * size);
  else pen.arc(x, y, size, 0, 7);
  pen.fill();
}

// Return the picture of a run over time. `pageView` gives what is shown: `chosen` (row → whether it is selected), `rows` (of
// the selected), `by` and `signOf` (row → which sign its group has); `opened` is called with a row that is chosen.
function runTimeline(run, pageView, { opened, told }) {
  let every, wall, last, ttfts, edges, sessions;
  function measure() {
    every = Array.from({ length: run.size }, (_, row) => row);
    wall = clockAxis(run);
    sessions = new Map(unpackSessions(run).map((session) => [session.key, session]));
    last = wall.length;
    ttfts = every.map((row) => run.rows.ttft_ms[row]).filter((value) => value > 0);
    edges = edgesAround(Math.min(...minmax(ttfts)), Math.max(...minmax(ttfts)));
  }
  measure();
  // The length that stays in view at the end while the axis grows.
  let kept = live ? LAST_MINUTES : Infinity;
  const ending = () => (kept < last * 1.02 ? [last - kept * 0.99, last + kept * 0.01] : [-last * 0.01, last * 1.01]);
  let view = ending();
  let lanes = [];
  let named = 0;
  let top = 0;
  let brush = null;
  let pointer = null;
  let here = null;
  let colours = null;
  let flow = running(run, wall, []);
  let hatched = null;
  const cache = new Map();
  const marginOf = (width) => Math.max(Math.min(named + 12, width * 0.28, 220), 56);
  const right = 12;
  const x = (us, width) => marginOf(width) + ((us - view[0]) / (view[1] - view[0])) * (width - marginOf(width) - right);
  const time = (px, width) =>
    view[0] + ((px - marginOf(width)) / (width - marginOf(width) - right)) * (view[1] - view[0]);
  const room = () => Math.min(Math.max(lanes.length, 3) * LANE, PARTS.lanes);
  const laneTop = PARTS.axis;
  const ttftTop = () => laneTop + room() + PARTS.between;
  const flowTop = () => ttftTop() + PARTS.ttft + PARTS.between;
  const level = (us) =>
    ttftTop() + PARTS.ttft - (Math.log(us / edges[0]) / Math.log(edges.at(-1) / edges[0])) * PARTS.ttft;

  // Return when outputs of a row came; those that were looked at last are kept.
  function outputsOf(row) {
    if (!cache.has(row)) {
      if (cache.size > 2000) cache.clear();
      cache.set(row, run.outputs(row));
    }
    return cache.get(row);
  }
  const stallsOf = (row) =>
    (run.stallsOf.get(row) || []).map((stall) => [...run.spanOf(row, stall, outputsOf(row)), stall.us]);

  // The times of each period that is in view, and the idle times between them; no label stands in another's place.
  function axis(pen, width) {
    if (!run.size) return;
    const isClock = wall.periods.length > 1 || last > LEAST_MINUTES * 1e6;
    const taken = [[0, marginOf(width) - 14]];
    const label = (text, at, colour) => {
      const half = pen.measureText(text).width / 2;
      const middle = Math.min(x(at, width), width - half);
      if (taken.some(([from, to]) => middle + half + 8 > from && middle - half - 8 < to)) return;
      taken.push([middle - half, middle + half]);
      pen.fillStyle = colour;
      pen.fillText(text, middle, 8);
    };
    pen.textBaseline = "middle";
    pen.textAlign = "center";
    wall.periods.forEach(({ at, start, end }, place) => {
      const next = wall.periods[place + 1];
      const to = at + end - start;
      if (!next || to + wall.cut < view[0] || to > view[1]) return;
      const [from, until] = [Math.max(x(to, width), marginOf(width)), x(next.at, width)];
      pen.fillStyle = colours.raised;
      pen.fillRect(from, PARTS.axis - 5, until - from, made.height);
      pen.strokeStyle = colours.muted;
      pen.setLineDash([2, 3]);
      pen.strokeRect(Math.round(from) + 0.5, PARTS.axis - 5.5, Math.round(until - from) - 1, made.height);
      pen.setLineDash([]);
      const middle = to + wall.cut / 2;
      if (x(middle, width) > marginOf(width)) label(format.span((next.start - end) * 1000), middle, colours.text);
    });
    for (const { at, start, end } of wall.periods) {
      const seen = [Math.max(view[0], at), Math.min(view[1], at + end - start)];
      if (seen[1] < seen[0]) continue;
      const times = seen.map((place) => start + place - at);
      const most = (x(seen[1], width) - x(seen[0], width)) / 90;
      const round = isClock ? clockTicks(run, times, most) : ticks(...times, most);
      const found = round.length ? round : times.slice(0, 1);
      const step = found.length > 1 ? found[1] - found[0] : Math.min(times[1] - times[0], 1e6);
      for (const time of found) {
        const place = at + time - start;
        pen.fillStyle = colours.line;
        pen.fillRect(Math.round(x(place, width)), PARTS.axis - 5, 1, made.height);
        label(isClock ? clock(run, time, step) : tickLabel(time * 1000, step * 1000), place, colours.muted);
      }
    }
    pen.textAlign = "left";
    pen.fillStyle = colours.muted;
    const zero = [`since ${clock(run, 0)} ${offset(run.first)}`, clock(run, 0)];
    const fits = (text) => pen.measureText(text).width < marginOf(width) - 14;
    pen.fillText(isClock ? offset(run.first) : (zero.find(fits) ?? ""), 0, 8);
  }

  function bar(pen, row, y, width) {
    const { rows } = run;
    const from = x(wall.at[row], width);
    const to = Math.max(x(wall.end[row], width), from + 1.5);
    const height = LANE - 4;
    pen.globalAlpha = pageView.chosen(row) ? 1 : 0.15;
    const outcome = run.states[run.text("outcome", row)];
    const bad = colours[BAD_TONES[outcome ? outcome[1] : ""]];
    const sign = pageView.signOf(row);
    const content =
      pageView.by !== COMPARED ? colours.content : sign < GROUP_SIGNS ? colours.groups[sign] : colours.muted;
    if (to - from < 4) {
      pen.fillStyle = bad || content;
      pen.fillRect(from, y, to - from, height);
    } else {
      const at = (us) => x(wall.at[row] + us, width);
      const part = (begin, end, colour) => {
        pen.fillStyle = colour;
        pen.fillRect(at(begin), y, Math.max(at(end) - at(begin), 0.5), height);
      };
      const total = wall.end[row] - wall.at[row];
      const turns = rows.turns[row];
      if (!turns) part(0, total, colours.wait);
      for (const [start, first, last, until] of turns ?? []) {
        part(start, until, colours.wait);
        if (first !== null) part(first, last ?? until, content);
      }
      // Of one that still runs, until its last read: what follows is a wait.
      const [begin, done] = [rows.ttft_ms[row], rows.latency_ms[row] ?? run.live?.last[rows.id[row]] ?? null];
      if (begin !== null) {
        const thinking = rows.thinking_ms[row];
        const answer = rows.ttfo_ms[row];
        const start = turns?.[0][0] ?? 0;
        if (!turns) part(begin, done ?? total, content);
        if (thinking !== null && answer !== null)
          part(start + answer - thinking, start + answer, colours.reasoning);
        else if (!turns && answer === null && run.text("outcome", row) !== "open") part(begin, done ?? total, colours.reasoning);
        if (to - from > 260 && run.gaps(row)) outputs(pen, row, y, width, height);
      }
      for (const [start, end, lasted] of stallsOf(row)) {
        part(start, end, colours.back);
        part(start, end, hatched);
        const label = format.span(lasted * 1000);
        pen.fillStyle = colours.text;
        if (at(end) - at(start) > pen.measureText(label).width + 14) {
          const middle = (at(start) + at(end)) / 2;
          const half = pen.measureText(label).width / 2 + 3;
          pen.fillStyle = colours.back;
          pen.fillRect(middle - half, y, 2 * half, height);
          pen.fillStyle = colours.text;
          pen.fillText(label, middle - half + 3, y + height / 2 + 0.5);
        }
      }
      pen.strokeStyle = colours.line;
      pen.strokeRect(from + 0.5, y + 0.5, to - from - 1, height - 1);
      if (bad) {
        pen.fillStyle = bad;
        pen.fillRect(to - 3, y - 1, 3, height + 2);
      }
    }
    pen.globalAlpha = 1;
    if (row === here) {
      pen.strokeStyle = colours.text;
      pen.lineWidth = 2;
      pen.strokeRect(from - 1, y - 1, to - from + 2, height + 2);
      pen.lineWidth = 1;
    }
  }

  // Draw what passed between the exchanges of a session, while none was open: tools, and the waits of retries.
  function pauses(pen, session, y, width) {
    for (const { part, from, to } of session?.stretches ?? []) {
      if (!PAUSES.includes(part)) continue;
      const [left, until] = [from, to].map((us) => x(wall.placed(session.started_us - run.first + us), width));
      pen.fillStyle = colours[SESSION_COLOURS[part]];
      pen.fillRect(left, y + LANE / 2 - 3, Math.max(until - left, 0.5), 4);
    }
  }

  function outputs(pen, row, y, width, height) {
    pen.fillStyle = colours.back;
    let before = -9;
    for (const us of outputsOf(row)) {
      const px = Math.round(x(wall.at[row] + us, width));
      if (px - before >= 3 && px > 0 && px < width) (pen.fillRect(px, y + height / 2, 1, height / 2), (before = px));
    }
  }

  function laneRows(pen, width) {
    const first = Math.floor(top / LANE);
    const seen = lanes.slice(first, first + Math.ceil(room() / LANE) + 1);
    const y = (place) => laneTop + (first + place) * LANE - top;
    const clip = (left) => {
      pen.save();
      pen.beginPath();
      pen.rect(left, laneTop, width - left, room());
      pen.clip();
      pen.textBaseline = "middle";
    };
    clip(0);
    seen.forEach((lane, place) => {
      pen.fillStyle = colours.line;
      if (lane.first && first + place) pen.fillRect(0, Math.round(y(place)), width, 1);
      pen.fillStyle = colours.text;
      const name = visible(lane.name ?? UNKNOWN);
      if (pageView.lanes && (lane.first || !place))
        pen.fillText(middleCut(pen, name, marginOf(width) - 8), 0, y(place) + LANE / 2 + 1);
    });
    pen.restore();
    clip(marginOf(width) - 3);
    seen.forEach((lane, place) => {
      if (lane.first && pageView.lanes === "conversation") pauses(pen, sessions.get(lane.name), y(place), width);
      let drawn = -1;
      for (let at = beginning(lane.rows); at < lane.rows.length && wall.at[lane.rows[at]] <= view[1]; at += 1) {
        const row = lane.rows[at];
        const to = x(wall.end[row], width);
        if (to - drawn < 0.7 && row !== here && !(pageView.chosen(row) && run.text("outcome", row) !== "complete"))
          continue;
        drawn = to;
        bar(pen, row, y(place) + 2, width);
      }
    });
    pen.restore();
    if (!pageView.lanes) {
      pen.fillStyle = colours.muted;
      pen.fillText("exchanges", 0, laneTop + 9);
      pen.fillText("at the same time", 0, laneTop + 23);
    }
    if (lanes.length * LANE > room()) {
      const size = (room() * room()) / (lanes.length * LANE);
      pen.fillStyle = colours.muted;
      pen.fillRect(width - 5, laneTop + (top / (lanes.length * LANE)) * room(), 5, Math.max(size, 12));
    }
  }

  // Return the first row of a lane that ends in the view.
  function beginning(rows) {
    let [low, high] = [0, rows.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (wall.end[rows[middle]] < view[0]) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  function scatter(pen, width) {
    const bottom = ttftTop() + PARTS.ttft;
    pen.fillStyle = colours.muted;
    pen.fillText("TTFT", 0, ttftTop() - 10);
    if (!ttfts.length) pen.fillText("no values", marginOf(width), ttftTop() - 10);
    let before = Infinity;
    for (const edge of ttfts.length ? edges : []) {
      const y = Math.round(level(edge));
      pen.fillStyle = colours.line;
      pen.fillRect(marginOf(width), y, width - marginOf(width) - right, 1);
      if (before - y < 13) continue;
      before = y;
      pen.fillStyle = colours.muted;
      pen.textAlign = "right";
      pen.fillText(shownValue(edge / 1000, "ms"), marginOf(width) - 6, y);
      pen.textAlign = "left";
    }
    pen.save();
    pen.beginPath();
    pen.rect(marginOf(width) - 4, ttftTop() - 10, width - marginOf(width), PARTS.ttft + 14);
    pen.clip();
    const size = pageView.rows.length > 4000 ? 1.6 : pageView.rows.length > 400 ? 2.2 : 3.2;
    for (const row of pageView.rows) {
      if (wall.at[row] < view[0] || wall.at[row] > view[1]) continue;
      const value = run.rows.ttft_ms[row];
      const sign = pageView.signOf(row);
      const failed = value === null && run.language.failures.includes(run.text("outcome", row));
      pen.fillStyle = failed
        ? colours.bad
        : value !== null && sign < GROUP_SIGNS
          ? colours.groups[sign]
          : colours.muted;
      const px = x(wall.at[row], width);
      if (value === null) pen.fillRect(px - 0.75, bottom - 6, 1.5, 8);
      else groupSign(pen, sign, px, level(Math.max(value, edges[0])), row === here ? size + 2 : size);
    }
    pen.restore();
  }

  function concurrency(pen, width) {
    const bottom = flowTop() + PARTS.running;
    const y = (count) => bottom - (count / flow.most) * PARTS.running;
    pen.fillStyle = colours.muted;
    pen.fillText("at once", 0, flowTop() - 10);
    pen.textAlign = "right";
    for (const count of [...new Set([flow.most, Math.round(flow.most / 2), 0])])
      pen.fillText(format.number(count), marginOf(width) - 6, y(count) + (count ? 1 : -3));
    pen.textAlign = "left";
    pen.fillStyle = colours.line;
    pen.fillRect(marginOf(width), bottom, width - marginOf(width) - right, 1);
    pen.fillStyle = colours.content;
    let place = after(flow.times, view[0]) - 1;
    const end = width - right;
    let px = marginOf(width);
    while (px < end && place < flow.times.length) {
      const until = place + 1 < flow.times.length ? x(flow.times[place + 1], width) : end;
      let most = place < 0 ? 0 : flow.counts[place];
      let next = Math.min(until, end);
      if (next - px >= 1) place += 1;
      else {
        // Of all that begins in one pixel the most is drawn.
        next = Math.min(px + 1, end);
        while (place + 1 < flow.times.length && x(flow.times[place + 1], width) < next)
          most = Math.max(most, flow.counts[++place]);
      }
      // Whole pixels: edges that are shared by two rectangles would shine through.
      if (most) pen.fillRect(Math.floor(px), y(most), Math.ceil(next) - Math.floor(px), bottom - y(most));
      px = next;
    }
  }

  function base(pen, width) {
    colours ??= palette();
    hatched ??= hatch(pen, colours.stall);
    axis(pen, width);
    laneRows(pen, width);
    pen.textBaseline = "middle";
    scatter(pen, width);
    concurrency(pen, width);
  }

  function over(pen, width) {
    if (pointer === null || !colours) return;
    pen.fillStyle = colours.accent;
    if (brush) {
      pen.globalAlpha = 0.2;
      pen.fillRect(Math.min(...brush), PARTS.axis, Math.abs(brush[1] - brush[0]), made.height - PARTS.axis);
      pen.globalAlpha = 1;
    } else pen.fillRect(pointer[0], PARTS.axis - 4, 1, made.height);
  }

  const made = picture(600, [base, over]);
  const node = made.node;
  node.classList.add("runtime");
  theme.listeners.unshift(() => (colours = hatched = null));

  // Return the row below a place: of the lanes the bar, of the points the nearest.
  function rowAt(px, py) {
    const width = made.width;
    if (py >= laneTop && py < laneTop + room()) {
      const lane = lanes[Math.floor((py - laneTop + top) / LANE)];
      if (!lane) return null;
      return (
        lane.rows.find(
          (row) =>
            px >= x(wall.at[row], width) - 2 &&
            px <= Math.max(x(wall.end[row], width), x(wall.at[row], width) + 1.5) + 2,
        ) ?? null
      );
    }
    if (py < ttftTop() - 8 || py > ttftTop() + PARTS.ttft + 8) return null;
    let [best, least] = [null, 100];
    for (const row of pageView.rows) {
      const value = run.rows.ttft_ms[row];
      const dx = x(wall.at[row], width) - px;
      if (dx > 10 || dx < -10) continue;
      const dy = (value === null ? ttftTop() + PARTS.ttft - 2 : level(Math.max(value, edges[0]))) - py;
      if (dx * dx + dy * dy < least) [best, least] = [row, dx * dx + dy * dy];
    }
    return best;
  }

  const place = (event) => {
    const box = node.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  let pan = null;
  node.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    const [px, py] = place(event);
    node.setPointerCapture(event.pointerId);
    if (event.shiftKey) pan = { px, view: [...view] };
    else brush = [px, px, py];
  });
  node.addEventListener("pointermove", (event) => {
    pointer = place(event);
    if (pan) {
      const by = ((pan.px - pointer[0]) / (made.width - marginOf(made.width) - right)) * (pan.view[1] - pan.view[0]);
      return show(pan.view[0] + by, pan.view[1] + by);
    }
    if (brush) brush[1] = pointer[0];
    const row = brush ? null : rowAt(...pointer);
    node.style.cursor = row === null ? "crosshair" : "pointer";
    const at = time(pointer[0], made.width);
    told(row, row === null ? null : at - wall.at[row], wall.time(at));
    return made.draw(1);
  });
  node.addEventListener("pointerup", () => {
    if (brush && Math.abs(brush[1] - brush[0]) > 5)
      show(...[brush[0], brush[1]].map((px) => time(px, made.width)).sort((a, b) => a - b));
    else if (brush) {
      const row = rowAt(brush[0], brush[2]);
      if (row !== null) opened(row);
    }
    brush = pan = null;
    made.draw(1);
  });
  node.addEventListener("pointerleave", () => {
    pointer = null;
    told(null, null, null);
    made.draw(1);
  });
  node.addEventListener("dblclick", () => api.fit());
  node.addEventListener(
    "wheel",
    (event) => {
      const [px, py] = place(event);
      if (event.ctrlKey || event.metaKey) {
        event.preventDefault();
        return zoom(event.deltaY < 0 ? 1.25 : 0.8, time(px, made.width));
      }
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        event.preventDefault();
        return move(((event.deltaX || event.deltaY) / made.width) * 1.2);
      }
      if (py < laneTop || py > laneTop + room() || lanes.length * LANE <= room()) return undefined;
      event.preventDefault();
      return scroll(event.deltaY);
    },
    { passive: false },
  );

  function scroll(by) {
    top = Math.min(Math.max(top + by, 0), Math.max(lanes.length * LANE - room(), 0));
    drawSoon();
  }
  let waiting = false;
  function drawSoon() {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      made.draw(0);
      made.draw(1);
    });
  }
  function show(from, to) {
    const whole = last * 1.02;
    const size = Math.min(Math.max(to - from, 2000), whole);
    const begin = Math.min(Math.max(from, -last * 0.01), last * 1.01 - size);
    view = [begin, begin + size];
    kept = size < whole * 0.999 ? size : Infinity;
    state.set("view", size < whole * 0.999 ? view.map((us) => Math.round(us)).join("_") : null);
    drawSoon();
  }
  function zoom(factor, around = (view[0] + view[1]) / 2) {
    show(around - (around - view[0]) / factor, around + (view[1] - around) / factor);
  }
  const move = (share) => show(view[0] + share * (view[1] - view[0]), view[1] + share * (view[1] - view[0]));
  const api = {
    picture: made,
    zoom,
    move,
    scroll,
    fit: () => show(-last, last * 2),
    hasCuts: () => wall.periods.length > 1,
    view: () => view,
    // Show what is selected now; lanes are of all rows, those that are not selected are faint.
    update() {
      lanes = laned(run, pageView.lanes, pageView.onlySelected ? pageView.rows : every);
      flow = running(run, wall, pageView.rows);
      named = widest(made, pageView.lanes ? lanes.map((lane) => lane.name ?? UNKNOWN) : ["at the same time"]);
      top = Math.min(top, Math.max(lanes.length * LANE - room(), 0));
      made.resize(flowTop() + PARTS.running + 8);
    },
    // Take what came since; where the end was in view it stays there.
    grow() {
      const before = last;
      measure();
      cache.clear();
      if (view[1] >= before) view = ending();
    },
    // Put a row in the view and mark it.
    mark(row) {
      here = row;
      if (row === null) return drawSoon();
      const place = lanes.findIndex((lane) => lane.rows.includes(row));
      if (place * LANE < top || (place + 1) * LANE > top + room()) scroll(place * LANE - top - room() / 2);
      if (wall.end[row] < view[0] || wall.at[row] > view[1]) {
        const half = Math.max((view[1] - view[0]) / 2, wall.end[row] - wall.at[row]);
        return show(wall.at[row] - half, wall.at[row] + half);
      }
      return drawSoon();
    },
  };
  const given = (state.get("view") || "").split("_").map(Number);
  if (given.length === 2 && given[0] < given[1]) view = given;
  return api;
}
