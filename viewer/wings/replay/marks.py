"""Pure: the arguments of a test's marker `wiretape`.

It is read when tests are collected, in every run of pytest: nothing heavy is imported before a test is marked.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    import pytest

    from wiretape.recorder.relay.providers import Upstream
    from wiretape.viewer.wings.replay.planning import ServingOptions

RECORD: Final = ("none", "once", "new", "all")
NEW: Final = "new_episodes"
"""The name of `new` in vcrpy, which is accepted, too."""
RECORD_MODES: Final = {"none": "none", "once": "once", NEW: "new", "all": "all", "rewrite": "all"}
"""The modes of pytest-recording's option `--record-mode`, as modes of recording here."""
ARGUMENTS: Final = {
    "record": "requests that go to the API, and are recorded: none, the default; once: those of a test without "
    "recordings of its own; new (or new_episodes): those without a recording; all",
    "speed": "a factor of the recorded speed; 0, the default: no waits",
    "max_gap": "limit of each silence, longer ones are shortened: '1s', '50ms', or seconds",
    "match": "choose the recording for a request by: request (method, path and body); last (else by the last message, "
    "where earlier ones, the system prompt or tools differ); model, sequence, random, id",
    "strict": "True: compare whole bodies, also random ids and the like (wiretape help replay)",
    "ignore": "compare JSON bodies without this field, or these: 'user', 'metadata.session'",
    "form": "legal forms in which the answers are sent: 'crlf,byte' (wiretape help replay)",
    "forms": "a run of the test for each of these: ['recorded', 'crlf', 'bom,byte']; 'all': for each single form that "
    "its recordings take",
    "fault": "break answers, by one fault or several: 'cut@50%', 'status:429:0.1', 'stall:5s@#120' (before item 120 of "
    "show --part events, which counts comments, too)",
    "seed": "seed of random faults",
    "upstream": "the API by its name, a URL or NAME=URL, or several; else from the environment, or the well-known APIs",
    "allow_hosts": "hosts that the test may connect to besides its server, each HOST or HOST:PORT: 'localhost:5432'",
    "redact": "in new recordings, replace matches of this regular expression, or these, by *, besides keys and "
    "passwords: 'cust-[0-9]+'; False: replace nothing",
    "filter": "serve only matching recordings: 'model:gpt-* -is:truncated' (wiretape help filters)",
}
"""The arguments of a marker besides the tape, mostly the options of `wiretape serve`."""
DEFAULT: Final = "tapes/{module}.jsonl"
"""The tape of a test whose marker names none, beside its module."""


class MarkerSettings(NamedTuple):
    """The settings of a test: tape, recording and replay, upstreams, a filter of exchanges, further hosts."""

    tape: Path
    options: "ServingOptions"
    upstreams: "Sequence[Upstream]" = ()
    filter: str | None = None
    allowed_hosts: Sequence[str] = ()


def merged(marks: "Iterable[pytest.Mark]") -> tuple[Any, dict[str, Any]]:
    """Return the tape that markers name, or None, and their other arguments; the first marker is the closest one.

    Raise ValueError for unknown arguments.
    """
    tape, arguments = None, dict[str, Any]()
    for mark in marks:
        arguments_of_mark = {**mark.kwargs}
        tapes = [*mark.args, *([arguments_of_mark.pop("tape")] if "tape" in arguments_of_mark else [])]
        if len(tapes) > 1:
            raise ValueError(
                f"wiretape({', '.join(map(repr, tapes))}): name one tape; 'wiretape db merge' joins several"
            )
        if unknown := [name for name in arguments_of_mark if name not in ARGUMENTS]:
            raise ValueError(f"wiretape(…, {unknown[0]}=…): there are tape, {', '.join(ARGUMENTS)}")
        tape = tapes[0] if tapes and tape is None else tape
        arguments = arguments_of_mark | arguments
    return tape, arguments


def runs(arguments: Mapping[str, Any]) -> Sequence[str] | None:
    """Return the forms of each run of a test; None if it is run once. Raise ValueError for wrong forms."""
    if not arguments.keys() & {"form", "forms"}:
        return None
    from wiretape.viewer.wings.replay import forms

    if "form" in arguments:
        if "forms" in arguments:
            raise ValueError("form= and forms= contradict each other: give one of them")
        _checked("form", arguments["form"], forms.parse)
        return None
    if arguments["forms"] == "all":
        return ["ping:50ms" if name == "ping" else name for name in forms.FORMS]
    texts = _texts("forms", arguments)
    for text in texts:
        _checked("forms", text, forms.parse)
    return texts


def read(
    module: Path, marks: "Iterable[pytest.Mark]", record: str | None, faults: Sequence[str], default: str = "",
    form: str | None = None,
) -> MarkerSettings:  # fmt: skip
    """Return the settings of a test in a module.

    `record` and `faults` are the command line's: the former counts for more than a marker's, the latter come on top.
    `default` is the recording mode if neither sets one. `form` is that of this run, if there are several: only the one
    as recorded records.

    Raise ValueError, naming the wrong argument.
    """
    from wiretape.recorder.relay import providers
    from wiretape.viewer.query.parser import parse
    from wiretape.viewer.wings.replay.network import read_allowed

    tape, arguments = merged(marks)
    if tape is not None and not isinstance(tape, str | Path):
        raise ValueError(f"wiretape({tape!r}): the tape is a path, relative to the test's file")
    mode = record or arguments.get("record") or default or RECORD[0]
    mode = "new" if mode == NEW else mode
    if form is not None:
        arguments["form"] = form
        mode = mode if form == "recorded" else "none"
    if mode not in RECORD:
        raise ValueError(f"record={mode!r} is none of {', '.join(RECORD)}")
    filter_text = arguments.get("filter")
    if filter_text is not None:
        _checked("filter", filter_text, parse)
    return MarkerSettings(
        tape=module.parent / (tape or DEFAULT.format(module=module.stem)),
        options=_options(arguments, mode, faults),
        upstreams=[_checked("upstream", upstream, providers.parse) for upstream in _texts("upstream", arguments)],
        filter=filter_text,
        allowed_hosts=[_checked("allow_hosts", host, read_allowed) for host in _texts("allow_hosts", arguments)],
    )


def _options(arguments: Mapping[str, object], record: Any, faults: Sequence[str]) -> "ServingOptions":
    from wiretape.viewer import config
    from wiretape.viewer.wings.replay import forms, planning
    from wiretape.viewer.wings.replay.faults import parse
    from wiretape.viewer.wings.replay.matching import MODES

    match = arguments.get("match", "request")
    if match not in MODES:
        raise ValueError(f"match={match!r} is none of {', '.join(MODES)}")
    is_redacted = arguments.get("redact") is not False
    patterns = _texts("redact", arguments) if is_redacted else ()
    return planning.ServingOptions(
        mode=match,
        strict=_checked("strict", arguments.get("strict", False), _read_flag),
        ignored=_texts("ignore", arguments),
        speed=_checked("speed", arguments.get("speed", 0), _read_speed),
        cap_ns=_checked("max_gap", arguments.get("max_gap"), _read_gap),
        forms=_checked("form", arguments.get("form", "recorded"), forms.parse),
        faults=[_checked("fault", text, parse) for text in [*_texts("fault", arguments), *faults]],
        seed=_checked("seed", arguments.get("seed", 0), int),
        record=record,
        redaction=config.redaction(
            [_checked("redact", pattern, config.regex) for pattern in patterns], is_on=is_redacted
        ),
    )


def _texts(name: str, arguments: Mapping[str, object]) -> Sequence[str]:
    value = arguments.get(name, ())
    texts = (value,) if isinstance(value, str) else value
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"{name}={value!r} is no text and no list of texts")
    return texts


def _checked(name: str, value: Any, reader: Any) -> Any:
    try:
        return reader(value)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name}={value!r}: {error}") from error


def _read_speed(value: float) -> float:
    speed = float(value)
    if not 0 <= speed < math.inf:
        raise ValueError("give a number; 0: as fast as possible")
    return speed or math.inf


def _read_flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError("give True or False")
    return value


def _read_gap(value: str | float | None) -> int | None:
    from wiretape.viewer.query.values import number

    if value is None:
        return None
    if isinstance(value, str):
        return int(number(value, "duration"))
    if not 0 <= value < math.inf:
        raise ValueError("give seconds, from 0")
    return int(value * 1e9)
