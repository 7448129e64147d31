// A live page: what it shows comes over an event stream, whole at first and then as patches. A page that cannot be seen
// asks for nothing: browsers open only a few streams to one server, and what was missed comes whole.

// Return a value with a patch applied to it (viewer/wings/page/site.py describes patches).
function patched(old, [kind, ...rest]) {
  if (kind === "=") return rest[0];
  if (kind === "+") return old + rest[0];
  const [patches, more] = rest;
  if (kind === "[") {
    const made = old.slice();
    for (const [place, patch] of Object.entries(patches)) made[place] = patched(old[place], patch);
    return made.concat(more);
  }
  const made = new Map(Object.entries(old));
  for (const name of more) made.delete(name);
  for (const [name, patch] of Object.entries(patches)) made.set(name, patched(made.get(name), patch));
  return Object.fromEntries(made);
}

live = (() => {
  const AGAIN = 3000; // ms until a stream that was refused is tried again
  const SHARE = 4; // the page rests for so many times as long as it took to draw
  let source = null;
  let given = { value: null, trouble: "" };
  let isLost = false;
  let isEnded = false;
  let isHeld = false;
  let isDue = false;
  let timer = null;
  let begun = null;
  let update = null;
  let told = "";
  const status = el("span", { class: "any" });
  const dot = el("span", { class: "dot", "aria-hidden": "true" }, "●");
  const button = el("button", { onclick: () => pause(!isPaused()), title: "hold the page as it is, or go on" });
  const isPaused = () => state.get("live") === "off";
  const isRun = !/^\/[^/]+\/[^/]+\/$/.test(location.pathname);
  const back = el("a", { href: "../", hidden: isRun }, "← all exchanges");
  const bar = el("div", { class: "livebar row" }, dot, status, back, button);

  function say() {
    const [tone, text] = standing();
    dot.className = `dot ${tone}`;
    if (status.textContent !== text) status.textContent = text;
    // What is said aloud is how it stands, not each second of a silence.
    const [short] = text.split(" · ");
    if (told && short !== told) announce(short);
    told = short;
    status.className = `any ${tone === "bad" ? "bad" : ""}`;
    button.textContent = isPaused() ? "▶ follow" : "❚❚ hold";
    button.hidden = isEnded;
  }

  function standing() {
    const until = given.value ? ": this is what came until then" : "";
    if (isEnded) return ["muted", `wiretape view has ended${until}`];
    if (isPaused()) return ["muted", "held: what comes is not shown"];
    if (isLost) return ["bad", `no connection to wiretape view; trying again${until}`];
    if (given.trouble) return ["bad", `${visible(given.trouble)}${until}`];
    if (!given.value) return ["muted", "reading the tape …"];
    const { open, recorder, silence, replaced, tape } = given.value.live;
    const what = isRun ? `live · ${format.number(open)} open` : open ? "live" : "over: nothing more comes";
    const other = replaced ? "the tape was replaced, this is the new one" : null;
    const parts = [what, silence, visible(recorder), visible(tape), other];
    return [open ? "good" : "muted", parts.filter(Boolean).join(" · ")];
  }

  function pause(isOn) {
    state.set("live", isOn ? "off" : null);
    if (isOn) close();
    else open();
    say();
  }

  function close() {
    source?.close();
    source = null;
  }

  function open() {
    if (source || isEnded || document.hidden || (isPaused() && given.value)) return;
    const own = (source = new EventSource("events"));
    own.onopen = () => {
      isLost = false;
      say();
    };
    own.onerror = () => {
      isLost = true;
      if (own.readyState === EventSource.CLOSED && source === own) {
        close();
        setTimeout(open, AGAIN);
      }
      say();
    };
    own.addEventListener("whole", (event) => take(JSON.parse(event.data)));
    own.addEventListener("patch", (event) => take(patched(given, JSON.parse(event.data))));
    own.addEventListener("end", () => {
      isEnded = true;
      close();
      say();
    });
  }

  function take(fresh) {
    isLost = false;
    given = fresh;
    say();
    if (given.value && begun) {
      begun(current());
      begun = null;
      if (isPaused()) close();
    } else soon();
  }

  // What the page is made of is its own: it changes what it gets.
  function current() {
    const { parts, ...rest } = given.value;
    return structuredClone(rest);
  }

  // Draw what is new, not while a button of the pointer is down, and not so often that the page does nothing else.
  function soon() {
    isDue = true;
    if (timer || !update || !given.value || isHeld) return;
    timer = setTimeout(async () => {
      isDue = false;
      const start = performance.now();
      try {
        await update(current());
        performance.mark("updated");
      } finally {
        setTimeout(
          () => {
            timer = null;
            if (isDue) soon();
          },
          SHARE * (performance.now() - start),
        );
      }
    });
  }

  addEventListener("pointerdown", () => (isHeld = true));
  for (const name of ["pointerup", "pointercancel", "pointermove"])
    addEventListener(name, (event) => {
      if (!isHeld || event.buttons) return;
      isHeld = false;
      if (isDue) soon();
    });
  document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
  addEventListener("pagehide", close);
  addEventListener("pageshow", open);

  return {
    bar,
    // Return the value of the page when there is one; until then, the page says what it waits for.
    first() {
      document.getElementById("page").replaceChildren(bar);
      say();
      open();
      return new Promise((done) => (begun = done));
    },
    // Call a function with each value from now on.
    follow(update_) {
      update = update_;
      if (isDue) soon();
    },
    // Return the bytes of a part of the value; null if it has none.
    bytes(name) {
      const parts = given.value.parts[name];
      if (!parts) return null;
      const pieces = parts.flat().map((piece) => Uint8Array.from(atob(piece), (sign) => sign.charCodeAt(0)));
      const whole = new Uint8Array(pieces.reduce((size, piece) => size + piece.length, 0));
      let at = 0;
      for (const piece of pieces) {
        whole.set(piece, at);
        at += piece.length;
      }
      return whole;
    },
  };
})();
