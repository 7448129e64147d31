// Pictures: canvases that are sharp on every screen and drawn anew only where something changed.

const FONT = '11px system-ui, "Segoe UI", Roboto, "Liberation Sans", sans-serif';

// Return a picture of layers, one canvas over the other, each drawn by its function of (context, width, height).
function picture(height, layers) {
  const nodes = layers.map(() => el("canvas", { "aria-hidden": "true" }));
  const node = el("div", { class: "picture" }, nodes);
  node.style.height = `${height}px`;
  const made = {
    node,
    height,
    width: 0,
    draw(number) {
      if (!made.width) return;
      const context = nodes[number].getContext("2d");
      context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
      context.clearRect(0, 0, made.width, made.height);
      context.font = FONT;
      layers[number](context, made.width, made.height);
    },
    drawAll() {
      made.width = node.clientWidth;
      for (const one of nodes) {
        one.width = Math.round(made.width * devicePixelRatio);
        one.height = Math.round(made.height * devicePixelRatio);
      }
      layers.forEach((_, number) => made.draw(number));
    },
    resize(value) {
      made.height = value;
      node.style.height = `${value}px`;
      made.drawAll();
    },
    // Return all layers as one image on the page's background, below a line of text.
    image(title) {
      const whole = el("canvas", { width: nodes[0].width, height: nodes[0].height + 28 * devicePixelRatio });
      const context = whole.getContext("2d");
      context.fillStyle = theme.colour("back");
      context.fillRect(0, 0, whole.width, whole.height);
      nodes.forEach((one) => context.drawImage(one, 0, 28 * devicePixelRatio));
      context.scale(devicePixelRatio, devicePixelRatio);
      context.font = `bold ${FONT}`;
      context.fillStyle = theme.colour("text");
      context.fillText(title, 8, 18);
      return new Promise((done) => whole.toBlob(done, "image/png"));
    },
  };
  new ResizeObserver(made.drawAll).observe(node);
  theme.listeners.push(made.drawAll);
  return made;
}

// Return round values from `from` to `to`, at most so many.
function ticks(from, to, most) {
  const least = (to - from) / Math.max(most, 1);
  const power = 10 ** Math.floor(Math.log10(least || 1));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= least) || power;
  const found = [];
  for (let at = Math.ceil(from / step) * step; at <= to; at += step) found.push(at);
  return found;
}

const ROUND_SECONDS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400];

// Return round times in ns from `from` to `to`, at most so many; where an axis has minutes, these are round.
function timeTicks(from, to, most) {
  const least = (to - from) / Math.max(most, 1);
  const round = ROUND_SECONDS.map((one) => one * 1e9).find((one) => one >= least);
  if (to < LEAST_MINUTES * 1e9 || least <= 5e8 || !round) return ticks(from, to, most);
  const found = [];
  for (let at = Math.ceil(from / round) * round; at <= to; at += round) found.push(at);
  return found;
}

// Return a time of an axis up to `end` with as many digits as a step of it needs.
function tickLabel(ns, step, end = 0) {
  if (end >= LEAST_MINUTES * 1e9)
    return minutes(ns / 1e9, Math.min(Math.max(Math.ceil(9 - Math.log10(step) - 1e-9), 0), 6));
  if (step >= 1e9) return `${format.number(ns / 1e9)} s`;
  if (step >= 1e6)
    return ns >= 1e9
      ? `${format.number(ns / 1e9, step >= 1e8 ? 1 : step >= 1e7 ? 2 : 3)} s`
      : `${format.number(ns / 1e6)} ms`;
  return `${format.number(ns / 1e6, step >= 1e5 ? 1 : step >= 1e4 ? 2 : 3)} ms`;
}

// Return black or white, whichever can be read on a computed colour.
function inkOn(colour) {
  const [red, green, blue] = colour.match(/[\d.]+/g).map((part) => (Number(part) / 255) ** 2.2);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.2 ? "#111" : "#fff";
}

// Return diagonal lines to fill with.
function hatch(context, colour) {
  const scale = devicePixelRatio;
  const tile = el("canvas", { width: 7 * scale, height: 7 * scale });
  const pen = tile.getContext("2d");
  pen.scale(scale, scale);
  pen.strokeStyle = colour;
  pen.lineWidth = 1.3;
  for (const shift of [-7, 0, 7]) {
    pen.beginPath();
    pen.moveTo(shift - 1, 8);
    pen.lineTo(shift + 8, -1);
    pen.stroke();
  }
  const pattern = context.createPattern(tile, "repeat");
  pattern.setTransform(new DOMMatrix().scale(1 / scale));
  return pattern;
}

// Return a text that fits into a width: both ends of a longer one, since names often differ in the last part.
function middleCut(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let length = Math.floor((text.length * width) / context.measureText(text).width);
  const cut = () => `${text.slice(0, Math.ceil(length / 2))}…${text.slice(text.length - Math.floor(length / 2))}`;
  while (length > 2 && context.measureText(cut()).width > width) length -= 1;
  return cut();
}

// Return as much of a text as fits into a width; "" if that is too little to read.
function fitting(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let length = Math.floor((text.length * width) / context.measureText(text).width);
  while (length > 3 && context.measureText(`${text.slice(0, length)}…`).width > width) length -= 1;
  return length > 3 ? `${text.slice(0, length)}…` : "";
}
