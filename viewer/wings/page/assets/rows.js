// The exchanges of a run, unpacked: one number a row for each, durations in µs, and the gaps of those that are kept.

const COMPARED = "compared"; // the field of the two groups that an export compares

function unpackRun(data, packed) {
  const { rows } = data;
  const started = undelta(rows.started_us);
  const first = started.length ? started.reduce((least, at) => Math.min(least, at), Infinity) : 0;
  const at = started.map((one) => one - first);
  const places = [];
  let total = 0;
  for (const count of data.gaps.count) {
    places.push(total);
    total += count || 0;
  }
  const [ratio, least] = data.step;
  const scale = Float64Array.from({ length: 4096 }, (_, step) => (step ? (least / 1000) * ratio ** (step - 1) : 0));
  const run = {
    ...data,
    size: rows.id.length,
    first,
    at,
    // Durations of several turns leave out the time between these.
    end: at.map(
      (one, row) =>
        one +
        (rows.turns[row]?.reduce((last, turn) => Math.max(last, turn[3]), 0) ??
          rows.duration_ms[row] ??
          rows.latency_ms[row] ??
          rows.ttft_ms[row] ??
          rows.ttfb_ms[row] ??
          0),
    ),
    stallsOf: new Map(),
    text(name, row) {
      const place = rows[name].places[row];
      // A conversation of a single exchange that is named by its id, -1, is no group.
      return place === null || place < 0 ? null : rows[name].values[place];
    },
    gaps: (row) => data.gaps.count[row],
    // The steps of the scale, of all gaps of a row, in their order.
    steps(row) {
      const found = new Uint16Array(data.gaps.count[row] || 0);
      for (let place = 0; place < found.length; place += 1) {
        const coded = packed[places[row] + place] + 256 * packed[total + places[row] + place];
        found[place] = data.gaps.middle[row] + (coded & 1 ? -(coded + 1) / 2 : coded / 2);
      }
      return found;
    },
    scale,
    // When each output chunk of a row came, in µs since the request: gaps are exact to 1 %, the first and the last whole.
    outputs(row) {
      if (rows.turns[row]) return turnOutputs(run, row);
      const [begin, last] = [rows.ttft_ms[row], rows.latency_ms[row]];
      if (begin === null || !run.gaps(row)) return begin === null ? [] : [begin];
      const found = Float64Array.from(run.steps(row), (step) => scale[step]);
      const sum = found.reduce((all, gap) => all + gap, 0);
      const factor = sum && last !== null ? (last - begin) / sum : 1;
      let now = begin;
      return [begin, ...found.map((gap) => (now += gap * factor))];
    },
  };
  const owners = undelta(data.stalls.row);
  owners.forEach((row, place) => {
    if (!run.stallsOf.has(row)) run.stallsOf.set(row, []);
    run.stallsOf.get(row).push({ gap: data.stalls.gap[place], us: data.stalls.ns[place] / 1000 });
  });
  // Return when a stall of a row began and ended; the one in which it ended has no gap between outputs.
  run.spanOf = (row, stall, at) => {
    if (stall.gap !== null) {
      const place = outputBefore(rows.turns[row], stall.gap);
      return [at[place], at[place + 1]];
    }
    const turn = rows.turns[row]?.at(-1);
    const from = turn ? (turn[2] ?? turn[0]) : (rows.latency_ms[row] ?? 0);
    return [from, from + stall.us];
  };
  run.waited = Float64Array.from({ length: run.size }, (_, row) =>
    Math.max(rows.ttft_ms[row] || 0, rows.max_output_silence_ms[row] || 0, rows.first_output_silence_ms[row] || 0),
  );
  const covered = new Set([null, ...data.language.generations]);
  run.covers = data.all_operations ? () => true : (row) => covered.has(run.text("operation", row));
  run.isMeasured = (row) => run.covers(row) && run.text("outcome", row) === "complete";
  // Silences are of every outcome.
  run.isIncluded = (name, row) => (run.quantities[name]?.[2] ? run.covers(row) : run.isMeasured(row));
  // The two groups that were to be compared, by the rows that are in them.
  const compared = new Map();
  for (const { by, names, members } of data.comparisons)
    if (by === null) members.forEach((group, side) => undelta(group).forEach((row) => compared.set(row, names[side])));
  run.groupOf = (by, row) => {
    if (!by) return null;
    if (by === COMPARED) return compared.get(row) ?? null;
    if (!by.startsWith("label.")) return run.text(by, row);
    return rows.labels.values[rows.labels.places[row]]?.[by.slice(6)] ?? null;
  };
  return run;
}

// Return when each output of an exchange of several turns came: there are no gaps between turns.
function turnOutputs(run, row) {
  const gaps = Float64Array.from(run.steps(row), (step) => run.scale[step]);
  let from = 0;
  return run.rows.turns[row].flatMap(([, first, , , count]) => {
    if (!count || first === null) return [];
    let now = first;
    return [first, ...Array.from(gaps.subarray(from, (from += count - 1)), (gap) => (now += gap))];
  });
}

// Return which output a gap follows: the first of each turn follows none.
function outputBefore(turns, gap) {
  let until = 0;
  for (const [place, turn] of (turns ?? []).filter(([, first, , , count]) => count && first !== null).entries()) {
    until += turn[4] - 1;
    if (gap < until) return gap + place;
  }
  return gap;
}

// Return the known values of a quantity over some rows, ascending; durations in ms.
function valuesOf(run, name, rows) {
  const isDuration = run.quantities[name][0] === "ms";
  const [column, unit] = isDuration ? [run.rows[`${name}_ms`], 1000] : [run.rows[name], 1];
  const found = Float64Array.from(
    rows.map((row) => column[row]).filter((value) => value !== null),
    (value) => value / unit,
  );
  return found.sort();
}

const isEnough = (n, percent) => n * (100 - percent) >= 100;

// Return a percentile of ascending values, as `stats` defines it: between the two neighbours by linear interpolation;
// null if they are fewer than 1/(1 − p), which is little but their maximum.
function percentile(ascending, percent) {
  if (!isEnough(ascending.length, percent)) return null;
  const rank = ((ascending.length - 1) * percent) / 100;
  const low = ascending[Math.floor(rank)];
  return low + (ascending[Math.ceil(rank)] - low) * (rank - Math.floor(rank));
}

// Return the gaps between reads of some rows, ascending, in ms: stalls and the longest of each row exactly, others to
// 1 %, and none above the longest.
function gapValues(run, rows) {
  const found = new Float64Array(rows.reduce((all, row) => all + (run.gaps(row) || 0), 0));
  let from = 0;
  for (const row of rows) {
    const steps = run.steps(row);
    const longest = run.rows.max_gap_ms[row] ?? Infinity;
    let last = 0;
    steps.forEach((step, place) => {
      found[from + place] = Math.min(run.scale[step], longest) / 1000;
      if (step > steps[last]) last = place;
    });
    // The silence in which it ended is none of its gaps, and a stall with a tool in it is shorter than its gap.
    for (const stall of run.stallsOf.get(row) ?? [])
      if (stall.gap !== null) found[from + stall.gap] = Math.min(stall.us, longest) / 1000;
    if (steps.length && longest < Infinity) found[from + last] = longest / 1000;
    from += steps.length;
  }
  return found.sort().subarray(found.findIndex((gap) => gap > 0));
}

// Return the cumulative distribution of ascending values: [value, share of those up to it].
function cumulative(ascending) {
  const points = [];
  const n = ascending.length;
  for (let place = 0; place < n; place += 1) {
    if (place + 1 === n || ascending[place + 1] !== ascending[place]) points.push([ascending[place], (place + 1) / n]);
  }
  return points;
}

// Return the same of gaps, given how many are of each step of the scale, and the longest in ms.
function cumulativeSteps(run, steps, counts, longest) {
  const n = counts.reduce((all, count) => all + count, 0);
  let sum = 0;
  return steps.map((step, place) => [Math.min(run.scale[step] / 1000, longest), (sum += counts[place]) / n]);
}

// Return the edges of logarithmic buckets: 1, 2, 5 in each decade as `stats --hist` has them, finer where values are
// near each other.
function edgesAround(least, most) {
  const steps = most / least > 20 ? [1, 2, 5] : [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8];
  const edges = [];
  for (let decade = Math.floor(Math.log10(least)) - 1; decade <= Math.floor(Math.log10(most)) + 1; decade += 1) {
    for (const step of steps) edges.push(Number(`${step}e${decade}`));
  }
  const first = edges.findLastIndex((edge) => edge <= least);
  return edges.slice(first, edges.findIndex((edge) => edge > most) + 1);
}

// Return the gaps between reads of some rows: how many are of each step, those that are on the page.
function stepsOf(run, rows) {
  const counts = new Float64Array(run.scale.length);
  for (const row of rows) for (const step of run.steps(row)) counts[step] += 1;
  const steps = [...counts.keys()].filter((step) => step && counts[step]);
  return { steps, counts: steps.map((step) => counts[step]) };
}

// Wall times are those of the zone of whoever reads the page. Return the offset of one, in minutes, and as text.
const offsetMinutes = (us) => -new Date(us / 1000).getTimezoneOffset();
function offset(us) {
  const minutes = offsetMinutes(us);
  const parts = [Math.abs(minutes) / 60, Math.abs(minutes) % 60].map((part) => `${Math.floor(part)}`.padStart(2, "0"));
  return minutes ? `${minutes < 0 ? "-" : "+"}${parts.join(":")}` : "UTC";
}

// Return a wall time, to a millisecond, or without its end; with its offset, a filter takes it as it stands.
const local = (us, length = 23) =>
  new Date(us / 1000 + offsetMinutes(us) * 60e3).toISOString().replace("T", " ").slice(0, length);
const moment = (us, length = 23) => `${local(us, length)} ${offset(us)}`;

// Return a time of day of µs since the first exchange, with as much of it as a step of the axis needs.
function clock(run, us, step = 1e6) {
  const text = local(run.first + us);
  return step >= 86400e6
    ? text.slice(0, 10)
    : step >= 60e6
      ? text.slice(11, 16)
      : step >= 1e6
        ? text.slice(11, 19)
        : text.slice(11, 23);
}
