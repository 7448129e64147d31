"""The option `--no-redact`, and the mask over secrets in what commands make to be passed on."""

import contextlib
import signal
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import click

from wiretape.recorder.errors import WiretapeError
from wiretape.recorder.plurals import counted

if TYPE_CHECKING:
    from wiretape.recorder.tape.masking import Masker

REDACT_SECONDS: Final = 10.0
"""The processor time that patterns may take for one text."""

no_redact = click.option(
    "--no-redact", is_flag=True, help="Keep keys and passwords in bodies, which are replaced by * (help security)."
)


def mask(is_off: bool, patterns: Sequence[str] = ()) -> "Masker | None":
    """Return the mask over secrets, and over what the configuration and further patterns match; None for no mask."""
    from wiretape.recorder.tape.masking import Masker
    from wiretape.viewer import config

    if is_off and not patterns:
        return None
    masker = Masker(config.redaction(patterns, is_on=not is_off))
    if masker.has_rules:
        masker.limit = _limited
        signal.signal(signal.SIGVTALRM, _give_up)  # matching looks after signals
    return masker


def counts(mask: "Masker | None") -> str:
    """Return the count of masked secrets, as the end of a list; "" if there are none."""
    return f", {counted(mask.count, 'secret')} masked" if mask is not None and mask.count else ""


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    signal.setitimer(signal.ITIMER_VIRTUAL, REDACT_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _give_up(*_: object) -> None:
    raise WiretapeError(
        f"a pattern of --redact or [[redact]] took more than {REDACT_SECONDS:g} s for one text: write it without a "
        "repetition within a repetition, such as (a+)+, or leave out exchanges with long texts"
    )
