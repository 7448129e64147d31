"""The options that say how recordings answer: of `serve`, and of `run --replay`."""

import os
import re
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from wiretape.recorder.children import CONTROL_TOKEN
from wiretape.recorder.commands.options import F, gathered
from wiretape.viewer.commands import options

if TYPE_CHECKING:
    from wiretape.viewer.wings.replay.planning import ServingOptions


def _read_faults(_context: click.Context, _option: click.Parameter, texts: tuple[str, ...]) -> list[Any]:
    from wiretape.viewer.wings.replay import faults

    return [options.parsed("--fault", faults.parse, text) for text in texts]


def _read_forms(_context: click.Context, _option: click.Parameter, text: str) -> tuple[str, ...]:
    from wiretape.viewer.wings.replay import forms

    return options.parsed("--form", forms.parse, text)


def _options(
    speed: float,
    max_gap: str | None,
    no_wait: bool,
    match: Any,
    strict: bool,
    ignored: tuple[str, ...],
    forms: tuple[str, ...],
    faults: list[Any],
    seed: int,
    control: bool,
    max_hold: str,
) -> "ServingOptions":
    from wiretape.viewer.query.values import number
    from wiretape.viewer.wings.replay.planning import ServingOptions

    pace = options.read_pace(speed, max_gap, no_wait)
    hold_seconds = options.parsed("--max-hold", lambda text: number(text, "duration"), max_hold) / 1e9
    return ServingOptions(
        match,
        ignored,
        pace.speed,
        pace.cap_ns,
        forms,
        faults,
        seed,
        strict=strict,
        token=_token() if control else "",
        hold_seconds=hold_seconds,
    )


def _token() -> str:
    """Return the token of control: the user's own, or one made at random."""
    token = os.environ.get(CONTROL_TOKEN, "")
    if token and not re.fullmatch(r"[\w-]{16,}", token, re.ASCII):
        raise click.UsageError(f"{CONTROL_TOKEN} must be 16 or more letters, digits, '-' or '_'")
    return token or secrets.token_urlsafe(24)


def answering(match: str) -> Callable[[F], F]:
    """Return a decorator that adds the options, `match` by default; the command gets `answers`: `ServingOptions`."""
    return gathered(
        "answers",
        _options,
        *options.PACING,
        click.option("--match", type=click.Choice(["request", "last", "model", "sequence", "random", "id"]),
                     default=match, show_default=True,
                     help="Choose the recording for a request: by method, path and body; if there is none, by its last "
                     "message; by model; the next one or any one of the same path; or only by id."),
        click.option("--strict", is_flag=True,
                     help="Compare whole bodies, also what differs in each run of a program and changes no answer: see "
                     "'wiretape help replay'."),
        click.option("--ignore", "ignored", multiple=True, metavar="FIELD",
                     help="Compare JSON bodies without this field: user, metadata.session. May be repeated."),
        click.option("--form", "forms", default="recorded", show_default=True, metavar="NAMES", callback=_read_forms,
                     help="Send legal streams that clients break on: crlf,byte. One of event, byte, split, glued, or a "
                     "number of bytes a write; one of gzip, br, zstd; and crlf, cr, nospace, bom, comment, ping:TIME, "
                     "id+retry, chunk-extensions, h2. See 'wiretape help replay'."),
        click.option("--fault", "faults", multiple=True, metavar="FAULT", callback=_read_faults,
                     help="Break answers: cut@50%, reset@#3 (before item 3 of show --part events, which counts "
                     "comments, too), stall:5s@#120, corrupt@#7, hold@#3 (until the client leaves), slow:3x, "
                     "status:429:0.1 (one in ten). Other positions: head, stall (behind a silence of 2 s), end. May be "
                     "repeated."),
        click.option("--seed", type=int, default=0, show_default=True, help="Seed of random faults."),
        click.option("--control", is_flag=True,
                     help="Let tests hold, step and break answers by requests below /@control."),
        click.option("--max-hold", default="60s", show_default=True, metavar="TIME",
                     help="Cut an answer that control holds for longer; 0: no limit."),
    )  # fmt: skip
