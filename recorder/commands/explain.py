"""Pure: why `wiretape run` recorded nothing, as far as the recorder has seen, and what to try."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from recorder.plurals import counted
from recorder.relay.guard import Refusal
from recorder.relay.pointing import Plan

_NAMED = 4
"""At most so many variables, hosts or refusals are named in one line."""


@dataclass(slots=True)
class Attempt:
    """What a recorder has seen of a command: connections, the hosts asked of the proxy and how each was treated."""

    plan: Plan
    is_intercepting: bool = False
    connections: int = 0
    asked: dict[str, str] = field(default_factory=dict)
    refused: list[Refusal] = field(default_factory=list)


def explain(attempt: Attempt, program: str) -> Iterator[str]:
    """Yield the lines that say what was set, what came, and what to try; `program` is the command's name."""
    yield from _settings(attempt)
    yield f"connected: {_connected(attempt)}"
    if attempt.asked:
        yield f"asked of the proxy: {_named([f'{host} ({how})' for host, how in attempt.asked.items()], 'host')}"
    if attempt.refused:
        refusals = list(dict.fromkeys(f"{one.status} {one.message}" for one in attempt.refused))
        yield f"refused: {_named(refusals, 'request')}"
    yield f"try: {_advice(attempt, program)}"


def _settings(attempt: Attempt) -> Iterator[str]:
    named = ["HTTPS_PROXY, HTTP_PROXY and the variables that name certificates"] if attempt.is_intercepting else []
    named += attempt.plan.variables
    yield f"set: {_named(named, 'variable') or 'no variable'}"
    for name, why in attempt.plan.left.items():
        yield f"not set: {name}, as {why}"


def _connected(attempt: Attempt) -> str:
    if attempt.connections:
        return f"{counted(attempt.connections, 'connection')}, but no request to an API that is served"
    if attempt.is_intercepting:
        return "nothing: the program made no call, or does not heed these variables"
    return "nothing: the program made no call, or does not read these variables"


def _advice(attempt: Attempt, program: str) -> str:
    if not attempt.is_intercepting:
        return f"wiretape run -- {program}, without --base-url, which records programs with a URL of their own"
    unseen = [host.rpartition(":")[0] for host, how in attempt.asked.items() if how in ("tunnelled", "relayed")]
    if "untrusted" in attempt.asked.values():
        return "make the program trust the certificate in SSL_CERT_FILE: it refused wiretape's"
    if unseen:
        return f"--host {unseen[0]}, if that is an API: hosts that are not known to be one pass unseen"
    if not attempt.connections:
        return f"wiretape run --base-url -- {program}, if it has a setting or a variable for its base URL"
    return "wiretape record, with the base URL of the program's own configuration set to it"


def _named(names: Sequence[str], thing: str) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {counted(more, f'more {thing}')}" if more > 0 else "")
