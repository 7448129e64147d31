// The page of a run.

const OUTCOME_COLOURS = { success: "good", warning: "warn", error: "bad", accent: "accent" };

const STATISTICS = ["n", "p50", "p90", "p95", "p99", "max"]; // the order of a group's figures
const GAP_PERCENTS = [5, 25, 50, 75, 90, 95, 99]; // of the gaps of a group, and of a table of distributions
const POOLED = "gap"; // all gaps between reads with output together; other quantities have one value of each exchange

// Return a distribution of some rows. Of all exchanges together it is of what the program counted, also where the page
// has not the gaps of all of them.
function seriesOf(run, metric, name, sign, rows, group = null) {
  const measured = rows.filter((row) => run.isIncluded(metric, row));
  if (metric !== POOLED) {
    const values = valuesOf(run, metric, measured);
    return { name, sign, n: values.length, values, points: cumulative(values) };
  }
  const { steps, counts } = group ? { steps: undelta(group.steps), counts: group.counts } : stepsOf(run, measured);
  const longest = group ? group.figures.gap[5] : longestGap(run, measured);
  return {
    name,
    sign,
    n: counts.reduce((all, count) => all + count, 0),
    shares: group?.gap_shares,
    get values() {
      return group ? null : gapValues(run, measured);
    },
    points: cumulativeSteps(run, steps, counts, longest ?? Infinity),
  };
}

// Return true if all exchanges are of one session.
function isOfOneSession(run) {
  const { places } = run.rows.conversation;
  return places.length > 1 && places.every((place) => place !== null && place >= 0 && place === places[0]);
}

// What is shown: of which exchanges, in which groups; all pictures and the table go by it.
function showing(run) {
  let every = Array.from({ length: run.size }, (_, row) => row);
  const pageView = {
    filter: "",
    by: COMPARED in run.groups ? COMPARED : "model",
    lanes: COMPARED in run.groups ? COMPARED : isOfOneSession(run) ? "conversation" : "model",
    metric: "ttft",
    rows: every,
    again: () => {},
    chosen: () => true,
    onlySelected: false,
  };
  pageView.grow = () => {
    every = Array.from({ length: run.size }, (_, row) => row);
    pageView.select(pageView.filter);
    pageView.group();
  };
  pageView.isAll = () => pageView.rows.length === run.size;
  pageView.select = (text) => {
    const fits = text.trim() ? filterOf(run, text) : () => true;
    pageView.filter = text.trim();
    const mask = Uint8Array.from(every, (row) => (fits(row) ? 1 : 0));
    pageView.chosen = (row) => mask[row] === 1;
    pageView.rows = every.filter(pageView.chosen);
  };
  // The groups, the largest first; those that have no sign of their own share the last.
  pageView.group = () => {
    const groups = run.groups[pageView.by] || [];
    pageView.names = new Map(groups.map((group, place) => [group.name, Math.min(place, GROUP_SIGNS)]));
    pageView.signOf = (row) => (groups.length ? (pageView.names.get(run.groupOf(pageView.by, row)) ?? GROUP_SIGNS) : 0);
  };
  pageView.series = () => {
    const groups = (run.groups[pageView.by] || []).slice(0, GROUP_SIGNS);
    if (!groups.length)
      return [seriesOf(run, pageView.metric, "all", 0, pageView.rows, pageView.isAll() ? run.groups[""][0] : null)];
    const members = new Map(groups.map((group) => [group.name, []]));
    for (const row of pageView.rows) members.get(run.groupOf(pageView.by, row))?.push(row);
    return groups
      .map((group, place) =>
        seriesOf(
          run,
          pageView.metric,
          group.name ?? UNKNOWN,
          place,
          members.get(group.name),
          pageView.isAll() ? group : null,
        ),
      )
      .filter((series) => series.n);
  };
  pageView.group();
  return pageView;
}

// Return a tile: a name, a figure with its unit, a note on it, and of how many values it is.
function tile(name, value, note, n, title) {
  const small = (text) => el("dd", { class: "interval" }, text);
  return el("div", { title }, el("dt", {}, name), el("dd", {}, value), small(note), small(n));
}

// Return the tiles of the headlines; an interval is in the unit of its figure.
function headlines(run) {
  const tiles = run.headlines.map(({ name, value, unit, interval, n, meaning, pooled }) => {
    const [tileUnit, write] = value === null ? [unit] : scaleOf(value, unit);
    const about = interval ? interval.map(write).join(" – ") : pooled ? "pooled" : n ? "too few to tell" : UNKNOWN;
    const title = `${meaning}${pooled ? "" : `; interval at 95 %, in ${tileUnit}`}`;
    return tile(name, exactly(value, unit), about, `n ${format.number(n)}${pooled ? " gaps" : ""}`, title);
  });
  return el("dl", { class: "cards wide" }, tiles, totals(run.groups[""][0]));
}

// Return the tiles of what was used and paid in all, as far as it is known.
function totals({ usage_n, usage_missing_n, output_tokens, cost, cost_n, cost_unknown_n, currency, ...cache }) {
  const sum = (name, value, unit, n, title, unknown = 0) => {
    const note = unknown ? `unknown of ${format.number(unknown)}` : "in all";
    return tile(name, [value, unit ? el("small", {}, visible(unit)) : ""], note, `n ${format.number(n)}`, title);
  };
  const tokens = format.number(output_tokens);
  const found = [sum("output tokens", tokens, "", usage_n, "as usage reports them", usage_missing_n)];
  if (cost_n) {
    const title = "of the exchanges whose cost is known, by the prices of the configuration";
    const costText = format.number(cost, cost < 0.1 ? 6 : cost < 10 ? 4 : 2);
    found.push(sum("cost", costText, currency, cost_n, title, cost_unknown_n));
  }
  if (cache.cache_hit_rate_n) {
    const title = "tokens read from the provider's cache, of all tokens of the requests";
    found.push(sum("cache hits", format.number(cache.cache_hit_rate_pct, 1), "%", cache.cache_hit_rate_n, title));
  }
  return found;
}

// Return how the exchanges ended, in a sentence, and as buttons that select by it.
function outcomes(run, apply) {
  const whole = run.groups[""][0];
  const found = Object.entries(whole.outcomes);
  const bar = el(
    "div",
    { class: "outcomes", role: "group", "aria-label": "Outcomes" },
    found.map(([name, count]) => {
      const [sign, tone] = run.states[name] || ["?", "muted"];
      const part = el(
        "button",
        {
          class: OUTCOME_COLOURS[tone] || "muted",
          title: `${run.outcomes[name]}: ${format.number(count)}; click to select`,
          onclick: () => apply(`is:${name}`),
        },
        `${sign} ${name} `,
        el("b", {}, format.number(count)),
      );
      part.style.flexGrow = Math.sqrt(count);
      return part;
    }),
  );
  const sentence = run.verdict.map(([text, tone], place) => [
    place ? " · " : "",
    el("span", { class: tone }, visible(text)),
  ]);
  return [el("p", { class: "verdict any" }, sentence), bar];
}

function groupTable(run, by) {
  const rows = run.groups[by];
  const figure = (label, name, statistic) =>
    column(label, (row) => row.figures[name][STATISTICS.indexOf(statistic)], {
      number: true,
      title: run.quantities[name][1],
      shown: (value) => format.number(value, 1),
    });
  const columns = [
    column(by || "all", (row) => row.name, {
      shown: (value) => (value === null ? (by ? UNKNOWN : "all") : visible(value)),
    }),
    column("n", (row) => row.n, { number: true, shown: (value) => format.number(value) }),
    column("errors %", (row) => row.error_rate_pct, {
      number: true,
      shown: (value) => format.number(value, 2),
      title: "failed, of those that were not cancelled",
    }),
    column("measured", (row) => row.measured_n, {
      number: true,
      shown: (value) => format.number(value),
      title: "complete exchanges: the figures are of these",
    }),
    figure("TTFT p50 ms", "ttft", "p50"),
    figure("TTFT p95 ms", "ttft", "p95"),
    figure("gap p50 ms", "gap", "p50"),
    figure("gap p99 ms", "gap", "p99"),
    figure("longest gap ms", "gap", "max"),
    figure("latency p50 ms", "latency", "p50"),
    figure("latency p95 ms", "latency", "p95"),
    figure("speed p50 tokens/s", "tps_user", "p50"),
    figure("longest silence ms", "max_silence", "max"),
    figure("longest without event ms", "max_event_silence", "max"),
    figure("longest without output ms", "max_output_silence", "max"),
    column("output tokens", (row) => row.output_tokens, { number: true, shown: (value) => format.number(value) }),
  ];
  const paid = (name, raw, digits) =>
    rows.some((row) => raw(row) !== null) &&
    columns.push(column(name, raw, { number: true, shown: (value) => format.number(value, digits) }));
  paid("cost", (row) => row.cost, 6);
  if (rows.some((row) => row.cost !== null)) paid("cost unknown of", (row) => row.cost_unknown_n, 0);
  paid("cache hits %", (row) => row.cache_hit_rate_pct, 1);
  const smaller = run.smaller[by];
  return [
    table(`Statistics by ${by || "all"}`, columns, rows, { file: `statistics-${by || "all"}` }),
    smaller
      ? el("p", { class: "muted small" }, `The largest ${rows.length}; ${format.number(smaller)} more by stats --by.`)
      : null,
  ];
}

// Return the longest gap of some rows, in ms; 0 without any.
function longestGap(run, rows) {
  return rows.reduce((most, row) => Math.max(most, run.rows.max_gap_ms[row] ?? 0), 0) / 1000;
}

function distributionTable(run, pageView) {
  const rows = pageView.series().map((series) => {
    const { values } = series;
    const of = (percent, place) =>
      values ? percentile(values, percent) : isEnough(series.n, percent) ? series.shares[place] : null;
    return { name: series.name, n: series.n, isExact: !values, of };
  });
  const columns = [
    column(pageView.by || "all", (row) => row.name),
    column("n", (row) => row.n, { number: true, shown: (value) => format.number(value) }),
  ];
  GAP_PERCENTS.forEach((percent, place) =>
    columns.push(
      column(`p${percent}`, (row) => row.of(percent, place), {
        number: true,
        shown: (value) => format.number(value, 2),
      }),
    ),
  );
  const about = pageView.metric === POOLED && rows.some((row) => !row.isExact) ? " (exact to 1 %)" : "";
  return table(
    `${pageView.metric} of what is selected, in ${run.quantities[pageView.metric][0]}${about}`,
    columns,
    rows,
    {
      file: pageView.metric,
    },
  );
}

// Return the 99th percentile of the gaps of some rows, which is exact of all and else to 1 %, and their longest.
function gapsOf(run, pageView, measured) {
  const longest = longestGap(run, measured);
  if (!longest || measured.some((row) => run.gaps(row) === null)) return [];
  const isWhole = pageView.isAll() && run.size === run.total;
  const p99 = isWhole ? run.groups[""][0].figures.gap[4] : percentile(gapValues(run, measured), 99);
  return [
    p99 ? `gap p99 ${isWhole ? "" : "≈ "}${shownValue(p99, "ms")}` : null,
    `longest gap ${shownValue(longest, "ms")}`,
  ];
}

// Return a line of what is selected: counts, and percentiles by the definition of `stats`.
function selectionLine(run, pageView) {
  const covered = pageView.rows.filter(run.covers);
  const measured = covered.filter(run.isMeasured);
  const failed = covered.filter((row) => run.language.failures.includes(run.text("outcome", row))).length;
  const part = (name, percent) => {
    const included = covered.filter((row) => run.isIncluded(name, row));
    const value = percentile(valuesOf(run, name, included), percent);
    const [unit] = run.quantities[name];
    return value === null
      ? null
      : `${titled(name)} p${percent} ${shownValue(value, unit)}${unit === "ms" ? "" : ` ${unit}`}`;
  };
  const figures = [
    part("ttft", 50),
    part("ttft", 95),
    ...gapsOf(run, pageView, measured),
    part("latency", 50),
    part("latency", 95),
    part("tps_user", 50),
  ].filter(Boolean);
  const counts = [
    `${format.number(failed)} failed`,
    `${format.number(measured.length)} measured`,
    ...(pageView.rows.length ? [`at most ${format.number(running(run, run, pageView.rows).most)} at once`] : []),
  ];
  const newest = run.size < run.total ? "the newest " : pageView.isAll() ? "all " : "";
  const some = pageView.isAll() ? "" : `selected: ${format.number(pageView.rows.length)} of `;
  return `${some}${newest}${format.number(run.size)} exchanges · ${[...counts, ...figures].join(" · ")}`;
}

const us = (name, title, digits = 1) => ({
  name,
  title,
  number: true,
  raw: (run, row) => (run.rows[name][row] === null ? null : run.rows[name][row] / 1000),
  shown: (value) => format.number(value, digits),
});
const number = (name, title) => ({
  name,
  title,
  number: true,
  raw: (run, row) => run.rows[name][row],
  shown: (value) => format.number(value),
});
const text = (name) => ({
  name,
  raw: (run, row) => run.text(name, row),
  shown: (value) => (value === null || value === "" ? UNKNOWN : visible(value)),
});
const COLUMNS = [
  { name: "id", raw: (run, row) => run.rows.id[row], shown: (value) => visible(value.slice(0, 8)), mono: true },
  {
    name: "started",
    raw: (run, row) => run.at[row],
    csv: (run, row) => new Date((run.first + run.at[row]) / 1000).toISOString(),
    shown: (value, run) => moment(run.first + value),
    number: true,
  },
  text("model"),
  {
    name: "outcome",
    raw: (run, row) => run.text("outcome", row),
    shown: (value, run, row) =>
      `${(run.states[value] || ["?"])[0]} ${visible(value)}${run.text("outcome_detail", row) ? ` ${visible(run.text("outcome_detail", row))}` : ""}`,
    tone: (run, value) => OUTCOME_COLOURS[(run.states[value] || [])[1]],
  },
  number("status"),
  {
    name: "gaps",
    raw: (run, row) => run.text("sparkline", row),
    shown: (value) => value || "",
    mono: true,
    title: "gaps over time: ▁ under 3, ▂ 3, ▃ 10, ▄ 30, ▅ 100, ▆ 300 ms, ▇ 1, █ 3 s",
  },
  us("ttft_ms", "T0 to the first output"),
  us("icl_p50_ms", "median gap between output chunks", 2),
  us("icl_p99_ms", "99th percentile of the gaps between output chunks", 2),
  us("max_gap_ms", "longest gap between reads with output"),
  us("max_output_silence_ms", "longest later silence of output, whatever ended it"),
  us("first_output_silence_ms", "T0 to the first output, or to the end of a stream without any"),
  us("latency_ms", "T0 to the last output"),
  us("duration_ms", "T0 to the end"),
  number("input_tokens"),
  number("output_tokens"),
  {
    name: "tps_user",
    title: "tokens a second",
    number: true,
    raw: (run, row) => run.rows.tps_user[row],
    shown: (value) => format.number(value, 1),
  },
  text("flags"),
  {
    name: "labels",
    raw: (run, row) =>
      Object.entries(run.rows.labels.values[run.rows.labels.places[row]] || {})
        .map(([key, value]) => `${key}=${value}`)
        .join(" "),
    shown: (value) => visible(value),
  },
];

// Columns that are shown where something is known.
const OPTIONAL = [
  { ...number("cost"), shown: (value) => format.number(value, 6) },
  {
    ...number("cache_hit_rate", "tokens read from the provider's cache, of all tokens of the request"),
    shown: (value) => `${format.number(100 * value, 1)} %`,
  },
];

const optional = (run) => OPTIONAL.filter(({ name }) => run.rows[name].some((value) => value !== null));

// Return the table of what is selected, sorted by a column; a click on a row opens it.
function listing(run, pageView, opened) {
  const LISTED = [...COLUMNS, ...optional(run)];
  let [name, down] = [
    (state.get("sort") || "started").replace(/^-/, ""),
    !(state.get("sort") || "-").startsWith("-") ? false : true,
  ];
  const body = el("tbody");
  const rest = el("button", {});
  let rows = [];
  let drawn = 0;
  const heads = LISTED.map((entry) => {
    const button = el(
      "button",
      {
        class: "sort",
        title: entry.title || null,
        onclick: () => sort(entry.name, entry.name === name ? !down : Boolean(entry.number)),
      },
      entry.name.replace(/_ms$/, " ms").replaceAll("_", " "),
    );
    return el("th", { scope: "col", class: entry.number ? "number" : null }, button);
  });
  function sort(by, descending) {
    [name, down] = [by, descending];
    state.set("sort", name === "started" && down ? null : `${down ? "-" : ""}${name}`);
    draw();
  }
  function more(count) {
    const part = document.createDocumentFragment();
    for (const row of rows.slice(drawn, drawn + count)) {
      const cells = LISTED.map((entry) => {
        const value = entry.raw(run, row);
        return el(
          "td",
          {
            class:
              [entry.number ? "number" : "", entry.mono ? "mono" : "", entry.tone ? entry.tone(run, value) : ""]
                .join(" ")
                .trim() || null,
          },
          value === null ? UNKNOWN : entry.shown(value, run, row),
        );
      });
      const tableRow = el("tr", { tabindex: "-1", "data-row": row }, cells);
      part.append(tableRow);
    }
    body.append(part);
    if (!drawn && body.firstChild) body.firstChild.tabIndex = 0;
    drawn = Math.min(drawn + count, rows.length);
    rest.hidden = drawn >= rows.length;
    rest.textContent = `show ${format.number(Math.min(rows.length - drawn, 1000))} more of ${format.number(rows.length - drawn)}`;
  }
  function draw(isAgain = false) {
    const entry = LISTED.find((other) => other.name === name) || LISTED[1];
    const keys = new Map(pageView.rows.map((row) => [row, entry.raw(run, row)]));
    const order = down ? -1 : 1;
    rows = [...pageView.rows].sort((a, b) => {
      const [left, right] = [keys.get(a), keys.get(b)];
      if (left === null || right === null) return (left === null) - (right === null);
      return (left < right ? -order : left > right ? order : 0) || b - a;
    });
    heads.forEach((head, place) =>
      head.setAttribute("aria-sort", LISTED[place].name === name ? (down ? "descending" : "ascending") : "none"),
    );
    const chosen = body.contains(document.activeElement) ? document.activeElement.dataset.row : null;
    const count = isAgain ? Math.max(drawn, 100) : 100;
    body.replaceChildren();
    drawn = 0;
    more(count);
    if (chosen !== null) body.querySelector(`[data-row="${chosen}"]`)?.focus({ preventScroll: true });
    if (!rows.length)
      body.append(el("tr", {}, el("td", { class: "muted", colspan: LISTED.length }, "nothing is selected")));
  }
  const chosenRow = (event) => event.target.closest("tr[data-row]");
  body.addEventListener("click", (event) => chosenRow(event) && opened(Number(chosenRow(event).dataset.row)));
  body.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && chosenRow(event)) opened(Number(chosenRow(event).dataset.row));
  });
  walk(body);
  rest.addEventListener("click", () => more(1000));
  const columns = LISTED.map((entry) => ({ name: entry.name, raw: (row) => (entry.csv || entry.raw)(run, row) }));
  const whole = () => csv([{ name: "id", raw: (row) => run.rows.id[row] }, ...columns.slice(1)], rows);
  const buttons = el(
    "div",
    { class: "tools" },
    copyButton("copy as CSV", whole),
    el("button", { onclick: () => save("exchanges.csv", new Blob([whole()], { type: "text/csv" })) }, "save CSV"),
  );
  const listTable = el(
    "table",
    {},
    el("caption", {}, "Exchanges that are selected"),
    el("thead", {}, el("tr", {}, heads)),
    body,
  );
  return {
    node: el(
      "div",
      {},
      buttons,
      el("div", { class: "scroll tall", tabindex: "0" }, listTable),
      el("div", { class: "tools" }, rest),
    ),
    draw,
  };
}

// Return what the texts of a row had said at a time since its request: the end of it, and null if they are not here.
function saidBy(run, row, at) {
  const whole = run.texts?.text[row];
  if (whole === null || whole === undefined) return null;
  const count = after(run.outputs(row), at);
  const length = run.texts.sizes[row].slice(0, count).reduce((all, size) => all + size, 0);
  if (saidBy.row !== row) [saidBy.row, saidBy.signs] = [row, [...whole]];
  return { text: saidBy.signs.slice(Math.max(length - 120, 0), length).join(""), more: length > 120 };
}

// Return the lines of what the pointer is at.
function pointedAt(run, row, since) {
  const { rows } = run;
  const outcome = run.text("outcome", row);
  const facts = [
    rows.id[row].slice(0, 8),
    visible(run.text("model", row) ?? UNKNOWN),
    `${(run.states[outcome] || ["?"])[0]} ${visible(outcome)}`,
    `TTFT ${format.span(rows.ttft_ms[row] === null ? null : rows.ttft_ms[row] * 1000)}`,
    `latency ${format.span(rows.latency_ms[row] === null ? null : rows.latency_ms[row] * 1000)}`,
    `max gap ${format.span(rows.max_gap_ms[row] === null ? null : rows.max_gap_ms[row] * 1000)}`,
  ];
  const said = since === null ? null : saidBy(run, row, since);
  const at = since !== null && since >= 0 ? ` · at ${format.span(since * 1000)}` : "";
  return [
    el("span", { class: "any" }, `${facts.join(" · ")}${at}`),
    said ? el("span", { class: "saying any" }, `${said.more ? "…" : ""}${visible(said.text)}`) : "",
  ];
}

// Return the panel in which an exchange is opened: its player if its reads are here, else its gaps.
function panel(run, timeline) {
  const node = el("section", { class: "opened", hidden: true, "aria-label": "The exchange that is open" });
  const opened = { node, row: null, show, hide };
  async function show(row, { focus = true } = {}) {
    opened.row = row;
    const id = run.rows.id[row];
    state.set("x", id);
    timeline.mark(row);
    const exchange = await playable(run, id);
    if (opened.row !== row) return;
    const close = el("button", { onclick: hide }, "close");
    const command = `wiretape export --html ${id} -o ${id.slice(0, 8)}.html`;
    if (exchange) {
      const { frame, made: playerPane } = framed(exchange);
      frame.append(
        el("div", { class: "row" }, titleOf(exchange), el("span", { class: "spread" }), close),
        el("p", { class: "any small" }, exchange.reasons.map(visible).join(" · ")),
        playerPane.slider,
        playerPane.controls,
        playerPane.readout,
        exchange.texts.length ? playerPane.pane : el("p", { class: "muted" }, visible(exchange.silence)),
        playerPane.bytes.node,
        el("p", { class: "muted small" }, "Its events, reads and headers, too: ", el("code", {}, command)),
      );
      node.replaceChildren(frame);
      node.hidden = false;
      if (focus) playerPane.slider.focus({ preventScroll: true });
    } else {
      node.replaceChildren(
        el(
          "div",
          { class: "row" },
          el(
            "p",
            { class: "any" },
            el("strong", {}, visible(run.text("model", row) ?? UNKNOWN)),
            " ",
            el("span", { class: "mono muted" }, id),
            ` ${visible(run.text("outcome", row))}`,
          ),
          el("span", { class: "spread" }),
          close,
        ),
        gapStrip(run, row),
        el(
          "p",
          { class: "muted small" },
          "Its reads are not on this page. The whole of it, to play: ",
          el("code", {}, command),
        ),
      );
      node.hidden = false;
      if (focus) close.focus({ preventScroll: true });
    }
    if (focus) node.scrollIntoView({ block: "nearest" });
  }
  function hide() {
    opened.row = null;
    node.hidden = true;
    node.replaceChildren();
    state.set("x", null);
    timeline.mark(null);
  }
  return opened;
}

// Return the strip of an exchange of which only the gaps are here: its phases, and each gap on a log scale.
function gapStrip(run, row) {
  const at = run.outputs(row);
  const end = run.end[row] - run.at[row];
  const stalls = run.stallsOf.get(row) || [];
  const turns = run.rows.turns[row];
  const firsts = new Set(turns?.map((turn) => turn[1]));
  const gaps = new Set(stalls.map((stall) => stall.gap !== null && outputBefore(turns, stall.gap)));
  const stripPicture = picture(130, [
    (pen, width) => {
      const colours = palette();
      const x = (time) => 44 + (time / Math.max(end, 1)) * (width - 60);
      const found = timeTicks(0, end * 1000, width / 90);
      for (const time of found) {
        pen.fillStyle = colours.line;
        pen.fillRect(x(time / 1000), 14, 1, 112);
        pen.fillStyle = colours.muted;
        pen.fillText(tickLabel(time, found[1] - found[0] || end * 1000, end * 1000), x(time / 1000) + 3, 10);
      }
      pen.fillStyle = colours.wait;
      for (const [start, , , until] of turns ?? [[0, null, null, end]])
        pen.fillRect(x(start), 20, x(until) - x(start), 14);
      const hatched = () => {
        pen.fillStyle = hatch(pen, colours.stall);
        for (const stall of stalls) {
          const [from, to] = run.spanOf(row, stall, at);
          pen.fillRect(x(from), 20, x(to) - x(from), 14);
        }
      };
      if (!at.length) return hatched();
      pen.fillStyle = colours.content;
      for (const [, first, last] of turns ?? [[0, at[0], at.at(-1)]])
        if (first !== null) pen.fillRect(x(first), 20, Math.max(x(last) - x(first), 1), 14);
      const [thinking, answer] = [run.rows.thinking_ms[row], run.rows.ttfo_ms[row]];
      if (thinking !== null && answer !== null) {
        const from = (turns?.[0][0] ?? 0) + answer - thinking;
        pen.fillStyle = colours.reasoning;
        pen.fillRect(x(from), 20, Math.max(x(from + thinking) - x(from), 1), 14);
      }
      hatched();
      pen.fillStyle = colours.muted;
      for (const [us_, label] of [
        [1e3, "1 ms"],
        [1e5, "100 ms"],
        [1e7, "10 s"],
      ])
        pen.fillText(label, 0, 126 - 20 * (Math.log10(us_) - 2) + 4);
      at.forEach((time, place) => {
        const gap = place && !firsts.has(time) ? time - at[place - 1] : 0;
        const height = gap > 0 ? Math.max(20 * (Math.log10(gap) - 2), 1) : 1;
        pen.fillStyle = place && gaps.has(place - 1) ? colours.bad : colours.content;
        pen.fillRect(x(time) - 0.75, 126 - height, 1.5, height);
      });
    },
  ]);
  return stripPicture.node;
}

const RUN_KEYS = [
  ["← →", "move in time"],
  ["+ − 0", "zoom in, out, all"],
  ["↑ ↓", "the exchange before, the next"],
  ["enter", "open it"],
  ["f", "filter"],
  ["esc", "close"],
];

function runHelp() {
  const list = RUN_KEYS.map(([keys, meaning]) => [
    el(
      "dt",
      {},
      keys.split(" ").map((key, place) => [place ? " " : "", el("kbd", {}, key)]),
    ),
    el("dd", {}, meaning),
  ]);
  const dialog = el(
    "dialog",
    { "aria-label": "Keys" },
    el("h2", {}, "Keys and pointer"),
    el("dl", {}, list),
    el(
      "p",
      { class: "muted" },
      "Over the lanes: drag to zoom, shift and drag to move, double click for all; ctrl and the wheel zooms, too. A click on a bar or a point opens the exchange. The address of the page keeps what is shown.",
    ),
    el("form", { method: "dialog" }, el("p", { class: "tools" }, el("button", {}, "close"))),
  );
  return el(
    "span",
    {},
    el("button", { "aria-label": "keys and help", onclick: () => dialog.showModal() }, "?"),
    dialog,
  );
}

// Return the head of the page: how many exchanges there are, and when they were.
function heading(run, buttons) {
  const whole = run.groups[""][0];
  const time = (text) => moment(Date.parse(text) * 1000, 19);
  return el(
    "header",
    { class: "who" },
    el(
      "div",
      { class: "row" },
      el("h1", { class: "any" }, `${format.number(run.total)} ${run.total === 1 ? "exchange" : "exchanges"}`),
      live && run.size < run.total ? el("span", {}, `shown: the newest ${format.number(run.size)}`) : null,
      el(
        "span",
        { class: "muted" },
        whole.first_at ? `${time(whole.first_at)} – ${time(whole.last_at)}, your time zone` : "",
      ),
      el("span", { class: "spread" }),
      buttons,
    ),
    run.filter ? el("p", { class: "mono muted any" }, visible(run.filter)) : null,
  );
}

// Return what the figures are of, and what is to be beware of in them.
function remarks(run) {
  const { warnings } = run.groups[""][0];
  const of = `Figures are of generations: ${visible(run.left_out || "")}, which are in the lanes and in the table.`;
  const each = warnings.map((one) => el("li", { class: "any" }, visible(one)));
  return [
    run.left_out ? el("p", { class: "muted small any" }, of) : null,
    each.length ? el("ul", { class: "warnings" }, each) : null,
  ];
}

// A live page opens an exchange as a page of its own.
function elsewhere(run) {
  const show = (row) => location.assign(`${encodeURIComponent(run.rows.id[row])}/`);
  return { node: null, row: null, show, hide: () => {} };
}

boot(async (data) => {
  const run = unpackRun(data, await unpack("gaps"));
  const said = await unpack("texts");
  run.texts = said && JSON.parse(new TextDecoder().decode(said));
  const pageView = showing(run);
  const readout = el("div", { class: "readout pointed" });
  const hint = el(
    "span",
    { class: "muted" },
    `${live ? "opens at the last 5 minutes of traffic · " : ""}drag: zoom · shift and drag: move · double click: all · click: open`,
  );
  const timeline = runTimeline(run, pageView, {
    opened: (row) => opened.show(row),
    told: (row, since, at) =>
      readout.replaceChildren(
        ...(row !== null ? pointedAt(run, row, since) : [at === null ? hint : moment(run.first + Math.max(at, 0))]),
      ),
  });
  const opened = live ? elsewhere(run) : panel(run, timeline);
  const idle = swatch("raised", "idle time, cut, with its length above", "blank");
  const content = swatch("content", "content");
  const sides = (run.groups[COMPARED] || []).map((group, place) => swatch(`group${place}`, visible(group.name)));
  const pauses = PAUSES.map((name) => swatch(SESSION_COLOURS[name], name));
  const pointer = el(
    "div",
    {
      class: "timeline",
      tabindex: "0",
      role: "group",
      "aria-label": "Exchanges over time; arrows move, plus and minus zoom, up and down choose, enter opens",
    },
    timeline.picture.node,
  );
  let list = null;
  const listed = block(() => (list = listing(run, pageView, (row) => opened.show(row))).node);
  const field = el("input", {
    type: "text",
    class: "mono filter",
    placeholder: "filter, as in ls: model:gpt-* ttft>800ms -is:ok label:run=a7",
    "aria-label": "filter",
    spellcheck: "false",
    autocomplete: "off",
    maxlength: 4000,
  });
  const complaint = el("p", { class: "bad small any", role: "alert" });
  const line = el("p", { class: "selected any" });
  const key = el("div");
  const ecdf = curves(260, () => ({ unit: run.quantities[pageView.metric][0], series: pageView.series() }));
  const of = () => (pageView.metric === POOLED ? "gaps" : "exchanges");
  const figure = figureOf(
    () => `${titled(pageView.metric)}: share of ${of()} up to a value; follows the selection`,
    ecdf,
    "curves",
    ecdf.readout,
  );
  const behind = el("div");
  const about = el("p", { class: "muted small any" });

  function draw(isAgain) {
    line.textContent = selectionLine(run, pageView);
    const without =
      pageView.metric === POOLED && !pageView.isAll()
        ? pageView.rows.filter((row) => run.isMeasured(row) && run.gaps(row) === null).length
        : 0;
    about.textContent = `${run.quantities[pageView.metric][1]}, of complete exchanges${without ? `; without those of ${format.number(without)} selected ones, whose gaps are not on this page` : ""}`;
    const others = (run.groups[pageView.by] || []).length + (run.smaller[pageView.by] || 0) - GROUP_SIGNS;
    const series = pageView.series();
    key.replaceChildren(
      legendOf(series, pageView.by ? (name) => apply(term(pageView.by, name)) : null),
      others > 0
        ? el("p", { class: "muted small" }, `${others} smaller groups have no curve; above, they are grey.`)
        : "",
    );
    behind.replaceChildren(...distributionTable(run, pageView));
    ecdf.picture.drawAll();
    figure.update();
    pageView.again();
    timeline.update();
    idle.hidden = !timeline.hasCuts();
    content.hidden = pageView.by === COMPARED;
    for (const side of sides) side.hidden = !content.hidden;
    for (const pause of pauses) pause.hidden = pageView.lanes !== "conversation";
    list.draw(isAgain === true);
  }
  const term = (by, name) => {
    const value = name === UNKNOWN ? null : `"${name.replace(/[\\"]/g, "\\$&")}"`;
    const [, labelled] = /^label\.(.*)$/.exec(by) || [];
    if (by === COMPARED) return `(${name})`;
    if (labelled) return value ? `label:${labelled}=${value}` : `-label:${labelled}`;
    return value ? `${by}:${value}` : `-has:${by}`;
  };
  function apply(text) {
    field.value = text;
    try {
      pageView.select(text);
      complaint.textContent = "";
      field.removeAttribute("aria-invalid");
    } catch (error) {
      if (!(error instanceof FilterError)) throw error;
      complaint.textContent = error.message;
      field.setAttribute("aria-invalid", "true");
      return;
    }
    state.set("q", text.trim() || null);
    announce(selectionLine(run, pageView));
    draw();
  }
  let typing = null;
  field.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => apply(field.value), 250);
  });
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter") apply(field.value);
    if (event.key === "Escape") apply("");
  });
  const picker = (name, label, options, changed) => {
    const choice = el(
      "select",
      { "aria-label": label },
      options.map(([value, text_]) => el("option", { value }, visible(text_))),
    );
    const given = state.get(name);
    if (options.some(([value]) => value === given)) pageView[name] = given;
    choice.value = pageView[name];
    const otherwise = options[0][0];
    choice.addEventListener("change", () => {
      pageView[name] = choice.value;
      state.set(name, choice.value === otherwise ? null : choice.value);
      changed();
    });
    return el("label", { class: "small" }, `${label} `, choice);
  };
  const scope = live ? "the exchanges that are shown here" : "all exchanges of the export";
  const bys = () => Object.keys(run.groups).filter(Boolean);
  // What depends on which labels, conversations and costs there are at all.
  const offered = () => [...bys(), run.rows.conversation.values.length > 0, optional(run).length].join();
  const pickers = block(() => {
    const each = bys().map((one) => [one, one]);
    const conversations = run.rows.conversation.values.length ? [["conversation", "conversation"]] : [];
    return [
      picker("lanes", "lanes", [...each, ...conversations, ["", "as many as ran at once"]], draw),
      " ",
      picker("by", "groups", [...each, ["", "none"]], () => {
        pageView.group();
        draw();
        grouped.again();
      }),
    ];
  });
  const metric = picker(
    "metric",
    "distribution of",
    [
      "ttft",
      "gap",
      "max_gap",
      "max_silence",
      "max_event_silence",
      "max_output_silence",
      "first_silence",
      "first_event_silence",
      "first_output_silence",
      "icl_p50",
      "icl_p99",
      "tpot",
      "tps_user",
      "latency",
      "duration",
      "ttfo",
    ].map((one) => [one, titled(one)]),
    draw,
  );
  pageView.group();
  const grouped = block(() => groupTable(run, pageView.by));
  const only = el("input", {
    type: "checkbox",
    checked: state.get("only") !== null,
    onchange() {
      pageView.onlySelected = only.checked;
      state.set("only", only.checked ? 1 : null);
      timeline.update();
    },
  });
  pageView.onlySelected = only.checked;
  const savePicture = async () =>
    save("run.png", await timeline.picture.image(`${visible(run.title)} · ${line.textContent}`));

  function move(by_) {
    const rows = pageView.rows;
    if (!rows.length) return;
    const place = rows.indexOf(opened.row ?? move.row ?? -1);
    const next = rows[Math.min(Math.max(place + by_, 0), rows.length - 1)];
    move.row = next;
    timeline.mark(next);
    readout.replaceChildren(...pointedAt(run, next, null));
    announce(readout.textContent);
    if (opened.row !== null) opened.show(next, { focus: false });
  }
  const keys = {
    ArrowLeft: () => timeline.move(-0.15),
    ArrowRight: () => timeline.move(0.15),
    ArrowUp: () => move(-1),
    ArrowDown: () => move(1),
    "+": () => timeline.zoom(1.6),
    "=": () => timeline.zoom(1.6),
    "-": () => timeline.zoom(1 / 1.6),
    0: timeline.fit,
    Enter: () => move.row !== undefined && opened.show(move.row),
    Escape: opened.hide,
  };
  pointer.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in keys)) return;
    event.preventDefault();
    keys[event.key]();
  });
  addEventListener("keydown", (event) => {
    if (event.target.closest("input, select, textarea, dialog") || event.ctrlKey || event.metaKey || event.altKey)
      return;
    if (event.key === "f" || event.key === "/") (event.preventDefault(), field.focus());
    if (event.key === "Escape" && opened.row !== null) opened.hide();
  });

  // Select the exchanges of a session; a filter finds names by their beginning, so that longer ones are left out.
  function ofSession(key) {
    if (key === null) return apply("");
    const longer = run.rows.conversation.values.filter((name) => name !== key && fold(name).startsWith(fold(key)));
    return apply([term("conversation", key), ...longer.map((name) => `-${term("conversation", name)}`)].join(" "));
  }
  const agents = sessionsOf(run, { select: ofSession, opened: (row) => opened.show(row) });

  readout.replaceChildren(hint);
  field.value = state.get("q", "");
  if (field.value) {
    try {
      pageView.select(field.value);
    } catch (error) {
      complaint.textContent = error.message;
    }
  }
  draw();
  const wanted = run.rows.id.indexOf(state.get("x"));
  if (wanted >= 0 && !live) setTimeout(() => opened.show(wanted, { focus: false }));
  const buttons = el(
    "div",
    { class: "switches row" },
    theme.switch(),
    el("button", { onclick: savePicture }, "PNG"),
    el("button", { onclick: () => print() }, "print"),
    runHelp(),
  );
  const head = block(() => [heading(run, buttons), outcomes(run, apply)]);
  const tiles = block(() => [
    headlines(run),
    el(
      "p",
      { class: "muted small" },
      `Of ${scope}, whatever is selected; times are of complete ones. Below each figure its interval at 95 %, by itself, and of how many values it is; gaps are those between reads with output, of all exchanges together.`,
    ),
    remarks(run),
  ]);
  const left = block(() => banner(run.banner));
  const comparison = run.comparisons.length
    ? [
        el("h2", {}, "Comparison"),
        el("p", { class: "muted small" }, "As compare prints it, of all exchanges of the export, whatever is selected."),
        ...comparing(run, pageView),
      ]
    : [];
  live?.follow(async (fresh) => {
    const before = offered();
    Object.assign(run, unpackRun(fresh, await unpack("gaps")));
    if (offered() !== before) for (const part of [pickers, listed]) part.again();
    pageView.grow();
    timeline.grow();
    draw(true);
    for (const part of [head, tiles, grouped, agents, left]) part.again();
    document.title = `${visible(run.title)} · wiretape`;
  });
  return [
    head.node,
    ...(COMPARED in run.groups ? [...comparison, el("h2", {}, "Exchanges over time")] : []),
    ...(trendOf(run) ?? []),
    run.trend ? el("h2", {}, `The newest ${format.number(run.size)}`) : null,
    el(
      "div",
      { class: "row filterline" },
      field,
      pickers.node,
      el("label", { class: "small" }, only, " only selected"),
    ),
    complaint,
    line,
    pointer,
    el(
      "div",
      { class: "legend" },
      swatch("wait", "wait"),
      swatch("reasoning", "reasoning"),
      content,
      sides,
      pauses,
      swatch("stall", `stall: more than ${format.span(run.stall_ns)} without output`, "hatched"),
      swatch("bad", "failed"),
      idle,
    ),
    readout,
    opened.node,
    el("h2", {}, "Figures"),
    tiles.node,
    agents.node,
    el("h2", {}, "Distributions"),
    el("div", { class: "row tools" }, metric, about),
    key,
    el("div", { class: "plots" }, figure.node, behind),
    el("h2", {}, "Groups"),
    el("p", { class: "muted small" }, `Of ${scope}, whatever is selected; as stats --by prints them.`),
    grouped.node,
    ...(COMPARED in run.groups ? [] : comparison),
    el("h2", {}, "Exchanges"),
    el("p", { class: "muted small" }, "What is selected; a click on a head sorts, on a row opens."),
    listed.node,
    left.node,
    el("p", { class: "muted" }, `wiretape ${run.version}`),
  ].filter(Boolean);
});

function swatch(colour, label, sign) {
  const square = el("i", { class: sign });
  if (!sign) square.style.background = `var(--${colour})`;
  return el("span", {}, square, label);
}
