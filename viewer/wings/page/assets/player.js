// The player of one exchange: a playhead on the timeline, and the texts as they had come by then.

const SPEEDS = [0.25, 0.5, 1, 2, 4, 8, 16];
const MOST_SHOWN = 200000; // characters of a text that are shown at once

// Return a text that grows: its element, and a function that shows what the first `position` events brought.
function growing(exchange, given, seek) {
  let text = given;
  const said = el("div", { class: text.sizes ? "said hiddentext" : "said" });
  const skipped = el("p", { class: "muted", hidden: true });
  const titles = { call: "tool call", arguments: "arguments" };
  const choice = exchange.texts.some((other) => other.choice !== text.choice) ? ` · choice ${text.choice}` : "";
  const node = el(
    "section",
    { class: `text ${text.kind}` },
    el("h3", {}, `${titles[text.kind] || text.kind}${choice}`),
    skipped,
    said,
  );
  said.addEventListener("click", (event) => {
    const place = event.target.place;
    // Who selects text wants to copy it.
    if (place !== undefined && getSelection().isCollapsed) seek(exchange.events.at[text.events[place]]);
  });
  let first = 0;
  let count = 0;
  function span(place) {
    const gap = exchange.events.gap.get(text.events[place]);
    const made = el(
      "span",
      { class: `g${gap === undefined || gap === null ? 1 : level(gap)}` },
      text.pieces[place].slice(-MOST_SHOWN).replace(/[\ud800-\udfff]/gu, "\ufffd"), // tools refuse a page with half a character
    );
    made.place = place;
    return made;
  }
  // Of a long text only the end is shown, so that it grows as quickly as a short one.
  function from(until) {
    const length = until ? text.ends[until - 1] : 0;
    const half = MOST_SHOWN / 2;
    const least = Math.max(Math.floor(length / half) - 1, 0) * half;
    return Math.min(after(text.ends, least), Math.max(until - 1, 0));
  }
  function show(position) {
    const until = after(text.events, position - 1);
    if (until === count) return false;
    const begin = from(until);
    if (begin < first || begin >= count) {
      said.replaceChildren();
      first = count = begin;
    }
    while (first < begin) {
      said.firstChild.remove();
      first += 1;
    }
    while (count > until) {
      said.lastChild.remove();
      count -= 1;
    }
    const more = document.createDocumentFragment();
    while (count < until) more.append(span(count++));
    said.append(more);
    const before =
      (begin ? text.ends[begin - 1] : 0) + (until ? Math.max(text.pieces[begin].length - MOST_SHOWN, 0) : 0);
    skipped.hidden = !before;
    skipped.textContent = `… ${format.number(before)} characters before are not shown here`;
    node.hidden = !until;
    return true;
  }
  node.hidden = true;
  // Go on with what the text is by now; return whether it is the same text.
  function take(fresh) {
    const isSame = fresh.kind === text.kind && fresh.choice === text.choice && fresh.events.length >= count;
    if (isSame) text = fresh;
    return isSame;
  }
  return { node, show, take };
}

// Return a player. `stateStore` is where its state is, the hash of the URL by default; keys are heard on `scope`.
function player(exchange, { stateStore = state, scope = window } = {}) {
  let at = exchange.end;
  let speed = 1;
  let started = null;
  const when = el("span", { class: "when" });
  const readout = el("p", { class: "readout mono muted" });
  const begun = (text) => growing(exchange, text, (ns) => seek(ns));
  let texts = exchange.texts.map(begun);
  const pane = el(
    "div",
    { class: "texts", tabindex: "0", role: "region", "aria-label": "The texts as they had come by the playhead" },
    texts.map((text) => text.node),
  );
  const bytes = rawBytes(
    exchange,
    stateStore,
    () => seekRead(bytes.read - 1),
    () => seekRead(bytes.read + 1),
  );
  const line = timeline(exchange, {
    stateStore,
    at: () => at,
    moved: (ns) => seek(ns),
    chosen: (read) => {
      seek(exchange.reads.at[read]);
      bytes.show(read);
    },
    hovered: (place) => (readout.textContent = place ? pointed(exchange, place) : standing()),
  });
  const slider = el(
    "div",
    {
      class: "timeline",
      role: "slider",
      tabindex: "0",
      "aria-label": "Timeline, in ms since the request",
      "aria-valuemin": 0,
      "aria-valuemax": Math.round(exchange.end / 1e6),
    },
    line.picture.node,
  );
  const play = el("button", { class: "play", onclick: toggle }, "▶ play");
  const pace = el(
    "select",
    { "aria-label": "speed", onchange: () => setSpeed(Number(pace.value)) },
    SPEEDS.map((value) => el("option", { value }, `${value}×`)),
  );
  const nextStall = el("button", { onclick: () => stall(1), disabled: !exchange.stalls.length }, "next stall");
  const longest = el("button", { onclick: toLongest, disabled: exchange.longest === null }, "longest gap");
  const controls = el(
    "div",
    { class: "controls row" },
    play,
    el("button", { onclick: () => step(-1), "aria-label": "one read back" }, "← read"),
    el("button", { onclick: () => step(1), "aria-label": "one read on" }, "read →"),
    nextStall,
    longest,
    pace,
    when,
    el("span", { class: "spread" }),
    el(
      "span",
      { class: "together" },
      el("button", { onclick: () => line.zoom(2), "aria-label": "zoom in" }, "+"),
      el("button", { onclick: () => line.zoom(0.5), "aria-label": "zoom out" }, "−"),
      el("button", { onclick: line.fit, title: "zoom out to the whole stream" }, "all"),
    ),
  );

  const standing = () => {
    const read = after(exchange.reads.at, at) - 1;
    return read < 0 ? "nothing has come yet" : described(exchange, read);
  };

  // Show the stream at the playhead; what has not changed is left as it is.
  function show() {
    const position = after(exchange.events.at, at);
    const grown = texts.map((text) => text.show(position)).some(Boolean);
    if (grown) pane.scrollTop = pane.scrollHeight;
    const read = after(exchange.reads.at, at);
    const text = `${format.time(at, exchange.end)} / ${format.timeWithUnit(exchange.end)} · reads ${share(read, exchange.reads.at)} · events ${share(position, exchange.events.at)}`;
    if (when.textContent !== text) when.textContent = text;
    line.follow();
  }

  function settled() {
    if (slider.isConnected) announce(when.textContent);
    slider.setAttribute("aria-valuenow", Math.round(at / 1e6));
    slider.setAttribute("aria-valuetext", when.textContent);
    readout.textContent = standing();
    stateStore.set("t", at >= exchange.end ? null : (at / 1e6).toFixed(3));
  }

  function seek(ns) {
    at = Math.min(Math.max(ns, 0), exchange.end);
    if (started !== null) started = { now: performance.now(), at };
    show();
    settled();
  }

  function seekRead(read) {
    if (read < 0 || read >= exchange.reads.at.length) return;
    seek(exchange.reads.at[read]);
    if (!bytes.node.hidden) bytes.show(read);
  }

  function frame(now) {
    if (started === null) return;
    at = Math.min(started.at + Math.max(now - started.now, 0) * 1e6 * speed, exchange.end);
    show();
    if (at >= exchange.end) pause();
    else requestAnimationFrame(frame);
  }

  function pause() {
    started = null;
    play.textContent = "▶ play";
    settled();
  }

  function toggle() {
    if (started !== null) return pause();
    if (at >= exchange.end) at = 0;
    started = { now: performance.now(), at };
    play.textContent = "❚❚ pause";
    requestAnimationFrame(frame);
  }

  function setSpeed(value) {
    speed = value;
    pace.value = String(value);
    if (started !== null) started = { now: performance.now(), at };
    stateStore.set("speed", value === 1 ? null : value);
  }

  // Go to the next read, or the one before; where several came at once, past all of them.
  function step(by) {
    if (started !== null) pause();
    const come = after(exchange.reads.at, at);
    if (by < 0 && come <= 1) return seek(0);
    const next = by > 0 ? come : after(exchange.reads.at, exchange.reads.at[come - 1] - 1) - 1;
    if (next >= exchange.reads.at.length) return seek(exchange.end);
    seekRead(Math.max(next, 0));
  }

  function stall(by) {
    const begins = exchange.stalls.map((verdict) => verdict.from_ns);
    const next = by > 0 ? begins.find((ns) => ns > at) : begins.findLast((ns) => ns < at);
    seek(next ?? (by > 0 ? begins[0] : begins.at(-1)) ?? at);
  }

  function toLongest() {
    if (exchange.longest !== null) seek(exchange.outputs.at[exchange.longest - 1]);
  }

  // Take what came since; who is at the end stays there.
  function grow(fresh) {
    const isAtEnd = at >= exchange.end && started === null;
    Object.assign(exchange, fresh);
    if (!texts.every((text, place) => place < exchange.texts.length && text.take(exchange.texts[place]))) {
      pane.replaceChildren();
      texts = [];
    }
    for (const text of exchange.texts.slice(texts.length)) {
      texts.push(begun(text));
      pane.append(texts.at(-1).node);
    }
    at = isAtEnd ? exchange.end : Math.min(at, exchange.end);
    slider.setAttribute("aria-valuemax", Math.round(exchange.end / 1e6));
    slider.setAttribute("aria-valuenow", Math.round(at / 1e6));
    nextStall.disabled = !exchange.stalls.length;
    longest.disabled = exchange.longest === null;
    line.grow();
    show();
    readout.textContent = standing();
  }

  const faster = (by) => setSpeed(SPEEDS[Math.min(Math.max(SPEEDS.indexOf(speed) + by, 0), SPEEDS.length - 1)]);
  const keys = {
    " ": toggle,
    ArrowLeft: () => step(-1),
    ArrowRight: () => step(1),
    "}": () => stall(1),
    "{": () => stall(-1),
    n: () => stall(1),
    l: toLongest,
    ">": () => faster(1),
    "<": () => faster(-1),
    Home: () => seek(0),
    End: () => seek(exchange.end),
    "+": () => line.zoom(2),
    "-": () => line.zoom(0.5),
    0: line.fit,
    Enter: () => bytes.show(Math.max(after(exchange.reads.at, at) - 1, 0)),
    Escape: bytes.hide,
  };
  scope.addEventListener("keydown", (event) => {
    const target = event.target;
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in keys)) return;
    if (target.closest("input, textarea")) return;
    const isControl = target.closest("button, select, summary, dialog, tr, a");
    const scrolls = target.closest(".scroll, .texts") && /^(Arrow|Home|End)/.test(event.key);
    if ((isControl && /^(Enter| |Arrow.*|Home|End)$/.test(event.key)) || target.closest("dialog") || scrolls) return;
    event.preventDefault();
    keys[event.key]();
  });

  const given = stateStore.get("t");
  if (given !== null && Number.isFinite(Number(given))) at = Math.min(Math.max(Number(given) * 1e6, 0), exchange.end);
  setSpeed(SPEEDS.includes(Number(stateStore.get("speed", 1))) ? Number(stateStore.get("speed", 1)) : 1);
  theme.listeners.push(() => line.picture.draw(1));
  show();
  settled();
  requestAnimationFrame(() => (pane.scrollTop = at < exchange.end ? pane.scrollHeight : 0));
  const chosen = Number(stateStore.get("read", -1));
  if (chosen >= 0 && chosen < exchange.reads.at.length) bytes.show(chosen);
  return { slider, controls, readout, pane, bytes, seek, seekRead, grow, picture: line.picture };
}

const share = (count, column) => `${format.number(count)} / ${format.number(column.length)}`;

// Return a read in a line.
function described(exchange, read) {
  const events = exchange.completed.get(exchange.reads.seq[read]) || [];
  const relayed = exchange.reads.relayed[read];
  const brought = events.length
    ? `${events.length === 1 ? "event" : `${events.length} events, first`} #${events[0]} ${kindOf(exchange, events[0])} ${quoted(eventText(exchange, events[0]))}`
    : "a part of an event";
  return `read ${exchange.reads.seq[read]} · ${format.timeWithUnit(exchange.reads.at[read])} · ${format.number(exchange.reads.size[read])} bytes · handed on ${relayed === null ? "never" : `after ${format.span(relayed)}`} · ${brought}`;
}

function pointed(exchange, { ns, read }) {
  return `${format.timeWithUnit(ns)} · nearest: ${read === null ? "no read" : described(exchange, read)}`;
}

// Return the panel of a read's bytes, as text or in hexadecimal.
function rawBytes(exchange, stateStore, back, on) {
  const title = el("h3", {});
  const dump = el("pre", { class: "any mono", tabindex: "0" });
  let isHex = false;
  const hex = el("button", { "aria-pressed": "false" }, "hex");
  const made = { read: 0, node: null, show, hide };
  made.node = el(
    "section",
    { class: "bytes", hidden: true, "aria-label": "The bytes of a read" },
    el(
      "div",
      { class: "row" },
      title,
      el("span", { class: "spread" }),
      el("button", { onclick: back }, "← read"),
      el("button", { onclick: on }, "read →"),
      hex,
      el("button", { onclick: hide }, "close"),
    ),
    dump,
  );
  hex.addEventListener("click", () => {
    isHex = !isHex;
    hex.setAttribute("aria-pressed", isHex);
    show(made.read);
  });
  function show(read) {
    if (read >= exchange.reads.at.length) return;
    made.read = read;
    made.node.hidden = false;
    title.textContent = described(exchange, read);
    const found = bytesOf(exchange, read);
    dump.textContent = typeof found === "string" ? found : isHex ? hexadecimal(found) : readable(found);
    stateStore.set("read", read);
  }
  function hide() {
    made.node.hidden = true;
    stateStore.set("read", null);
  }
  return made;
}

// Return the bytes of a read, or why there are none.
function bytesOf(exchange, read) {
  if (!exchange.body) return "The bytes are left out of this page: export it with --with-bodies.";
  const place = exchange.reads.owners.indexOf(exchange.reads.seq[read]);
  if (place < 0)
    return "The body came compressed, or in frames of a WebSocket: which bytes a read held is not known apart.";
  const { borders } = exchange.reads;
  return exchange.body.subarray(borders[place], place + 1 < borders.length ? borders[place + 1] : exchange.body.length);
}

function readable(bytes) {
  const text = new TextDecoder().decode(bytes.subarray(0, 65536));
  const shown = text
    .split("\n")
    .map((line) => visible(line))
    .join("↵\n");
  return bytes.length > 65536 ? `${shown}\n… ${format.number(bytes.length - 65536)} bytes more` : shown;
}

function hexadecimal(bytes) {
  const lines = [];
  for (let start = 0; start < Math.min(bytes.length, 16384); start += 16) {
    const part = [...bytes.subarray(start, start + 16)];
    const text = part.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : "·")).join("");
    lines.push(
      `${start.toString(16).padStart(6, "0")}  ${part
        .map((byte) => byte.toString(16).padStart(2, "0"))
        .join(" ")
        .padEnd(47)}  ${text}`,
    );
  }
  if (bytes.length > 16384) lines.push(`… ${format.number(bytes.length - 16384)} bytes more`);
  return lines.join("\n");
}
