// The filters of `ls` over what is on the page. The fields, their names and their kinds are those of the program; terms
// about what is not on the page are refused by name, never passed over. Durations are compared to the microsecond.

class FilterError extends Error {}

const fold = (text) => text.replace(/[A-Z]/g, (sign) => sign.toLowerCase());
const AMOUNT = /^(\d{1,20}(?:\.\d{1,20})?|\.\d{1,20})([A-Za-zµ%]*)$/;
const UNITS = { ns: 1e-3, us: 1, µs: 1, ms: 1e3, s: 1e6, m: 60e6, h: 3600e6 };
const MULTIPLES = { "": 1, b: 1, B: 1, k: 1e3, K: 1e3, M: 1e6 };
const ORDERS = { ">": (a, b) => a > b, ">=": (a, b) => a >= b, "<": (a, b) => a < b, "<=": (a, b) => a <= b };

// Return a function of a row: whether it fits. Throws a FilterError, which says what was expected.
function filterOf(run, text) {
  const { language } = run;
  let at = 0;
  const fail = (message) => {
    throw new FilterError(
      `${at < text.length ? `'${text.slice(at, at + 20)}' (character ${at + 1})` : "at the end"}: ${message}`,
    );
  };
  const space = () => (at += /^\s*/.exec(text.slice(at))[0].length);
  const match = (expression) => {
    space();
    const found = expression.exec(text.slice(at));
    if (found) at += found[0].length;
    return found;
  };
  const nextWord = () => (space(), fold(/^[^\s()"]+/.exec(text.slice(at))?.[0] || ""));
  const keyword = (name) => nextWord() === name && Boolean(match(/^[^\s()"]+/));

  function or() {
    const parts = [and()];
    while (keyword("or")) parts.push(and());
    return parts.length === 1 ? parts[0] : (row) => parts.some((part) => part(row));
  }
  function and() {
    const parts = [unary()];
    while (keyword("and") || (space(), at < text.length && text[at] !== ")" && nextWord() !== "or"))
      parts.push(unary());
    return parts.length === 1 ? parts[0] : (row) => parts.every((part) => part(row));
  }
  function unary() {
    if (match(/^-/) || keyword("not")) {
      const part = unary();
      return (row) => !part(row);
    }
    const tree = match(/^\(/) ? group() : term();
    const around = text.slice(Math.max(at - 1, 0), at + 1);
    if (at < text.length && around.at(-1) !== ")" && !/\s/.test(around))
      fail("expected a space; put what belongs together in quotes");
    return tree;
  }
  function group() {
    const tree = or();
    if (!match(/^\)/)) fail("expected )");
    return tree;
  }
  function term() {
    space();
    const start = at;
    const found = match(/^([A-Za-z_][A-Za-z0-9_.]*)\s*(!=|!~|>=|<=|[:=><~])\s*/);
    const refuse = (message) => {
      at = start;
      return fail(message);
    };
    if (!found) {
      return at < text.length
        ? fail("a bare word also searches the texts of answers, which a page cannot: name a field, such as model:gpt-*")
        : fail("expected a term, such as ttft>800ms");
    }
    const [, name, operator] = found;
    const meant = language.names[name.toLowerCase()];
    if (!meant && language.left_out.includes(name.toLowerCase()))
      return refuse(`${name} is not on this page: use it in the filter of 'wiretape ls' or of the export`);
    if (!meant) return refuse(`there is no such field: choose from ${Object.keys(language.fields).join(", ")}`);
    if (operator.endsWith("~"))
      return refuse("regular expressions are those of 'wiretape ls': here, use * as a wildcard");
    const [kind, style, columns] = language.fields[meant];
    const isText = ["text", "label", "has"].includes(kind);
    if (isText && /[<>]/.test(operator)) return refuse(`expected one of : = != after ${name}`);
    if (kind === "label") return labels(operator === "!=");
    const items = values();
    if (kind === "has") return has(items, operator === "!=");
    if (isText) return texts(meant, style, columns, items, operator === "!=");
    if (/[<>]/.test(operator)) {
      if (items.length > 1) fail(`expected a single value after ${operator}`);
      const limit = amount(items[0].text, kind, name);
      return numbers(columns, (value) => ORDERS[operator](value, limit), false);
    }
    const spans = items.map((item) => span(meant, kind, name, item.text));
    return numbers(
      columns,
      (value) => spans.some(([low, high]) => (low === null || value >= low) && (high === null || value <= high)),
      operator === "!=",
    );
  }
  function item(bare) {
    const phrase = match(/^"((?:[^"\\]|\\[\s\S])*)"/);
    if (phrase) return { text: phrase[1].replace(/\\(["\\])/g, "$1"), isPhrase: true };
    if (text[at] === '"') fail('expected a closing "');
    const word = match(bare);
    return word ? { text: word[0], isPhrase: false } : fail("expected a value");
  }
  function values() {
    const found = [item(/^[^\s(),"]+/)];
    while (match(/^,/)) found.push(item(/^[^\s(),"]+/));
    return found;
  }
  function amount(written, kind, name) {
    const found = AMOUNT.exec(written);
    const units =
      kind === "duration" ? UNITS : kind === "share" ? { "": 1, "%": 0.01 } : kind === "count" ? MULTIPLES : { "": 1 };
    let unit = found?.[2];
    if (found && kind === "duration" && !unit && (/_ms$/i.test(name) || Number(found[1]) === 0)) unit = "ms";
    if (!found || !(unit in units)) {
      const expected = {
        duration: "a duration with its unit (us, ms, s, m, h), such as 800ms",
        share: "a share, such as 10% or 0.1",
        count: "a number, such as 400 or 10k (b, k, M)",
      };
      fail(`expected ${expected[kind] || "a plain number, such as 20.5"}`);
    }
    const value = Number((Number(found[1]) * units[unit]).toPrecision(15));
    return kind === "duration" ? Math.round(value) : value;
  }
  function span(meant, kind, name, written) {
    if (meant === "status" && /^[1-5]xx$/i.test(written)) return [100 * written[0], 100 * written[0] + 99];
    if (!written.includes("..")) return Array(2).fill(amount(written, kind, name));
    const [low, high] = [written.slice(0, written.indexOf("..")), written.slice(written.indexOf("..") + 2)];
    if (!low && !high) fail("expected a number before or after the dots");
    return [low, high].map((end) => (end ? amount(end, kind, name) : null));
  }
  function numbers(columns, check, negated) {
    const column = run.rows[columns[0]];
    return (row) => column[row] !== null && check(column[row]) !== negated;
  }
  function texts(meant, style, columns, items, negated) {
    const choices = meant === "outcome" ? language.outcomes : language.choices[meant];
    const patterns = items.flatMap((one) => {
      const pattern = one.isPhrase ? [one.text] : one.text.split("*");
      if (!choices || pattern.length > 1) return [pattern];
      const word = one.text.toLowerCase();
      const known = Array.isArray(choices) ? choices : Object.keys(choices);
      if (!known.includes(word)) fail(`no such ${meant}: choose from ${known.join(", ")}`);
      return meant === "outcome" ? choices[word].map((name) => [name]) : [[word]];
    });
    const fits = fitsAny(patterns.flatMap((pattern) => shapes(style, pattern)));
    return held(
      columns.map((name) => texted(name, style, fits)),
      negated,
    );
  }
  // Return a function of a row: true, false, or null where the text is not known. Each different text is judged once.
  function texted(name, style, fits) {
    const column = run.rows[name];
    if (name === "id") return (row) => fits(column[row]);
    if (name === "connection_reused") return (row) => (column[row] === null ? null : fits(column[row] ? "yes" : "no"));
    const judged = column.values.map((value) => fits(style === "word" && value ? ` ${value} ` : value));
    const unknown = style === "word" ? fits("") : null;
    const own = (row) => (column.places[row] < 0 ? fits(run.rows.id[row]) : judged[column.places[row]]);
    return (row) => (column.places[row] === null ? unknown : own(row));
  }
  function held(checks, negated) {
    if (!negated) return (row) => checks.some((check) => check(row));
    return (row) => checks.some((check) => check(row) !== null) && !checks.some((check) => check(row));
  }
  function has(items, negated) {
    const columns = items.flatMap(({ text: written }) => {
      const word = written.toLowerCase();
      const meant = language.has[word] ? word : language.names[word];
      if (language.has[meant]) return language.has[meant];
      if (!language.knowable.includes(meant))
        fail(
          `${written} is not on this page: choose from ${[...Object.keys(language.has), ...language.knowable].join(", ")}`,
        );
      return language.fields[meant][2];
    });
    const known = (name, row) => (run.rows[name].places ? run.rows[name].places : run.rows[name])[row] !== null;
    return (row) => columns.some((name) => known(name, row)) !== negated;
  }
  function labels(negated) {
    const wanted = [];
    do {
      const key = match(/^[A-Za-z0-9_.-]{1,64}/);
      if (!key) fail("expected a label, such as run=a7");
      if (text[at] !== "=") {
        if (negated) fail(`expected = and a value; for exchanges without the label, write -label:${key[0]}`);
        wanted.push([key[0], null]);
        continue;
      }
      at += 1;
      const value = item(/^[^\s(),"]+/);
      wanted.push([key[0], fitsAny([value.isPhrase ? [value.text] : value.text.split("*")])]);
    } while (match(/^,/));
    const column = run.rows.labels;
    const check = (labelled, [key, fits]) => (labelled === undefined ? null : fits === null || fits(labelled));
    const judged = column.values.map((own) => {
      const each = wanted.map((one) => check(Object.hasOwn(own, one[0]) ? own[one[0]] : undefined, one));
      return negated ? each.every((one) => one === false) : each.some(Boolean);
    });
    return (row) => column.places[row] !== null && judged[column.places[row]];
  }
  const tree = or();
  space();
  if (at < text.length) fail("expected another term, or the end");
  return tree;
}

// Return the shapes of a pattern that is looked for in a style: the pieces of a text between its wildcards.
function shapes(style, pattern) {
  const then = (one, sign) => [...one.slice(0, -1), one.at(-1) + sign, ""];
  const [first, ...rest] = pattern;
  if (style === "prefix") return [[...pattern, ""]];
  if (style === "within") return [["", ...pattern, ""]];
  if (style === "word")
    return [["", ...(rest.length ? [` ${first}`, ...rest.slice(0, -1), `${rest.at(-1)} `] : [` ${first} `]), ""]];
  if (style === "path") return [pattern, then(pattern, "?")];
  if (style === "host") {
    const host = ["", `://${first}`, ...rest];
    return [pattern, host, then(host, "/"), then(host, ":")];
  }
  return [pattern];
}

// Return a function of a text: whether it fits one of the shapes; case is ignored where it is ASCII's.
function fitsAny(wanted) {
  const expressions = wanted.map(
    (shape) =>
      new RegExp(`^${shape.map((piece) => fold(piece).replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&")).join(".*")}$`, "s"),
  );
  return (value) => (value === null ? null : expressions.some((one) => one.test(fold(value))));
}
