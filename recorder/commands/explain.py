"""Likely reasons why `wiretape run` recorded nothing, and remedies."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from wiretape.recorder import process
from wiretape.recorder.destinations import is_loopback
from wiretape.recorder.plurals import counted
from wiretape.recorder.relay import environment
from wiretape.recorder.relay.guard import Refusal
from wiretape.recorder.relay.pointing import PointingPlan


@dataclass(slots=True)
class RecordedCommand:
    """A recorder's record of a command: connections, and the hosts requested from the proxy with their treatment."""

    plan: PointingPlan
    is_intercepting: bool = False
    connections: int = 0
    asked: dict[str, str] = field(default_factory=dict)
    refused: list[Refusal] = field(default_factory=list)
    daemons: dict[int, str] = field(default_factory=dict)
    """Older processes of this machine that the command was connected to, by pid."""


def explain(attempt: RecordedCommand, command: Sequence[str]) -> Iterator[str]:
    """Yield the lines about a command: its variables, its connections, and the next thing to try."""
    program = PurePath(command[0]).name + " …" * (len(command) > 1)
    yield from _settings(attempt)
    yield f"connected: {_connections(attempt)}"
    if attempt.asked:
        hosts = [f"{host} ({treatment})" for host, treatment in attempt.asked.items()]
        yield f"asked of the proxy: {_listing(hosts, 'host')}"
    if attempt.refused:
        refusals = list(dict.fromkeys(f"{refusal.status} {refusal.message}" for refusal in attempt.refused))
        yield f"refused: {_listing(refusals, 'request')}"
    if attempt.daemons:
        yield f"called on this machine: {_listing(list(attempt.daemons.values()), 'process')}, which ran before"
    yield from _passing_advice(attempt, command) or [f"try: {_advice(attempt, program)}"]


def _settings(attempt: RecordedCommand) -> Iterator[str]:
    variables = list(attempt.plan.variables)
    if attempt.is_intercepting:
        java = [] if environment.JAVA in attempt.plan.left else [_java()]
        variables = ["HTTPS_PROXY, HTTP_PROXY, the variables that name certificates", *java, *variables]
    yield f"set: {_listing(variables, 'variable') or 'no variable'}"
    for name, reason in attempt.plan.left.items():
        yield f"not set: {name}, as {reason}"


def _java() -> str:
    return (
        environment.JAVA
        if process.HAS_PROC
        else f"{environment.JAVA} (certificates only: Java has no option for the proxy's password)"
    )


_CONTAINERS = frozenset(("docker", "podman", "nerdctl"))
_CERTIFICATES = '"${SSL_CERT_FILE%/*}:${SSL_CERT_FILE%/*}:ro"'


def _passing_advice(attempt: RecordedCommand, command: Sequence[str]) -> list[str]:
    """Return the lines about passing the variables on, if the command starts programs without them."""
    words = [PurePath(word).name for word in command]
    names = list(attempt.plan.variables)
    if attempt.is_intercepting:
        names += [*environment.PROXIES, "NODE_USE_ENV_PROXY", *environment.READERS]
    if container := next((word for word in words[:2] if word in _CONTAINERS), ""):
        mount = [f"-v {_CERTIFICATES}"] if attempt.is_intercepting else []
        options = " ".join(["--network host", *mount, *(f"-e {name}" for name in names)])
        return [
            f"{container} does not pass these variables on; try: wiretape run -- sh -c '{container} run {options} …'",
            f"or: wiretape record --listen 0.0.0.0:8377 --allow-host host.docker.internal, and {container} run "
            "--add-host host.docker.internal:host-gateway -e OPENAI_BASE_URL=http://host.docker.internal:8377/openai/v1",
        ]
    if attempt.is_intercepting:  # a container does not have the file that NODE_OPTIONS names
        names += [environment.NODE, environment.JAVA]
    if words[0] == "sudo":
        return [f"sudo does not pass these variables on; try: sudo --preserve-env={','.join(names)} …"]
    if words[0] == "env" and any(word in ("-", "-i", "--ignore-environment") for word in command[1:]):
        passed = " ".join(f'{name}="${name}"' for name in names)
        return [f"env clears these variables; try: wiretape run -- sh -c 'env -i {passed} …'"]
    return []


def _connections(attempt: RecordedCommand) -> str:
    if attempt.connections:
        return f"{counted(attempt.connections, 'connection')}, but no request to an API that is served"
    if attempt.is_intercepting:
        proxy = "heeds no proxy: aiohttp, for one, heeds none unless trust_env=True"
        return f"nothing: the program made no call, or one to this machine, or {proxy}"
    return "nothing: the program made no call, or does not read these variables"


_LOCAL = "--host localhost, if it calls an API of this machine"
"""Advice for a program that asks no proxy for servers of this machine."""


def _advice(attempt: RecordedCommand, program: str) -> str:
    unseen = [
        host.rpartition(":")[0] for host, treatment in attempt.asked.items() if treatment in ("tunnelled", "relayed")
    ]
    if attempt.daemons:
        # It may be the API's own server, which nobody wants to end: one that makes calls for others comes last.
        local = next(filter(is_loopback, unseen), "")
        served = f"--host {local}" if local else "the program's own setting for its base URL"
        if attempt.is_intercepting and not local:
            served = "--host localhost, or --base-url"
        whose = f"if pid {' or '.join(map(str, attempt.daemons))} serves an API"
        return f"{served}, {whose}; a daemon that makes the program's calls has to be started within the run"
    if not attempt.is_intercepting:
        return f"wiretape run -- {program}, without --base-url, which records programs with a URL of their own"
    if "untrusted" in attempt.asked.values():
        return "make the program trust the certificate in SSL_CERT_FILE: it refused wiretape's"
    if unseen:
        advice = "" if any(map(is_loopback, unseen)) else f"; {_LOCAL}"
        return f"--host {unseen[0]}, if that is an API: hosts that are not known to be one pass unseen{advice}"
    if not attempt.connections:
        advice = f"wiretape run --base-url -- {program}, if it has a setting or a variable for its base URL"
        return f"{advice}; {_LOCAL}"
    return "wiretape record, with the base URL of the program's own configuration set to it"


def _listing(names: Sequence[str], thing: str) -> str:
    most = 4
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {counted(more, f'more {thing}')}" if more > 0 else "")
