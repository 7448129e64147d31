// One exchange, unpacked: its reads, events, outputs and texts in columns, and what follows from their order.

const LEVELS = [
  ["none: the same read", 0],
  ["under 100 ms", 1],
  ["100 to 300 ms", 100e6],
  ["300 ms to 1 s", 300e6],
  ["1 s and more", 1e9],
];

// Return the level of a gap: an index into LEVELS.
function level(gap) {
  let index = 0;
  while (index + 1 < LEVELS.length && gap >= LEVELS[index + 1][1]) index += 1;
  return index;
}

function unpackExchange(data) {
  const reads = data.reads;
  reads.seq = undelta(reads.seq);
  reads.at = undelta(reads.at);
  reads.borders = undelta(reads.borders);
  reads.owners = undelta(reads.owners);
  const events = data.events;
  events.timed = undelta(events.at);
  let last = 0;
  events.at = events.timed.map((at) => (last = at ?? last));
  events.read = undelta(events.read);
  events.start = undelta(events.start);
  events.sent = new Set(events.sent);
  const outputs = { at: undelta(data.outputs.at), event: undelta(data.outputs.event) };
  outputs.gap = outputs.at.map((at, place) => (place ? at - outputs.at[place - 1] : null));
  // The gap before the first output of each event.
  events.gap = new Map();
  outputs.event.forEach((event, place) => events.gap.has(event) || events.gap.set(event, outputs.gap[place]));
  const texts = data.texts.map((text) => {
    const pieces = text.pieces || text.sizes.map((size) => "•".repeat(size));
    let length = 0;
    return { ...text, events: undelta(text.events), pieces, ends: pieces.map((piece) => (length += piece.length)) };
  });
  // What each event adds, and the events that each read completed.
  const said = new Map();
  for (const text of texts) {
    if (!text.sizes)
      text.events.forEach((event, place) => said.set(event, (said.get(event) || "") + text.pieces[place]));
  }
  const completed = new Map();
  events.read.forEach((read, event) => {
    if (read === null) return;
    if (!completed.has(read)) completed.set(read, []);
    completed.get(read).push(event);
  });
  const stalls = data.verdicts.filter((verdict) => verdict.kind === "stall");
  let longest = null;
  outputs.gap.forEach((gap, place) => {
    if (gap && (longest === null || gap > outputs.gap[longest])) longest = place;
  });
  return { ...data, end: Math.max(data.end, 1), reads, events, outputs, texts, said, completed, stalls, longest };
}

// Return the kind of an event.
const kindOf = (exchange, event) => exchange.events.kinds[exchange.events.kind[event]];

// Return what an event says, in a line.
function eventText(exchange, event) {
  const text = exchange.said.get(event);
  return text === undefined ? (exchange.events.told[event] ?? null) : text;
}

// Return the stretches in which one kind of output followed itself: what the strip shows as reasoning, content, …
function stretches(exchange) {
  const spans = [];
  for (const [event, code] of exchange.events.kind.entries()) {
    const kind = exchange.events.kinds[code];
    if (!["reasoning", "content", "tool", "refusal"].includes(kind) || exchange.events.timed[event] === null) continue;
    const at = exchange.events.at[event];
    const previous = spans.at(-1);
    if (previous && previous.kind === kind) {
      previous.end = at;
      previous.count += 1;
    } else spans.push({ kind, start: at, end: at, count: 1 });
  }
  return spans;
}

// Return the unit of a tile by its value, and the function that writes values in it: a tile has one unit.
function scaleOf(value, unit) {
  if (unit !== "ms") return [unit, (amount) => format.number(amount, value < 10 ? 2 : 1)];
  if (value < 9999.5) return ["ms", (amount) => format.number(amount, value < 1000 ? 1 : 0)];
  if (value < LEAST_MINUTES * 1000) return ["s", (amount) => format.number(amount / 1000, 1)];
  return ["min", (amount) => minutes(amount / 1000)];
}

// Return a figure of a tile, with its unit beside it.
function exactly(value, unit) {
  if (value === null) return [UNKNOWN];
  const [shownUnit, write] = scaleOf(value, unit);
  return [write(value), el("small", {}, shownUnit)];
}
