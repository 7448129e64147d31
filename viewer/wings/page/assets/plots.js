// Distributions: cumulative curves of a quantity, one for each group, on one logarithmic axis.

const DASHES = [[], [7, 3], [2, 2], [9, 3, 2, 3], [4, 2], [1, 3]];

// What quantities are called on the page, where their names in `stats` are short.
const TITLES = { ttft: "TTFT", gap: "gap, pooled", tps_user: "speed" };
const titled = (name) => TITLES[name] || name;

// A logarithmic axis of values, from bucket to bucket; 0 has a place of its own at the left.
function logAxis(least, most) {
  const edges = edgesAround(least, most);
  const [low, high] = [Math.log(edges[0]), Math.log(edges.at(-1))];
  return {
    edges,
    share: (value) =>
      value <= 0 ? -0.02 : Math.min(Math.max((Math.log(value) - low) / (high - low || 1), -0.02), 1.02),
  };
}

const shownValue = (value, unit) =>
  unit === "ms"
    ? format.span(value * 1e6).replace(/\.0+(?= )/, "")
    : `${format.number(value, value < 10 ? 2 : value < 100 ? 1 : 0)}${unit === "%" ? " %" : ""}`;

function axisOfValues(pen, axis, unit, left, right, y, colours, top) {
  pen.textBaseline = "middle";
  pen.textAlign = "center";
  let before = -99;
  for (const edge of axis.edges) {
    const x = Math.round(left + axis.share(edge) * (right - left));
    pen.fillStyle = colours.line;
    pen.fillRect(x, top, 1, y - top);
    const label = shownValue(edge, unit);
    const half = pen.measureText(label).width / 2;
    const place = Math.min(x, right + 14 - half);
    if (place - half < before + 6) continue;
    before = place + half;
    pen.fillStyle = colours.muted;
    pen.fillText(label, place, y + 10);
  }
  pen.textAlign = "left";
}

// Return a plot of cumulative curves; `series` gives { name, sign, points: [[value, share], …], n } each, `unit` is theirs.
function curves(height, read) {
  let pointer = null;
  const left = 40;
  const right = 14;
  const top = 10;
  const bottom = 24;
  const readout = el("p", { class: "readout muted" });
  let named = false;
  let axis = null;
  function base(pen, width, tall) {
    const colours = palette();
    const { series, unit } = read();
    const values = series.flatMap((one) => (one.points.length ? [one.points[0][0], one.points.at(-1)[0]] : []));
    const above = values.filter((value) => value > 0);
    if (!above.length) return nothing(pen, width, tall, colours);
    const positive = series.flatMap((one) => one.points.find((point) => point[0] > 0)?.[0] ?? []);
    axis = logAxis(Math.min(...positive), Math.max(...above));
    axisOfValues(pen, axis, unit, left, width - right, tall - bottom, colours, top);
    pen.textAlign = "right";
    for (const share of [0, 0.25, 0.5, 0.75, 0.95, 1]) {
      const y = Math.round(tall - bottom - share * (tall - bottom - top));
      pen.fillStyle = colours.line;
      pen.fillRect(left, y, width - left - right, 1);
      pen.fillStyle = colours.muted;
      if (share !== 1) pen.fillText(`${100 * share} %`, left - 6, y);
    }
    pen.textAlign = "left";
    for (const one of series) {
      pen.strokeStyle = one.sign < GROUP_SIGNS ? colours.groups[one.sign] : colours.muted;
      pen.setLineDash(DASHES[one.sign] || [1, 2]);
      pen.lineWidth = 1.8;
      pen.beginPath();
      let y = tall - bottom;
      pen.moveTo(left, y);
      for (const [value, share] of one.points) {
        const x = left + Math.max(axis.share(value), 0) * (width - left - right);
        pen.lineTo(x, y);
        y = tall - bottom - share * (tall - bottom - top);
        pen.lineTo(x, y);
      }
      pen.lineTo(width - right, y);
      pen.stroke();
    }
    pen.setLineDash([]);
    pen.lineWidth = 1;
    if (named) names(pen, width - right - 8, tall - bottom - 14 * series.length, series, colours);
  }
  function over(pen, width, tall) {
    if (pointer === null || !axis) return;
    pen.fillStyle = theme.colour("accent");
    pen.fillRect(pointer, top, 1, tall - top - bottom);
  }
  const made = picture(height, [base, over]);
  made.node.addEventListener("pointermove", (event) => {
    const x = event.clientX - made.node.getBoundingClientRect().left;
    pointer = Math.min(Math.max(x, left), made.width - right);
    made.draw(1);
    if (!axis) return;
    const { series, unit } = read();
    const [low, high] = [axis.edges[0], axis.edges.at(-1)].map(Math.log);
    const value = Math.exp(low + ((pointer - left) / (made.width - left - right)) * (high - low));
    const shares = series.map((one) => {
      const share =
        one.points[
          after(
            one.points.map((point) => point[0]),
            value,
          ) - 1
        ]?.[1] ?? 0;
      return `${visible(one.name)} ${format.number(100 * share, 1)} %`;
    });
    readout.textContent = `up to ${shownValue(value, unit)}: ${shares.join(" · ")}`;
  });
  made.node.addEventListener("pointerleave", () => {
    pointer = null;
    readout.textContent = "";
    made.draw(1);
  });
  // Return the plot as an image, which has the names of its curves, as it has no legend beside it.
  async function image(title) {
    named = true;
    made.draw(0);
    const found = await made.image(title);
    named = false;
    made.draw(0);
    return found;
  }
  return { picture: made, readout, image };
}

// Draw the names of curves, each at the left of a piece of its line.
function names(pen, right, top, series, colours) {
  pen.textAlign = "right";
  series.forEach((one, place) => {
    const y = top + 14 * place;
    pen.strokeStyle = one.sign < GROUP_SIGNS ? colours.groups[one.sign] : colours.muted;
    pen.setLineDash(DASHES[one.sign] || [1, 2]);
    pen.lineWidth = 1.8;
    pen.beginPath();
    pen.moveTo(right - 26, y);
    pen.lineTo(right, y);
    pen.stroke();
    pen.fillStyle = colours.text;
    pen.fillText(fitting(pen, visible(one.name), 240), right - 32, y);
  });
  pen.setLineDash([]);
  pen.lineWidth = 1;
  pen.textAlign = "left";
}

// Return a figure: its caption with a button that saves it as an image, the picture, and what is below it.
function figureOf(caption, plot, name, ...below) {
  const image = plot.image || plot.picture.image;
  const button = el(
    "button",
    { class: "mini", onclick: async () => save(`${name}.png`, await image(caption())) },
    "PNG",
  );
  const words = el("span", {}, caption());
  const node = el(
    "figure",
    {},
    el("figcaption", {}, words, " ", button),
    ...below.slice(1),
    plot.picture.node,
    below[0] || "",
  );
  return { node, update: () => (words.textContent = caption()) };
}

function nothing(pen, width, height, colours) {
  pen.fillStyle = colours.muted;
  pen.fillText("no values", width / 2 - 20, height / 2);
}

// Return what stands for a group in a legend: its sign in its colour, its name, its n.
function legendOf(series, toggle) {
  return el(
    "div",
    { class: "legend" },
    series.map((one) => {
      const sign = picture(12, [
        (pen) => {
          const colours = palette();
          pen.fillStyle = pen.strokeStyle = one.sign < GROUP_SIGNS ? colours.groups[one.sign] : colours.muted;
          pen.setLineDash(DASHES[one.sign] || [1, 2]);
          pen.lineWidth = 1.8;
          pen.beginPath();
          pen.moveTo(0, 6);
          pen.lineTo(26, 6);
          pen.stroke();
          groupSign(pen, one.sign, 13, 6, 3.2);
        },
      ]);
      sign.node.classList.add("sign");
      return el(
        "span",
        toggle
          ? {
              class: "pick",
              role: "button",
              tabindex: "0",
              onclick: () => toggle(one.name),
              onkeydown: (event) => event.key === "Enter" && toggle(one.name),
            }
          : {},
        sign.node,
        `${visible(one.name)} `,
        el("span", { class: "muted" }, `n ${format.number(one.n)}`),
      );
    }),
  );
}
