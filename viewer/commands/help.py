"""The command `help`: other commands' help, the filter language, and every field.

The descriptions of fields, operators and values come from the tables that the parser of filters uses.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from wiretape.viewer.commands import completion

if TYPE_CHECKING:
    from wiretape.recorder.relay import apis

EXAMPLES: Final = {
    "timeout": "a word: in the model, the text, the host, the path, a label, or at the beginning of the id",
    '"rate limit"': "a phrase",
    "model:gpt-*": "a text with a wildcard; case is ignored",
    "model:gpt-*,claude-* -is:ok": "any of several values; and not complete",
    "status>=400 or flag:stall": "one or the other; `and` binds closer, and may be left out",
    "(is:truncated or is:timeout) host:api.example.com": "parentheses",
    "ttft>800ms dur<10s": "durations have a unit",
    "gap:2s..5s": "any gap between output chunks of 2 to 5 s, ends included",
    "tok.out>1k tps<20.5": "numbers",
    "since:2h": "started within the last two hours; -2h is the same",
    "at:today until:14:00": "started today before 14:00, by the clock of this place; or write 2026-11-21T14:00Z",
    "label:run=a7 -label:retry": "a label with a value; no label of that name",
    "conversation:build-7": "one conversation, as ls --by conversation names it",
    "has:tool -has:usage": "with tool calls and without usage",
    "error~rate.?limit|quota": "a regular expression",
    "text!~\\bsorry\\b": "a text is known, and the expression is not found in it",
}
"""Example filters, with their meanings."""

TERMS: Final = {
    "WORD": 'or "a phrase": occurs in the model, the text, the host, the path or a label, or begins the id',
    "-TERM": "or not TERM: all other exchanges, including those where the field is unknown",
    "TERM or TERM": "any of them; terms side by side, or with and, must all hold; ( ) groups",
}
"""Terms beside those of a field and an operator."""

RECORDED: Final = {
    "none": "is not on the tape: 404, which names the nearest recording; nothing is recorded (the default)",
    "once": "is not on the tape: recorded, if no answer was there at the start; else 404, as with none",
    "new": "is not on the tape: recorded",
    "all": "comes: recorded, whatever is there; only an exchange that is named by its id is served",
}
"""Modes of `serve --record`, each with the requests that it records."""
KEPT: Final = {
    "a request": "is passed on as 'wiretape record' does: to the provider that --upstream or the path (/openai/v1) "
    "names, with the key that the client sent, which is never stored; nothing is sent twice",
    "an answer": "reaches the client as it comes, with X-Wiretape-Id; once it is on the tape it is served to the same "
    "request, in this run, too. Such a request waits for a recording that has ended to be there. Those that come at "
    "once are recorded each, and served in turn",
    "a failure": "is relayed, recorded and told on stderr. An answer such as 401 or 429 is served like "
    "any other: 'wiretape rm ID' or --record all gets rid of it. Where no answer came, or wiretape itself was stopped, "
    "the request is asked again with once, new and all",
    "all": "replaces the older recordings of the same request (the same model, or the next of a sequence, as --match "
    "says), when the new ones are on the tape: a .db at the end of the run, a text each time that it is written. A "
    "failure replaces failures only: where the older recording is whole, that stays and the failure does not",
    "a text (.jsonl)": "is written again as a whole, within a second of what was recorded, by way of a private "
    "database: the lines that were there stay as they are, and new ones follow. If it cannot be written, the "
    "database is kept, and named",
    "a kill": "loses what runs, and of a text what was recorded in the last second; with all, older and newer "
    "recordings may then both be there until the next run with all",
}
"""Treatment of the requests and answers that `serve --record` records."""


class TopicSection(NamedTuple):
    """A part of a topic: its title, its definitions, and the note before them."""

    title: str
    defined: list[tuple[str, str]]
    note: str = ""


@click.command("help")
@click.argument("topics", nargs=-1, metavar="[TOPIC|COMMAND]...", shell_complete=completion.topics)
@click.pass_context
def help_(context: click.Context, topics: tuple[str, ...]) -> None:
    """Explain a topic (help filters, fields, outcomes, cut, testing, metrics, …), or a command (help ls)."""
    root = context.find_root()
    if not topics:
        click.echo(_overview(root))
    elif len(topics) == 1 and topics[0] in _SECTIONS:
        _print(_SECTIONS[topics[0]]())
    else:
        click.echo(_command(root, topics).get_help())


def _overview(root: click.Context) -> str:
    formatter = root.make_formatter()
    group = root.command
    assert isinstance(group, click.Group)
    with formatter.section("Topics, for wiretape help TOPIC"):
        formatter.write_dl(list(completion.TOPICS.items()))
    with formatter.section("Commands, for wiretape help COMMAND"):
        names = group.list_commands(root)
        formatter.write_dl([(name, group.commands[name].get_short_help_str(200)) for name in names])
    return formatter.getvalue().rstrip()


def _command(root: click.Context, path: tuple[str, ...]) -> click.Context:
    """Return the context of the command at a path such as `db upgrade`; raise a usage error if there is none."""
    context = root
    for name in path:
        group = context.command
        known = group.commands if isinstance(group, click.Group) else {}
        if name not in known:
            from wiretape.viewer.query.fields import closest_first

            choices = ", ".join(closest_first(name, [*(completion.TOPICS if context is root else ()), *known]))
            hint = f"choose from {choices}" if choices else f"{context.command_path} has no commands of its own"
            raise click.UsageError(f"there is no help on {' '.join(path)!r}: {hint}")
        context = click.Context(known[name], info_name=name, parent=context)
    return context


def _print(sections: Iterator[TopicSection]) -> None:
    from wiretape.viewer.commands import output

    formatter = click.HelpFormatter(width=min(output.width() or output.PLAIN_WIDTH, output.PLAIN_WIDTH))
    for section in sections:
        with formatter.section(section.title):
            if section.note:
                formatter.write_text(section.note)
            formatter.write_dl(section.defined)
    click.echo(formatter.getvalue().strip())


def _filters() -> Iterator[TopicSection]:
    """Yield the parts of the language: terms, the values of each kind of field, and examples."""
    from wiretape.viewer.query.fields import CHOICES
    from wiretape.viewer.query.operators import KINDS, OPERATORS

    operands = {"regex": "REGEX"}
    compared = [
        (f"FIELD{sign}{operands.get(one.form, 'VALUE')}", one.meaning) for sign, one in OPERATORS.items() if one.meaning
    ]
    yield TopicSection("A filter is terms, all of which must hold", [*compared, *TERMS.items()])
    values = {"text": "as it is, or with * for anything; in quotes * is itself"}
    values |= {kind: KINDS[kind].expected for kind in ("duration", "count", "rate", "share", "time")}
    yield TopicSection("Values", list(values.items()))
    short = {"outcome": "is", "flags": "flag"}
    chosen = [(f"{short.get(name, name)}:", ", ".join(choices)) for name, choices in CHOICES.items()]
    yield TopicSection("Fields that have certain values only", chosen)
    yield TopicSection("Examples", list(EXAMPLES.items()))


def _fields() -> Iterator[TopicSection]:
    """Yield the fields of each kind: their names, meanings and units."""
    from wiretape.viewer.export import fields
    from wiretape.viewer.query.fields import FIELDS, MEANINGS, others
    from wiretape.viewer.query.operators import KINDS
    from wiretape.viewer.query.parser import operators

    for kind, one in KINDS.items():
        own = [field for field in FIELDS.values() if field.kind == kind]
        meanings = fields.meanings(field.name for field in own if field.name not in MEANINGS) | MEANINGS
        expected = f" {one.expected}".replace(" a ", "; a value is a ", 1) if one.expected else ""
        note = f"Operators: {' '.join(operators(own[0]))}{expected}."
        if kind == "duration":
            note += " T0 is when the request was sent; over a WebSocket, when the message came that asked first."
        yield TopicSection(
            one.title, [(", ".join([field.name, *others(field.name)]), meanings[field.name]) for field in own], note
        )


def _outcomes() -> Iterator[TopicSection]:
    """Yield the outcomes with their details, and the flags."""
    from wiretape.recorder.decode.exchange import DETAILS, FLAGS, OUTCOMES

    outcomes = {name: f"{meaning}: {', '.join(DETAILS[name])}" if name in DETAILS else meaning
                for name, meaning in OUTCOMES.items()}  # fmt: skip
    note = (
        "An exchange has one outcome, judged by what came; of these, the first that fits. Behind it stand its details."
    )
    yield TopicSection("Outcomes", list(outcomes.items()), note)
    yield TopicSection("Flags", sorted(FLAGS.items()), "An exchange has any number of flags.")


def _upstreams() -> Iterator[TopicSection]:
    """Yield the addresses of the well-known APIs, and the variables that point programs there."""
    from wiretape.recorder.relay import providers
    from wiretape.recorder.relay.apis import APIS, PROGRAMS

    served = [(f"/{api.name}/…", api.url) for api in APIS if api.url]
    yield TopicSection(
        "Served at http://127.0.0.1:8377", served, "Others are named by --upstream URL or --upstream NAME=URL."
    )
    places: dict[str, list[str]] = {}
    for variable, place in providers.sdk_bases("", providers.well_known()).items():
        places.setdefault(place, []).append(variable)
    yield TopicSection(
        "Variables that env prints, and run --base-url sets",
        [(f"{place} in", ", ".join(names)) for place, names in places.items()],
        "Each is set only where its own API is served: by its name, its host or, if it has neither, as OpenAI's. So a "
        "key never goes to another provider. For run --base-url, one that is set already names the upstream of its API "
        "and keeps its path; then others of that API stay unset. A /v1 that is missing or doubled is put right where "
        "only one path can be meant.",
    )
    preset = {api.name: [one.name for one in api.variables if one.path is None or not api.url] for api in APIS}
    yield TopicSection(
        "Variables that run --base-url replaces only where they are set",
        [(name, ", ".join(names)) for name, names in preset.items() if names],
        "Programs expect different paths in them or behave otherwise with them, or the API has no fixed URL.",
    )
    yield TopicSection(
        "Variables that run replaces without --base-url",
        [
            ("http://…", "pointed at the recorder, since many clients ask no proxy for a server without TLS"),
            ("https://…", "left; requests to their host are recorded through the proxy"),
        ],
        "These are variables of the lists above. Those of an --upstream are set with or without --base-url.",
    )
    yield TopicSection("Notes on some APIs", [(api.name, api.note) for api in APIS if api.note])
    yield TopicSection("Programs that are treated apart", [(one.words, _treatment(one)) for one in PROGRAMS])
    yield TopicSection("Hosts that are intercepted", [(api.name, ", ".join(api.hosts)) for api in APIS if api.hosts])


def _treatment(program: "apis.Program") -> str:
    """Return the treatment of a program, and its reason."""
    parts = [f"{', '.join(program.needs)} is set for it" if program.needs else ""]
    parts += [f"{', '.join(program.breaks)} is not set for it" if program.breaks else ""]
    parts += [f"{', '.join(program.listens)} is left as it is" if program.listens else ""]
    parts += [f"a refused WebSocket is answered {program.falls_back_on}" if program.falls_back_on else ""]
    return f"{', '.join(filter(None, parts))}: {program.reason}"


def _intercept() -> Iterator[TopicSection]:
    """Yield the variables of a program behind an intercepting recorder, and their treatment by program."""
    from wiretape.recorder.relay import authority, environment
    from wiretape.recorder.relay.apis import PROGRAMS
    from wiretape.recorder.relay.proxy import REST_SECONDS

    yield TopicSection(
        "Variables that run and record --intercept set",
        [
            (", ".join(environment.PROXIES), "the recorder's URL, with a random password in it"),
            ("NODE_USE_ENV_PROXY, NODE_OPTIONS", "Node goes by these variables, too: fetch, https, undici, ws and "
             "other clients of HTTP over TLS"),
            (environment.JAVA, "unless it is set: Java trusts the certificates and, on Linux, goes by the proxy; each "
             "Java virtual machine prints it"),
            (", ".join(environment.BYPASSES), "cleared: hosts in it would go past the recorder"),
        ],
        "Requests to the host of a known API (wiretape help upstreams), to one that a variable of an API names, and to "
        "each --host are recorded, with a certificate by an authority that is made for this run; its key is never a "
        "file. Any other host gets a tunnel that nothing looks into. Base URLs of APIs stay as they are, unless they "
        "are of plain HTTP. The proxy is for programs that send the password or, on Linux, were started with it in "
        "their environment. record prints what to export, on a terminal; elsewhere, set WIRETAPE_PROXY_PASSWORD to 16 "
        f"characters or more of your own. Certificates last {authority.VALID_DAYS} days.",
    )  # fmt: skip
    yield TopicSection(
        "Variables that name its certificates, and who reads them",
        list(environment.READERS.items()),
        f"{environment.ADDING} adds to what is trusted anyway. All others name a bundle: the system's roots, those "
        "that were named before, and the run's own. A program that reads none of them does not trust wiretape, which "
        "says so.",
    )
    yield TopicSection(
        "Programs whose API cannot be reached",
        [
            (
                "through the proxy",
                "the connection is closed without an answer: a connection error, as without wiretape",
            ),
            ("with a base URL", "502, or 504 after a timeout, with the reason as a JSON error"),
            ("CONNECT to any other host", "502, which clients show as an error of their proxy"),
            ("a limit of wiretape itself", "504 if no answer comes for too long, 503 if this machine lacks resources"),
        ],
        f"Before that, the rest of the request is read, for {REST_SECONDS:g} s at most, and stored. Through the proxy, "
        "the reason is printed, once for each server, and it is on the tape: wiretape show @err.",
    )
    yield TopicSection(
        "Changes on the way",
        [
            ("Accept-Encoding", "becomes identity, unless --keep-encoding"),
            ("HTTP/2", "is answered with HTTP/1.1; an Upgrade to it (h2c) is ignored"),
            ("a refused WebSocket", "keeps its status, except for Codex, which needs 426 to go on over HTTP; "
             "X-Wiretape-Upstream-Status has the original one"),
            ("answers", "gain X-Wiretape-Id; event streams X-Accel-Buffering: no"),
        ],
        "The bodies of requests and answers are never changed.",
    )  # fmt: skip
    yield TopicSection(
        "Programs that do not get the variables",
        [
            ("docker, podman", "--network host, -v for the directory of SSL_CERT_FILE, and -e NAME for each variable"),
            ("env -i, sudo", 'NAME="$NAME" for each; sudo --preserve-env=NAME,…'),
        ],
        "A run of one that recorded nothing prints the lines to copy.",
    )
    yield TopicSection(
        "Programs that leave a daemon behind",
        [(one.words, f"run starts it with {one.no_daemon}, if its help has that") for one in PROGRAMS if one.no_daemon],
        "A daemon that outlives the run keeps these variables, and the proxy that they name has ended: run names each "
        "such process, and the kill that ends it. The certificates stay in the user's cache until a run that "
        "begins after its end. "
        "What is called through a daemon that ran before is not recorded: a run that recorded nothing names that, too "
        "(on Linux).",
    )


def _cut() -> Iterator[TopicSection]:
    """Yield the lines of a tape as text."""
    from wiretape.recorder.tape import cut

    yield TopicSection(
        "Lines of a tape as text (wiretape db cut -o FILE.jsonl)",
        list(cut.LINES.items()),
        "Each is a JSON object. What is unknown is left out, and so are counts of 0; 'wiretape db schema' says what a "
        "column means. Measures are derived again when it is read, so that a text may be edited.",
    )


def _testing() -> Iterator[TopicSection]:
    """Yield the use of tapes in test suites."""
    from wiretape.viewer.replay import marks, timeline

    yield TopicSection(
        "Marker of pytest: @pytest.mark.wiretape(TAPE, ...)",
        list(marks.ARGUMENTS.items()),
        "A marked test is answered from the tape, a path beside its file, as text (.jsonl) or not; "
        f"{marks.DEFAULT} if it names none. The variables from which SDKs read base URLs point at a server in pytest's "
        "process until the test is over, and a key that is not set is replaced by one without a meaning; so clients "
        "are to be made within the test, or in fixtures of function scope. A test that asks for what is not on the "
        "tape fails, also if its program goes on. Markers of a module or a class hold for their tests; what a closer "
        "one says counts for more.",
    )
    yield TopicSection(
        "Recording",
        [
            ("pytest --wiretape-record=once", "records what is missing for tests that have nothing of their own yet"),
            ("pytest NODE_ID --wiretape-record=all", "records a test again"),
        ],
        "Whom a variable names, or else the API itself, is asked with the keys that are set. What a test records has "
        "the label test=NODE_ID and is for that test alone, which is served that and what no test recorded; one that "
        "has nothing of its own, as on a tape that was cut by hand, is served all. Within a test, once and new record "
        "a request that is sent again only once, all each time, as retries need it. "
        "Several processes (pytest -n) may record to one tape.",
    )
    yield TopicSection(
        "Options of pytest",
        [
            ("--wiretape-record=MODE", f"for all tests, whatever the markers say: {', '.join(marks.RECORD)}; where "
             "neither says so, wiretape_record in pytest's configuration does"),
            ("--wiretape-fault=FAULT", "break the answers of all tests, besides the markers' faults; may be repeated"),
        ],
    )  # fmt: skip
    yield TopicSection(
        "Fixture: wiretape_server",
        [
            ("url, url_of(API)", "the base URL, and the one that the SDK of an API expects: url_of('openai')"),
            ("variables", "the environment variables that point at it"),
            ("timeline()", "what became of each request, as below"),
            ("misses", "what was asked for and is not recorded"),
            ("is_recording", "whether anything may be recorded; an answer that is recorded has no times"),
        ],
    )
    yield TopicSection(
        "What a timeline says of each request; all times are ms",
        list(timeline.MEANINGS.items()),
        "A program that reads into buffers of its own, as most HTTP clients do, has read before it uses what it read.",
    )
    yield TopicSection(
        "Suites in other languages",
        [
            ("wiretape serve --db TAPE --ready-file FILE", "serves until it is stopped; FILE has the base URL as soon "
             "as it is ready, below which SDKs find /openai/v1, /anthropic, ..."),
            ("while ! [ -e FILE ]; do sleep 0.02; done; OPENAI_BASE_URL=$(cat FILE)/openai/v1 npm test",
             "waits for it, and runs a suite; --record once records what the tape lacks (wiretape help cassettes)"),
        ],
    )  # fmt: skip


def _opt_in() -> tuple[str, str]:
    """Return the title and the text of the sections on the conventions that a user opts in to."""
    from wiretape.viewer.stats.conventions import LATEST, OPT_IN, OPT_IN_VALUE

    return f"With {OPT_IN}={OPT_IN_VALUE}, instead of these", (
        "The names of the conventions' own repository, semantic-conventions-genai, as of October 2026; it has no "
        f"release yet (schema {LATEST.version}). The variable is that of OpenTelemetry's SDKs, a list with commas; "
        "other values, for other conventions, change nothing here. Of embeddings, there is only the duration. The "
        "gen_ai.token.modality of counters is unknown: a tape does not break tokens down by it."
    )


def _metrics() -> Iterator[TopicSection]:
    """Yield the metrics of a recorder, their labels, and the scraper's configuration."""
    from wiretape.viewer.stats.conventions import LABELS, LATEST, RELEASED, Conventions
    from wiretape.viewer.stats.dashboard import LABEL_SETS, OTHER, OWN

    def metrics(conventions: Conventions) -> list[tuple[str, str]]:
        labels = {family: f"; label {family.label}" if family.label else "" for family in conventions.families}
        return [(family.prometheus, family.meaning + label) for family, label in labels.items()]

    yield TopicSection(
        f"OpenTelemetry's GenAI conventions (semconv v{RELEASED.version}), as histograms",
        metrics(RELEASED),
        "record --metrics 127.0.0.1:9377 serves http://127.0.0.1:9377/metrics, compressed if a client accepts gzip. "
        "They count the exchanges of that recorder from its start, once they have ended and are measured, as stats "
        "--as otel defines them, for every API: chat, generate_content, text_completion and embeddings. An unknown "
        "value is no sample; an exchange whose client left has no times, and over a WebSocket, chunks have none.",
    )
    title, text = _opt_in()
    yield TopicSection(title, metrics(LATEST), text)
    yield TopicSection(
        "wiretape's own",
        list(OWN.items()),
        "Another process reads the tape for all of them; the recorder tells it of its own state once a second.",
    )
    yield TopicSection(
        "Labels",
        list(LABELS.items()),
        "Those of the histograms and of wiretape_exchanges_total; empty is unknown. Models, hosts and errors are texts "
        f"of requests and answers: {LABEL_SETS} combinations are kept apart, and what comes later has {OTHER!r} for "
        "them and is counted by wiretape_folded_exchanges_total.",
    )


def _otlp() -> Iterator[TopicSection]:
    """Yield the data sent to a collector, its configuration, and its handling."""
    from wiretape.viewer.stats.conventions import LATEST, RELEASED
    from wiretape.viewer.stats.dashboard import EVENTS, OWN_ATTRIBUTES

    yield TopicSection(
        "A span for each generation, and for each request of embeddings",
        [
            ("its trace", "that of the request's traceparent, whose span is its parent; else a trace of its own"),
            ("its id", "the exchange's id, the same whenever it is sent"),
            ("its name, its times", "'chat MODEL'; from the request to the event that ends the stream"),
            (
                "its attributes",
                f"those of OpenTelemetry's GenAI conventions (semconv v{RELEASED.version}), and those below",
            ),
        ],
        "record --otlp http://127.0.0.1:4318 sends to /v1/traces and /v1/metrics there, as protobuf over HTTP. There "
        "is no span where the traceparent says that its trace is not sampled. No text of a request or an answer is "
        "sent, and what is unknown has no attribute.",
    )
    yield TopicSection("Attributes of wiretape's own", list(OWN_ATTRIBUTES.items()))
    yield TopicSection("Events of a span", list(EVENTS.items()))
    yield TopicSection(
        "Metrics",
        [(family.name, family.meaning) for family in RELEASED.families],
        "Those of record --metrics (wiretape help metrics), here with exponential histograms, every 10 s and at the "
        "end. They are cumulative, also over several processes, until the resource or the conventions change; then "
        "they begin at 0, with another service.instance.id. Besides them: wiretape.exchanges, by outcome, "
        "wiretape.flagged_exchanges and wiretape.folded_exchanges.",
    )
    title, text = _opt_in()
    yield TopicSection(
        title,
        [
            *((family.name, family.meaning) for family in LATEST.families),
            (LATEST.cache_write, f"of a span, instead of {RELEASED.cache_write}"),
        ],
        f"{text} Spans and metrics name their conventions by the schema URL, and by wiretape.semconv in the scope.",
    )
    yield TopicSection(
        "Variables and files",
        [
            ("OTEL_EXPORTER_OTLP_HEADERS", "headers, such as credentials: NAME=VALUE,NAME=VALUE, percent-encoded"),
            ("--otlp-headers FILE", "the same in a file, NAME: VALUE, a line each"),
            ("OTEL_SERVICE_NAME", "the service.name of all that is sent, instead of wiretape"),
            ("OTEL_RESOURCE_ATTRIBUTES", "other attributes of it: KEY=VALUE,KEY=VALUE; credentials are replaced"),
            ("SSL_CERT_FILE, --ca-file", "whom to trust with https"),
        ],
        "They stand in the environment of whatever sends: record --otlp, or wiretape ship --to otlp+http://HOST:PORT, "
        "which does the same for a tape that was recorded before.",
    )
    yield TopicSection(
        "What is promised",
        [
            ("a recorder", "never waits: another process reads the tape, which is the buffer, and sends"),
            ("429, 502, 503, 504", "and a collector that is away: a batch waits, and is sent again as the same bytes"),
            ("401, 403", "the same, once a minute"),
            ("any other refusal", "a batch is lost, and reported"),
            (
                "TAPE.shipped-otlp-…",
                "has the progress, and the counts of the metrics: the next process that sends the tape goes on from "
                "there. An exchange is acknowledged once its span and its metrics are taken",
            ),
            (
                "a kill at any time",
                "loses nothing: a batch whose answer got lost is sent twice, with the same ids, and metrics count on "
                "with the same service.instance.id and start, so that each exchange is counted once",
            ),
            ("the end", "of a recorder leaves 4 s for what is not sent yet"),
        ],
    )


def _imports() -> Iterator[TopicSection]:
    """Yield the formats of imports, and the flags that show the limits of a source."""
    from wiretape.recorder.decode.exchange import FLAGS
    from wiretape.viewer.importing.formats import FORMATS

    yield TopicSection(
        "Formats of wiretape import",
        list(FORMATS.items()),
        "Each is recognised by its content, or named by --from. What a source does not know is unknown, never 0.",
    )
    flags = ("imported", "no_timing", "coarse_clock", "rebuilt", "storage_gap", "request_not_stored")
    yield TopicSection("Flags", [(name, FLAGS[name]) for name in flags], "What was imported is found by flag:imported.")


def _cassettes() -> Iterator[TopicSection]:
    """Yield the rules of `serve --record`."""
    yield TopicSection("Modes of wiretape serve --record, for a request that …", list(RECORDED.items()))
    yield TopicSection("What becomes of a recording", list(KEPT.items()))


PRICES: Final = """\
currency = "USD"

[[prices]]
model = "gpt-4o-mini*"
input = 0.15
cached_input = 0.075
output = 0.60

[[prices]]
model = ["claude-sonnet-*", "anthropic/claude-sonnet-*"]
since = 2026-01-01
input = 3
cached_input = 0.30
cache_write = 3.75
cache_write_1h = 6
output = 15
"""
"""Prices as a configuration may have them; the numbers are made up."""


def _prices() -> Iterator[TopicSection]:
    """Yield the format of prices, and the definition of an exchange's cost."""
    from wiretape.recorder.decode.dialects.registry import DIALECTS
    from wiretape.viewer.stats.prices import AMOUNTS, PATTERNS, SINCE

    example = [(text or " ", "") for text in PRICES.splitlines()]
    yield TopicSection(
        "Prices in .wiretape.toml, or in config.toml of your configuration directory",
        example,
        "None are built in: they would go out of date. These are made up.",
    )
    entry = {**PATTERNS, "since": SINCE, **AMOUNTS}
    yield TopicSection(
        "Keys of an entry",
        list(entry.items()),
        "An entry holds for the exchanges that fit all of its texts, in which * stands for anything; case is ignored. "
        "Of those that fit, the first one holds, so put newer before older ones, and special before general ones. "
        "Prices have six decimals at most, and are in one currency.",
    )
    yield TopicSection(
        "What comes of it",
        [
            ("cost, currency", "of an exchange: show, view, --columns, filters (cost>0.01); sums: stats, ls --by"),
            ("cache_hit_rate", "tokens read from the provider's cache / all tokens of the request; needs no prices"),
        ],
        "Cost is unknown, and not 0, without an entry or usage, of exchanges that are not complete, and where a count "
        "of tokens is missing that has a price of its own. Tiers are not known: batches, long contexts, tools that are "
        "billed by the call.",
    )
    apis = [", ".join(sorted(one.api for one in DIALECTS if one.input_has_cache is within)) for within in (True, False)]
    yield TopicSection(
        "Tokens of a cache",
        [
            ("part of the input", f"{apis[0]}: a count that usage lacks is 0"),
            ("beside the input", f"{apis[1]}: a count that usage lacks is 0"),
            ("any other API", "as part of the input; a count that usage lacks is unknown"),
            (
                "cache_write_1h",
                "needs a count wherever tokens were written: Anthropic's cache_creation, Bedrock's cacheDetails; it is "
                "unknown where these do not add up to all that were written",
            ),
        ],
        "An API leaves out a count that is 0, and a server that has no such count bills no such tokens.",
    )


def _shipping() -> Iterator[TopicSection]:
    """Yield the shipping of many recorders to one server: its address, its tables, and the guarantees."""
    from wiretape.recorder import destinations
    from wiretape.viewer.ship.clickhouse import status
    from wiretape.viewer.ship.clickhouse.plan import RANKED_GAP_BYTES
    from wiretape.viewer.source.clickhouse import tables

    yield TopicSection(
        "Where the centre is: wiretape ship --to, wiretape fleet init --to",
        [
            (destinations.CENTRE_FORM, "the nodes of a ClickHouse server or cluster; without a database, "
             f"{destinations.DATABASE!r}. This machine is reached by HTTP (8123), others by TLS (8443)"),
            ("?tls=no, ?tls=yes", "plain HTTP to another machine; TLS to this one"),
            ("--ca-file FILE, SSL_CERT_FILE", "the certificate of a private authority (PEM), beside the system's; by "
             "the variable instead of them, as for ls, stats and all else with --db"),
            ("?quorum=N", "replicas that must have a batch before it counts; else 2, where there are so many"),
            (f"{destinations.USER}, {destinations.PASSWORD}", "the account; a password in the URL is refused"),
            (destinations.PASSWORD_FILE, "a file that has the password"),
            ("WIRETAPE_FLEET", "the URL, where --to is not given"),
            ("a proxy before a node", "has to pass on the headers X-ClickHouse-…, without which nothing counts as "
             "shipped"),
        ],
    )  # fmt: skip
    yield TopicSection(
        "Tables that wiretape fleet init makes",
        [(table.name, table.meaning) for table in tables.TABLES],
        "Columns have the names and the meanings of the tape (wiretape db schema). Read them with FINAL: of rows with "
        "one key, that with the highest row_version counts. The salt of the redaction hashes is never shipped; streams "
        "stay empty without ship --bodies. Rows expire after 13 months, streams after 14 days, where the server can do "
        "that (19.6 and later).",
    )
    yield TopicSection(
        "What is promised",
        [
            ("a recorder", "never waits: shipping is a process of its own, which only reads the tape"),
            ("an exchange", "is shipped when it has ended and is measured, within about a second, and again when it is "
             "derived again. The tape is the buffer: what --keep or rm deletes before it is shipped is not shipped"),
            ("a batch", "is sent as the same bytes until it is acknowledged, to one node after the other: the server "
             "drops those that it has, and FINAL what is left twice"),
            ("TAPE.shipped-…", "is what a centre has acknowledged. Without it, all is sent again, and counts once: "
             "remove it when the centre has lost its tables"),
            ("record --ship URL", "ships while it records, and at its end for some seconds what is left; the rest is "
             "shipped by the next, or by wiretape ship. What was said goes along with --ship-bodies"),
            ("ctrl-c", "ends wiretape ship within some seconds, in which it ships the rest as far as it can"),
            ("tenant", "ship --label tenant=NAME is a part of every key: a tape is shipped for one tenant"),
        ],
    )  # fmt: skip
    yield TopicSection(
        "What wiretape fleet status shows of a host, and of a table",
        [(name, meaning) for name, meaning in status.MEANINGS.items() if name not in ("kind", "name")],
    )
    yield TopicSection(
        "Asking a centre: --db clickhouse://…",
        [
            ("ls, stats, check, compare", "and export of exchanges and summary: filters and columns are worked out in "
             "the engine, stats as one statement after the gaps are counted. Figures are exact, as those of a "
             "tape: gaps are ranked in the memory of the server, of which a billion take up to "
             f"{RANKED_GAP_BYTES} GB; percentiles of more are estimates (t-digest), and said to be, unless --exact"),
            ("filters", "those on texts (text, prompt, error, a bare word), conversations and costs are of tapes; "
             "regular expressions have no look-around and no back-references. error_message and conversation are "
             "empty in lists and figures; costs are there, by the prices of your configuration"),
            ("ls --follow", "shows what arrives there of what began within the last hour; it asks every 2 s"),
            ("stats --as", "mlperf, langfuse, and otel without its gaps between all chunks: other tools' definitions "
             "need what the chunks hold, which the refusal names"),
            ("wiretape view", "lists the newest first and reads on as you scroll; filters, orders and statistics are "
             "worked out there. What is opened is pulled to a private tape, which is removed at the end. The map over "
             "time, conversations and following are of tapes"),
            ("wiretape pull -o TAPE", "copies what was shipped to a tape, for show, play, serve, every stats --as and "
             "all else. What was shipped without --bodies has its facts, measures and gaps (flag:bytes_not_shipped)"),
        ],
    )  # fmt: skip


def _archive() -> Iterator[TopicSection]:
    """Yield the location of an archive of Parquet files, its contents, and the queries of engines."""
    from wiretape.recorder import destinations
    from wiretape.viewer.ship.parquet import layout as archive_sql

    yield TopicSection(
        "Where an archive is: wiretape ship --to, record --ship",
        [
            ("parquet:DIR", "a directory, which is made if it is not there"),
            ("s3://BUCKET/PREFIX", "a bucket, with ?NAME=VALUE&… as follows. Credentials come from AWS_ACCESS_KEY_ID "
             "and AWS_SECRET_ACCESS_KEY, the files of Amazon's programs, or the machine"),
            *destinations.BUCKET_SETTINGS.items(),
        ],
        "Needs pyarrow: the extra wiretape[parquet].",
    )  # fmt: skip
    yield TopicSection(
        "What is in it",
        [
            ("exchanges/date=YYYY-MM-DD/host=NAME/part-….parquet", "exchanges by the day when they started, UTC, with "
             "the columns of a centre (help shipping), gaps included"),
            ("streams/date=…/host=…/part-….parquet", "what was said, with ship --bodies"),
            ("sessions/date=…/host=…/part-….parquet", "the runs of recorders, by the day when they started: of each "
             "tape one file a day, written anew when something has changed"),
            ("merged-….parquet", "the small files of a past day of a host, merged by ship: at its start, then hourly"),
            (".….part", "a file that is being written: it takes its name only when it is whole. What a process that "
             "was killed left is removed after a day; of uploads to a bucket, by its rule for incomplete ones"),
        ],
        "A file is written every minute, or at 10,000 exchanges (of streams at 1,000), and is private (0600) in a "
        "directory. A batch that is written again replaces its files. An exchange that is derived again, or shipped "
        "from the beginning, is there more than once, and so it is for a moment while files are merged: of a tenant "
        "and an id the highest row_version counts. A query that began before files were merged may not find one of "
        "them; ask again. Shipping to an archive takes about 130 MiB, of which 90 are Python's and pyarrow's code.",
    )  # fmt: skip
    yield TopicSection(
        "How engines read it, each row once",
        [(engine, statement) for engine in archive_sql.ENGINES for statement in archive_sql.statements(engine)],
        "Without ship --bodies there is no table streams. An exchange and the run of its recorder: "
        f"{archive_sql.JOIN}. DIR of a bucket is s3://BUCKET/PREFIX for DuckDB, s3a://BUCKET/PREFIX for Spark. "
        "ClickHouse reads a bucket with s3('https://…/*/*/*.parquet') instead of file(), and files of a server below "
        "its user_files_path only.",
    )


_SECTIONS: Final[dict[str, Callable[[], Iterator[TopicSection]]]] = {
    "filters": _filters, "fields": _fields, "outcomes": _outcomes, "upstreams": _upstreams,
    "intercept": _intercept, "imports": _imports, "cut": _cut, "testing": _testing, "metrics": _metrics, "otlp": _otlp,
    "cassettes": _cassettes, "prices": _prices, "shipping": _shipping, "archive": _archive,
}  # fmt: skip
