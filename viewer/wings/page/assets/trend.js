// The trend of a run: what all of its exchanges were over time, also those that are not on the page.

const TREND = { axis: 20, ttft: 110, between: 14, counts: 44, drawn: 18 };

// Return the section of the trend; null if the page has every exchange.
function trendOf(run) {
  const { trend } = run;
  if (!trend) return null;
  const count = trend.n.length;
  const last = (trend.start_s + count * trend.step_s) * 1e6;
  const first = trend.start_s * 1e6;
  const times = [trend.ttft_p50, trend.ttft_p95, trend.longest_gap].flat().filter((ms) => ms > 0);
  const edges = edgesAround(...minmax(times));
  const most = Math.max(...trend.n, 1);
  const left = 62;
  const right = 12;
  const room = (width) => width - left - right;
  const x = (us, width) => left + ((us - first) / (last - first)) * room(width);
  const top = TREND.axis;
  const floor = top + TREND.ttft;
  const bottom = floor + TREND.between + TREND.counts;
  const y = (ms) => floor - (Math.log(ms / edges[0]) / Math.log(edges.at(-1) / edges[0])) * TREND.ttft;
  const begin = (place) => first + place * trend.step_s * 1e6;
  const readout = el("div", { class: "readout muted any" });
  let pointed = null;

  function base(pen, width) {
    const colours = palette();
    pen.textBaseline = "middle";
    scale(pen, width, colours);
    const [from, to] = [0, 1].map((place) => (at) => [x(begin(at), width), x(begin(at + 1), width)][place]);
    for (let at = 0; at < count; at += 1) {
      const wide = Math.max(to(at) - from(at) - (room(width) / count > 4 ? 1 : 0), 1);
      const bar = (value, colour) => {
        const high = (value / most) * TREND.counts;
        pen.fillStyle = colour;
        if (value) pen.fillRect(from(at), bottom - Math.max(high, 1), wide, Math.max(high, 1));
      };
      bar(trend.n[at], colours.content);
      bar(trend.failed[at], colours.bad);
      if (trend.ttft_p50[at] === null) continue;
      pen.fillStyle = colours.content;
      pen.globalAlpha = 0.3;
      const [low, high] = [y(trend.ttft_p50[at]), y(trend.ttft_p95[at])];
      pen.fillRect(from(at), high, wide, low - high);
      pen.globalAlpha = 1;
      pen.fillRect(from(at), low - 1, wide, 2);
      pen.fillStyle = colours.stall;
      if (trend.longest_gap[at] > 0) pen.fillRect((from(at) + to(at)) / 2 - 1.5, y(trend.longest_gap[at]) - 1.5, 3, 3);
    }
    drawnPart(pen, width, colours);
  }

  // The axes: times of day above, durations and the largest count at the left.
  function scale(pen, width, colours) {
    const found = clockTicks({ first }, [0, last - first], room(width) / 90);
    const step = found.length > 1 ? found[1] - found[0] : last - first;
    pen.textAlign = "center";
    for (const at of found) {
      pen.fillStyle = colours.line;
      pen.fillRect(Math.round(x(first + at, width)), top - 5, 1, bottom - top + 5);
      pen.fillStyle = colours.muted;
      const [day, time] = [clock({ first }, at, 86400e6).slice(5), clock({ first }, at, step)];
      const label = step < 86400e6 && time === "00:00" ? day : step < 86400e6 ? time : day;
      pen.fillText(label, Math.min(x(first + at, width), width - 20), 8);
    }
    pen.textAlign = "right";
    let before = Infinity;
    for (const edge of edges) {
      const at = Math.round(y(edge));
      pen.fillStyle = colours.line;
      pen.fillRect(left, at, room(width), 1);
      if (before - at < 13) continue;
      before = at;
      pen.fillStyle = colours.muted;
      pen.fillText(shownValue(edge, "ms"), left - 6, at);
    }
    pen.fillStyle = colours.muted;
    pen.fillText(format.number(most), left - 6, bottom - TREND.counts + 4);
    pen.fillText("0", left - 6, bottom - 3);
    pen.textAlign = "left";
  }

  // Which part of all the lanes below have.
  function drawnPart(pen, width, colours) {
    const from = x(run.first, width);
    const to = x(run.first + Math.max(...minmax(run.at)), width);
    pen.fillStyle = colours.accent;
    pen.fillRect(from, bottom + 3, Math.max(to - from, 2), 3);
    const label = `drawn below: the newest ${format.number(run.size)}`;
    pen.fillText(label, Math.max(Math.min(from, width - right - pen.measureText(label).width), 0), bottom + 14);
  }

  function over(pen, width) {
    if (pointed === null) return;
    pen.fillStyle = theme.colour("accent");
    pen.globalAlpha = 0.25;
    pen.fillRect(x(begin(pointed), width), top, x(begin(pointed + 1), width) - x(begin(pointed), width), bottom - top);
    pen.globalAlpha = 1;
  }

  const made = picture(bottom + TREND.drawn + 4, [base, over]);
  const point = (place) => {
    pointed = place;
    readout.textContent = place === null ? "" : told(place);
    made.draw(1);
  };
  const time = (place) => moment(begin(place), 19);
  function told(place) {
    const ms = (value) => (value === null ? UNKNOWN : format.span(value * 1e6));
    const parts = [
      `${time(place)} – ${time(place + 1)}`,
      `${format.number(trend.n[place])} exchanges, ${format.number(trend.failed[place])} failed`,
      `TTFT p50 ${ms(trend.ttft_p50[place])}, p95 ${ms(trend.ttft_p95[place])}`,
      `longest gap ${ms(trend.longest_gap[place])}`,
    ];
    return parts.join(" · ");
  }
  made.node.addEventListener("pointermove", (event) => {
    const px = event.clientX - made.node.getBoundingClientRect().left;
    const place = Math.floor(((px - left) / room(made.width)) * count);
    point(place >= 0 && place < count ? place : null);
  });
  made.node.addEventListener("pointerleave", () => point(null));
  const columns = [
    column("from", (place) => time(place)),
    column("exchanges", (place) => trend.n[place], { number: true, shown: (value) => format.number(value) }),
    column("failed", (place) => trend.failed[place], { number: true, shown: (value) => format.number(value) }),
    ...[
      ["TTFT p50 ms", "ttft_p50"],
      ["TTFT p95 ms", "ttft_p95"],
      ["longest gap ms", "longest_gap"],
    ].map(([title, name]) =>
      column(title, (place) => trend[name][place], { number: true, shown: (value) => format.number(value, 1) }),
    ),
  ];
  const all = trend.n.reduce((sum, one) => sum + one, 0);
  return [
    el("h2", {}, "Trend"),
    el(
      "p",
      { class: "muted small" },
      `Of all ${format.number(all)} exchanges, ${format.span(trend.step_s * 1e9).replace(/\.0+ |:00 /, " ")} a column; times are of complete ones.`,
    ),
    made.node,
    el(
      "div",
      { class: "legend" },
      swatch("content", "TTFT: line p50, band up to p95; below, exchanges"),
      swatch("stall", "longest gap"),
      swatch("bad", "failed"),
    ),
    readout,
    el(
      "details",
      { class: "behind" },
      el("summary", {}, "Trend as a table"),
      el(
        "div",
        { class: "inside" },
        table(
          "Trend",
          columns,
          trend.n.map((_, place) => place),
          { file: "trend" },
        ),
      ),
    ),
  ];
}
