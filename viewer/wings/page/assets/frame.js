"use strict";
// The frame of every page: its data, elements made of text nodes only, theme, state in the URL, copying and saving.

const UNKNOWN = "–";

let live = null; // where the value of a live page comes from

function el(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value);
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return made;
}

// Return the bytes of a block of the document; null if there is none.
async function unpack(name) {
  if (live) return live.bytes(name);
  const block = document.getElementById(name);
  if (!block) return null;
  const packed = Uint8Array.from(atob(block.textContent), (sign) => sign.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

// Undo the differences of a column; null stays null.
function undelta(column) {
  let before = 0;
  return column.map((value) => (value === null ? null : (before += value)));
}

// Show what a browser would hide or obey in a line: control characters, bidirectional controls, what has no width.
function visible(text) {
  return text.replace(
    /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ufeff\ud800-\udfff\u{e0000}-\u{e007f}]/gu,
    (sign) => {
      const code = sign.codePointAt(0);
      if (code < 0x20) return String.fromCodePoint(0x2400 + code);
      if (code === 0x7f) return "\u2421";
      if (code === 0x2028 || code === 0x2029) return "\u240a";
      if ([0xad, 0x180e, 0x200b, 0x2060, 0xfeff].includes(code)) return "·";
      return code < 0xa0 || code >= 0xd800 ? "\ufffd" : "\u25c6";
    },
  );
}

// Return the first index whose value is greater than `value`, in an ascending column.
function after(column, value) {
  let low = 0;
  let high = column.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (column[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low;
}

const LEAST_MINUTES = 120; // s

// Return seconds as minutes and seconds, as `30:36`, with decimals of the seconds.
function minutes(seconds, digits = 0) {
  const unit = 10 ** digits;
  const parts = Math.round(seconds * unit);
  const rest = ((parts % (60 * unit)) / unit).toFixed(digits);
  return `${Math.floor(parts / (60 * unit))}:${rest.padStart(digits ? digits + 3 : 2, "0")}`;
}

const format = {
  number: (value, digits = 0) =>
    value === null || value === undefined
      ? UNKNOWN
      : value.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits }),
  ms: (ns, digits = 1) => format.number(ns === null || ns === undefined ? null : ns / 1e6, digits),
  // A time to a millisecond: in seconds, and from 120 s on in minutes, as `30:36.755`, also if the time that it is shown
  // with is that long.
  time(ns, beside = 0) {
    const text = (ns / 1e9).toFixed(3);
    return Math.max(Number(text), beside / 1e9) < LEAST_MINUTES ? text : minutes(ns / 1e9, 3);
  },
  // The same with the unit of seconds; minutes need none.
  timeWithUnit: (ns) => `${format.time(ns)}${Number((ns / 1e9).toFixed(3)) < LEAST_MINUTES ? " s" : ""}`,
  // A duration in few characters: 340 µs, 12.3 ms, 2.40 s, 20:03 min, 3.7 h, 2.1 d.
  span: (ns) => {
    if (ns === null || ns === undefined) return UNKNOWN;
    if (ns >= 48 * 3600e9) return `${format.number(ns / 86400e9, 1)} d`;
    if (ns >= 2 * 3600e9) return `${format.number(ns / 3600e9, 1)} h`;
    if (ns >= LEAST_MINUTES * 1e9) return `${minutes(ns / 1e9)} min`;
    if (ns >= 999.5e6) return `${format.number(ns / 1e9, ns < 99.95e9 ? 2 : 0)} s`;
    if (ns >= 999500) return `${format.number(ns / 1e6, ns < 99.95e6 ? 1 : 0)} ms`;
    return ns ? `${format.number(ns / 1e3)} µs` : "0";
  },
};

// The state of the page in the hash of its URL, so that a link shows what its sender saw.
const state = {
  values: new URLSearchParams(location.hash.slice(1)),
  get: (name, otherwise = null) => state.values.get(name) ?? otherwise,
  set(name, value) {
    if (value === null) state.values.delete(name);
    else state.values.set(name, value);
    clearTimeout(state.timer);
    state.timer = setTimeout(() => {
      history.replaceState(null, "", `${location.pathname}${location.search}#${state.values}`);
    }, 200);
  },
};

const theme = {
  names: ["auto", "light", "dark"],
  listeners: [],
  // Colours as the canvas wants them: computed, for the theme that is shown.
  colour(name) {
    theme.probe ??= document.body.appendChild(el("span", { hidden: true }));
    theme.probe.style.color = `var(--${name})`;
    return getComputedStyle(theme.probe).color;
  },
  apply(name) {
    if (name === "auto") document.documentElement.removeAttribute("data-theme");
    else document.documentElement.setAttribute("data-theme", name);
    theme.listeners.forEach((listener) => listener());
  },
  switch() {
    const button = el("button", { title: "Theme: as the system has it, light, dark" });
    const show = (name) => {
      button.replaceChildren(`theme: ${name}`);
      theme.apply(name);
    };
    const given = state.get("theme", "auto");
    show(theme.names.includes(given) ? given : "auto");
    button.addEventListener("click", () => {
      const name = theme.names[(theme.names.indexOf(state.get("theme", "auto")) + 1) % theme.names.length];
      state.set("theme", name === "auto" ? null : name);
      show(name);
    });
    return button;
  },
};
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => theme.apply(state.get("theme", "auto")));
addEventListener("beforeprint", () => theme.apply("light"));
addEventListener("afterprint", () => theme.apply(state.get("theme", "auto")));

// Another fragment of the same page shows what its sender saw.
addEventListener("hashchange", () => location.reload());

// Say something to those who look and to those who listen.
function announce(text) {
  announce.place ??= document.body.appendChild(el("div", { class: "hidden", role: "status", "aria-live": "polite" }));
  announce.place.textContent = text;
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without the permission, what is selected can still be copied.
    const area = document.body.appendChild(el("textarea", { class: "hidden" }));
    area.value = text;
    area.select();
    document.execCommand("copy");
    area.remove();
  }
}

function copyButton(label, text) {
  const button = el("button", {}, label);
  button.addEventListener("click", async () => {
    await copy(await text());
    button.textContent = "copied";
    announce(`${label}: copied`);
    setTimeout(() => (button.textContent = label), 1200);
  });
  return button;
}

function save(name, blob) {
  const link = el("a", { download: name, href: URL.createObjectURL(blob) });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// What was left out of the page, and what is redacted: `lines` are a word and its sentence each.
function banner(lines) {
  const parts = lines.map(([word, sentence]) => el("p", {}, el("strong", {}, `${word} `), visible(sentence)));
  return el("div", { class: "banner", role: "note" }, parts);
}

// Whether somebody is about to do something in an element that may not be built anew under them.
function isInUse(node) {
  const active = node.contains(document.activeElement) && document.activeElement.matches("input, select, textarea, tr");
  const isSelected = !getSelection().isCollapsed && getSelection().containsNode(node, true);
  return active || isSelected || node.querySelector("dialog[open]") !== null;
}

// A part of the page that is built anew by its `again`, unless it is in use; what has the focus keeps it.
function block(build) {
  const node = el("div");
  const fill = () => node.replaceChildren(...[build()].flat(Infinity).filter(Boolean));
  const buttons = () => [...node.querySelectorAll("button, a, [tabindex]")];
  function again() {
    if (isInUse(node)) return;
    const place = buttons().indexOf(document.activeElement);
    fill();
    if (place >= 0) buttons()[place]?.focus({ preventScroll: true });
  }
  fill();
  return { node, again };
}

// A section that is built when it is first opened, so that a page with long tables opens at once; a live page builds it
// anew with its note.
function section(name, title, note, build) {
  const inside = el("div", { class: "inside" });
  const beside = el("span", { class: "muted" }, note || "");
  const made = el("details", { id: name }, el("summary", {}, title, " ", beside), inside);
  made.again = (text) => {
    beside.textContent = text || "";
    if (isInUse(inside)) return;
    const places = [...inside.querySelectorAll(".scroll")].map((one) => one.scrollTop);
    inside.replaceChildren();
    open();
    inside.querySelectorAll(".scroll").forEach((one, place) => (one.scrollTop = places[place] || 0));
  };
  const open = () => {
    if (made.open && !inside.childNodes.length) inside.append(...[build()].flat());
  };
  made.addEventListener("toggle", () => {
    open();
    const others = state
      .get("open", "figures")
      .split(".")
      .filter((one) => one && one !== name);
    state.set("open", [...others, ...(made.open ? [name] : [])].join("."));
  });
  if (state.get("open", "figures").split(".").includes(name)) made.open = true;
  open();
  return made;
}

// Read the data and build the page with it; what goes wrong is told on the page.
async function boot(build) {
  const page = document.getElementById("page");
  try {
    const data = live ? await live.first() : JSON.parse(new TextDecoder().decode(await unpack("data")));
    const parts = await build(data);
    document.title = `${visible(data.title)} · wiretape`;
    page.replaceChildren(...[live?.bar, ...parts].flat(Infinity).filter(Boolean));
    performance.mark("built");
  } catch (error) {
    page.replaceChildren(el("p", { class: "bad" }, `The page cannot be shown: ${error}`));
    throw error;
  }
}
