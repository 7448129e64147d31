// Two groups compared: differences with their intervals, and the worst exchange of each, played in step.

// What a player keeps that is not in the URL of the page.
function apart() {
  const values = new Map();
  return {
    get: (name, otherwise = null) => values.get(name) ?? otherwise,
    set: (name, value) => values.set(name, value),
  };
}

// Return an exchange that can be played; null if it is not on the page.
async function playable(run, id) {
  if (!run.playable.includes(id)) return null;
  run.streams ??= JSON.parse(new TextDecoder().decode(await unpack("streams")));
  return unpackExchange(structuredClone(run.streams[id]));
}

// Return the player of an exchange, in a frame of its own, on which it hears keys.
function framed(one) {
  const id = one.id;
  const frame = el("section", { class: "one", "aria-label": `Exchange ${id.slice(0, 8)}` });
  const made = player(one, { stateStore: apart(), scope: frame });
  return { one, frame, made };
}

function titleOf(one) {
  const tone = { success: "good", warning: "warn", error: "bad" }[one.state.tone] || "muted";
  return el(
    "p",
    { class: "any" },
    el("strong", {}, visible(one.model || UNKNOWN)),
    " ",
    el("span", { class: "mono muted" }, one.id),
    " ",
    el("span", { class: tone }, `${one.state.sign} ${visible(one.state.text)}`),
    one.status === null ? "" : ` · ${one.status}`,
    one.brief ? el("span", { class: one.stalls.length ? "bad" : "warn" }, ` · ${visible(one.brief)}`) : "",
  );
}

// Return two players that go on together, on one clock that begins with each request.
async function inStep(run, ids, names) {
  const found = (await Promise.all(ids.map((id) => playable(run, id)))).filter(Boolean);
  if (found.length < 2)
    return [el("p", { class: "muted" }, "One of the two is not on this page: export it by itself.")];
  const end = Math.max(...found.map((one) => one.end));
  const pair = found.map((one) => framed({ ...one, end }));
  const { width } = document.documentElement.getBoundingClientRect();
  const when = el("output", { class: "when" });
  const pace = el(
    "select",
    { "aria-label": "speed of both" },
    SPEEDS.map((speed) => el("option", { value: speed, selected: speed === 1 }, `${speed}×`)),
  );
  let started = null;
  let at = end;
  const show = () => {
    pair.forEach(({ made }) => made.seek(at));
    when.textContent = `${format.time(at, end)} / ${format.timeWithUnit(end)}`;
  };
  const play = el("button", { class: "play", onclick: () => (started === null ? begin() : pause()) }, "▶ play both");
  const frame = (now) => {
    if (started === null) return;
    at = Math.min(started.at + Math.max(now - started.now, 0) * 1e6 * Number(pace.value), end);
    show();
    if (at >= end || !play.isConnected) pause();
    else requestAnimationFrame(frame);
  };
  function begin() {
    if (at >= end) at = 0;
    started = { now: performance.now(), at };
    play.textContent = "❚❚ pause";
    requestAnimationFrame(frame);
  }
  function pause() {
    started = null;
    play.textContent = "▶ play both";
  }
  pace.addEventListener("change", () => started && (started = { now: performance.now(), at }));
  const slide = el("input", {
    type: "range",
    min: 0,
    max: 1000,
    value: 1000,
    "aria-label": "time since both requests",
  });
  slide.addEventListener("input", () => {
    pause();
    at = (end * slide.value) / 1000;
    show();
  });
  when.textContent = format.timeWithUnit(end);
  return [
    el("div", { class: "controls row" }, play, pace, slide, when),
    el(
      "div",
      { class: width < 1000 ? "pair narrow" : "pair" },
      pair.map(({ one, frame: box, made }, place) => {
        box.append(
          el("h3", { class: "any" }, `${visible(names[place])}: longest without output`),
          titleOf(one),
          made.slider,
          made.readout,
          one.texts.length ? made.pane : "",
        );
        return box;
      }),
    ),
  ];
}

// Return the differences as a picture: of each metric the change in percent of the base, with its interval.
function forest(run, comparison) {
  const rows = comparison.rows.map((row) =>
    Object.fromEntries(Object.keys(run.compared).map((name, place) => [name, row[place]])),
  );
  const judged = rows.filter((row) => row.low !== null && row.base);
  const left = 176;
  const right = 120;
  const high = 18;
  const share = (row, value) => (100 * value) / Math.abs(row.base);
  const reach = Math.min(
    Math.max(10, ...judged.flatMap((row) => [share(row, row.low), share(row, row.high)].map(Math.abs))),
    200,
  );
  const made = picture(Math.max(judged.length, 1) * high + 30, [
    (pen, width, tall) => {
      const colours = palette();
      const narrow = width < 640;
      const begin = narrow ? 118 : left;
      const end = width - (narrow ? 14 : right);
      const x = (percent) =>
        begin + ((Math.min(Math.max(percent, -reach), reach) + reach) / (2 * reach)) * (end - begin);
      pen.textBaseline = "middle";
      pen.textAlign = "center";
      for (const percent of ticks(-reach, reach, narrow ? 4 : 8)) {
        pen.fillStyle = Math.abs(percent) < 1e-9 ? colours.text : colours.line;
        pen.fillRect(Math.round(x(percent)), 4, 1, tall - 26);
        pen.fillStyle = colours.muted;
        pen.fillText(
          `${percent > 0 ? "+" : ""}${format.number(percent)} %`,
          Math.min(x(percent), width - 22),
          tall - 12,
        );
      }
      pen.textAlign = "left";
      if (!judged.length) nothing(pen, width, tall, colours);
      judged.forEach((row, place) => {
        const y = 6 + place * high + high / 2;
        const colour = row.verdict.endsWith("better")
          ? colours.good
          : row.verdict.endsWith("worse")
            ? colours.bad
            : colours.muted;
        pen.fillStyle = colours.text;
        pen.fillText(
          row.metric
            .replace(/_ms$|_pct$/, "")
            .replace(/^(\w+)_(p\d+)$/, (_, name, percent) => `${titled(name)} ${percent}`)
            .replaceAll("_", " "),
          0,
          y,
        );
        pen.fillStyle = colour;
        const [low, most] = [x(share(row, row.low)), x(share(row, row.high))];
        pen.fillRect(low, y - 1, Math.max(most - low, 1), 2);
        // An end that is beyond the picture has no bar across it.
        for (const [edge, value] of [
          [low, row.low],
          [most, row.high],
        ])
          if (Math.abs(share(row, value)) <= reach) pen.fillRect(edge - 0.5, y - 4, 1, 8);
        groupSign(
          pen,
          row.verdict.endsWith("worse") ? 2 : row.verdict.endsWith("better") ? 0 : 1,
          x(share(row, row.difference)),
          y,
          3.5,
        );
        if (!narrow) pen.fillText(row.verdict.replace("no clear difference", "unclear"), end + 14, y);
      });
    },
  ]);
  return { picture: made, rows };
}

function differenceTable(run, comparison, rows) {
  const numbered = new Set(["base_n", "new_n", "base", "new", "difference", "change_pct", "low", "high"]);
  const columns = Object.entries(run.compared).map(([name, meaning]) =>
    column(
      name,
      (row) => row[name],
      numbered.has(name)
        ? { number: true, title: meaning, shown: (value) => format.number(value, name.endsWith("_n") ? 0 : 2) }
        : { title: meaning },
    ),
  );
  return table("Differences of the two groups", columns, rows, { file: "comparison" });
}

// Return the section of comparisons: which groups, and what is shown of two.
function comparing(run, pageView) {
  const nameOf = (comparison, place) => comparison.names[place] ?? UNKNOWN;
  const label = (comparison) =>
    `${comparison.by ? `${comparison.by}: ` : ""}${nameOf(comparison, 1)} against ${nameOf(comparison, 0)}`;
  const body = el("div");
  const choice = el(
    "select",
    { "aria-label": "which groups" },
    run.comparisons.map((one, place) => el("option", { value: place }, visible(label(one)))),
  );
  let place = Math.min(Math.max(Number(state.get("pair", 0)) || 0, 0), run.comparisons.length - 1);
  choice.value = String(place);
  function draw() {
    const comparison = run.comparisons[place];
    const names = [nameOf(comparison, 0), nameOf(comparison, 1)];
    const picture = forest(run, comparison);
    const every = Array.from({ length: run.size }, (_, row) => row);
    const members = comparison.members
      ? comparison.members.map(undelta)
      : comparison.names.map((name) => every.filter((row) => run.groupOf(comparison.by, row) === name));
    // A group has the sign that it has elsewhere on the page, as far as the two can be told apart.
    const signs = () => {
      const found = comparison.names.map((name) =>
        (comparison.by ?? COMPARED) === pageView.by ? pageView.names.get(name) : undefined,
      );
      return found.every((sign) => sign < GROUP_SIGNS) ? found : [0, 1];
    };
    const series = () => ({
      unit: run.quantities[pageView.metric][0],
      series: members.map((rows, side) =>
        seriesOf(
          run,
          pageView.metric,
          names[side],
          signs()[side],
          rows,
          comparison.by === null ? run.groups[COMPARED][side] : null,
        ),
      ),
    });
    const paired = curves(220, series);
    const key = el("div", {}, legendOf(series().series));
    const both = figureOf(
      () => `${titled(pageView.metric)} of both, of complete exchanges`,
      paired,
      "both",
      paired.readout,
      key,
    );
    pageView.again = () => {
      both.update();
      paired.picture.drawAll();
      key.replaceChildren(legendOf(series().series));
    };
    const better = picture.rows.filter((row) => row.verdict === "new is better").length;
    const worse = picture.rows.filter((row) => row.verdict === "new is worse").length;
    const unclear = picture.rows.filter((row) => row.verdict === "no clear difference").length;
    const few = picture.rows.length - better - worse - unclear;
    const worst = el("div");
    const open = el(
      "button",
      { onclick: async () => worst.replaceChildren(...(await inStep(run, comparison.worst, names))) },
      "show the worst of each side by side",
    );
    if (!comparison.worst.every((id) => id && run.playable.includes(id))) open.disabled = true;
    worst.append(open);
    body.replaceChildren(
      el(
        "p",
        { class: "any" },
        "new: ",
        el("strong", {}, visible(names[1])),
        ", base: ",
        el("strong", {}, visible(names[0])),
        ` · ${worse} of ${picture.rows.length} metrics worse, ${better} better, ${unclear} not clearly different${few ? `, ${few} with too few values` : ""}`,
      ),
      el(
        "div",
        { class: "plots" },
        figureOf(
          () =>
            `${visible(names[1])} − ${visible(names[0])}, in percent of the latter; all intervals hold together with 95 %`,
          picture,
          "differences",
        ).node,
        both.node,
      ),
      el(
        "details",
        { class: "behind" },
        el("summary", {}, "Differences as a table"),
        el("div", { class: "inside" }, differenceTable(run, comparison, picture.rows)),
      ),
      worst,
    );
  }
  choice.addEventListener("change", () => {
    place = Number(choice.value);
    state.set("pair", place || null);
    draw();
  });
  draw();
  return [el("div", { class: "row tools" }, choice), body];
}
