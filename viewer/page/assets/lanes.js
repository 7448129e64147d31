// A run over time: swim lanes, the time to first token of each exchange, and how many ran at once, on one axis.

const GROUP_SIGNS = 6;
const LANE = 15;
const PARTS = { axis: 22, lanes: 300, between: 26, ttft: 130, running: 70 };
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
  for (let at = Math.ceil((run.first + view[0]) / step) * step - run.first; at <= view[1]; at += step) found.push(at);
  return found;
}

// Return rows in lanes: in a lane, one follows the other. Groups stand one below the other, each with lanes of its own.
function laned(run, by, rows) {
  const groups = new Map();
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

// Return how many ran at once: times, and the count from each on.
function running(run, rows) {
  const moments = rows
    .flatMap((row) => [
      [run.at[row], 1],
      [Math.max(run.end[row], run.at[row] + 1), -1],
    ])
    .sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  const times = [];
  const counts = [];
  let count = 0;
  for (const [at, by] of moments) {
    count += by;
    if (times.at(-1) === at) counts[counts.length - 1] = count;
    else (times.push(at), counts.push(count));
  }
  return { times, counts, most: counts.reduce((most, one) => Math.max(most, one), 1) };
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

// Return the picture of a run over time. `shown` gives what is shown: `chosen` (row → whether it is selected), `rows` (of
// the selected), `by` and `signOf` (row → which sign its group has); `opened` is called with a row that is chosen.
function runTimeline(run, shown, { opened, told }) {
  let every, last, ttfts, edges;
  function measure() {
    every = Array.from({ length: run.size }, (_, row) => row);
    last = every.reduce((most, row) => Math.max(most, run.end[row]), 1);
    ttfts = every.map((row) => run.rows.ttft_ms[row]).filter((value) => value > 0);
    edges = edgesAround(Math.min(...minmax(ttfts)), Math.max(...minmax(ttfts)));
  }
  measure();
  let view = [-last * 0.01, last * 1.01];
  let lanes = [];
  let top = 0;
  let brush = null;
  let pointer = null;
  let here = null;
  let colours = null;
  let flow = running(run, []);
  let hatched = null;
  const cache = new Map();
  const marginOf = (width) => (width < 640 ? 56 : 116);
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
    (run.stallsOf.get(row) || []).map(({ gap }) => [outputsOf(row)[gap], outputsOf(row)[gap + 1]]);

  function axis(pen, width) {
    if (!run.size) return;
    const most = (width - marginOf(width) - right) / 90;
    const isLong = view[1] > 120e6;
    const found = isLong ? clockTicks(run, view, most) : ticks(Math.max(view[0], 0), view[1], most);
    const step = found.length > 1 ? found[1] - found[0] : view[1] - view[0];
    pen.textBaseline = "middle";
    pen.textAlign = "center";
    for (const at of found) {
      pen.fillStyle = colours.line;
      pen.fillRect(Math.round(x(at, width)), PARTS.axis - 5, 1, made.height);
      pen.fillStyle = colours.muted;
      pen.fillText(
        isLong ? clock(run, at, step) : tickLabel(at * 1000, step * 1000),
        Math.min(x(at, width), width - 24),
        8,
      );
    }
    pen.textAlign = "left";
    pen.fillText(isLong ? "UTC" : width < 640 ? clock(run, 0) : `since ${clock(run, 0)} UTC`, 0, 8);
  }

  function bar(pen, row, y, width) {
    const { rows } = run;
    const from = x(run.at[row], width);
    const to = Math.max(x(run.end[row], width), from + 1.5);
    const height = LANE - 4;
    pen.globalAlpha = shown.chosen(row) ? 1 : 0.15;
    const outcome = run.states[run.text("outcome", row)];
    const bad = colours[BAD_TONES[outcome ? outcome[1] : ""]];
    if (to - from < 4) {
      pen.fillStyle = bad || colours.content;
      pen.fillRect(from, y, to - from, height);
    } else {
      const at = (us) => x(run.at[row] + us, width);
      const part = (begin, end, colour) => {
        pen.fillStyle = colour;
        pen.fillRect(at(begin), y, Math.max(at(end) - at(begin), 0.5), height);
      };
      const total = run.end[row] - run.at[row];
      part(0, total, colours.wait);
      // Of one that still runs, until its last read: what follows is a wait.
      const [begin, done] = [rows.ttft_ms[row], rows.latency_ms[row] ?? run.live?.last[rows.id[row]] ?? null];
      if (begin !== null) {
        const thinking = rows.thinking_ms[row];
        const answer = rows.ttfo_ms[row];
        part(begin, done ?? total, colours.content);
        if (thinking !== null && answer !== null) part(answer - thinking, answer, colours.reasoning);
        else if (answer === null && run.text("outcome", row) !== "open") part(begin, done ?? total, colours.reasoning);
        if (to - from > 260 && run.gaps(row)) outputs(pen, row, y, width, height);
        for (const [start, end] of stallsOf(row)) {
          part(start, end, colours.back);
          part(start, end, hatched);
          const label = `${format.span((end - start) * 1000)}`;
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

  function outputs(pen, row, y, width, height) {
    pen.fillStyle = colours.back;
    let before = -9;
    for (const us of outputsOf(row)) {
      const px = Math.round(x(run.at[row] + us, width));
      if (px - before >= 3 && px > 0 && px < width) (pen.fillRect(px, y + height / 2, 1, height / 2), (before = px));
    }
  }

  function laneRows(pen, width) {
    const first = Math.floor(top / LANE);
    pen.save();
    pen.beginPath();
    pen.rect(0, laneTop, width, room());
    pen.clip();
    pen.textBaseline = "middle";
    for (let place = first; place < lanes.length && (place - first) * LANE < room() + LANE; place += 1) {
      const lane = lanes[place];
      const y = laneTop + place * LANE - top;
      if (lane.first && place) {
        pen.fillStyle = colours.line;
        pen.fillRect(0, Math.round(y), width, 1);
      }
      if (shown.lanes && (lane.first || place === first)) {
        pen.fillStyle = colours.text;
        pen.fillText(fitting(pen, visible(lane.name ?? UNKNOWN), marginOf(width) - 8), 0, y + LANE / 2 + 1);
      }
      const begin = beginning(lane.rows);
      let drawn = -1;
      for (let at = begin; at < lane.rows.length && run.at[lane.rows[at]] <= view[1]; at += 1) {
        const row = lane.rows[at];
        const to = x(run.end[row], width);
        if (to - drawn < 0.7 && row !== here && !(shown.chosen(row) && run.text("outcome", row) !== "complete"))
          continue;
        drawn = to;
        bar(pen, row, y + 2, width);
      }
    }
    pen.restore();
    if (!shown.lanes) {
      pen.fillStyle = colours.muted;
      pen.fillText("exchanges", 0, laneTop + 9);
      if (width >= 640) pen.fillText("at the same time", 0, laneTop + 23);
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
      if (run.end[rows[middle]] < view[0]) low = middle + 1;
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
    const size = shown.rows.length > 4000 ? 1.6 : shown.rows.length > 400 ? 2.2 : 3.2;
    for (const row of shown.rows) {
      if (run.at[row] < view[0] || run.at[row] > view[1]) continue;
      const value = run.rows.ttft_ms[row];
      const sign = shown.signOf(row);
      const failed = value === null && run.language.failures.includes(run.text("outcome", row));
      pen.fillStyle = failed ? colours.bad : value !== null && sign < GROUP_SIGNS ? colours.groups[sign] : colours.muted;
      const px = x(run.at[row], width);
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
            px >= x(run.at[row], width) - 2 && px <= Math.max(x(run.end[row], width), x(run.at[row], width) + 1.5) + 2,
        ) ?? null
      );
    }
    if (py < ttftTop() - 8 || py > ttftTop() + PARTS.ttft + 8) return null;
    let [best, least] = [null, 100];
    for (const row of shown.rows) {
      const value = run.rows.ttft_ms[row];
      const dx = x(run.at[row], width) - px;
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
    told(row, row === null ? null : time(pointer[0], made.width) - run.at[row], time(pointer[0], made.width));
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
    view: () => view,
    // Show what is selected now; lanes are of all rows, those that are not selected are faint.
    update() {
      lanes = laned(run, shown.lanes, shown.onlySelected ? shown.rows : every);
      flow = running(run, shown.rows);
      top = Math.min(top, Math.max(lanes.length * LANE - room(), 0));
      made.resize(flowTop() + PARTS.running + 8);
    },
    // Take what came since; where the end was in view it stays there.
    grow() {
      const before = last;
      measure();
      cache.clear();
      if (view[1] < before) return;
      const isWhole = view[0] <= 0;
      view = isWhole ? [-last * 0.01, last * 1.01] : [view[0] + last - before, view[1] + last - before];
    },
    // Put a row in the view and mark it.
    mark(row) {
      here = row;
      if (row === null) return drawSoon();
      const place = lanes.findIndex((lane) => lane.rows.includes(row));
      if (place * LANE < top || (place + 1) * LANE > top + room()) scroll(place * LANE - top - room() / 2);
      if (run.end[row] < view[0] || run.at[row] > view[1]) {
        const half = Math.max((view[1] - view[0]) / 2, run.end[row] - run.at[row]);
        return show(run.at[row] - half, run.at[row] + half);
      }
      return drawSoon();
    },
  };
  const given = (state.get("view") || "").split("_").map(Number);
  if (given.length === 2 && given[0] < given[1]) view = given;
  return api;
}
