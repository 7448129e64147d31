"""`wiretape run` under a running recorder: the marker in its commands' environment, and its effect on a new run."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from wiretape.recorder import paths
from wiretape.recorder.process import boot_id, is_gone
from wiretape.recorder.relay import providers
from wiretape.recorder.relay.apis import BY_NAME, BY_VARIABLE
from wiretape.recorder.relay.pointing import PointingPlan
from wiretape.recorder.relay.providers import Upstream

VARIABLE = "WIRETAPE_RECORDING"
_CERTIFICATES = "/wiretape-ca-"
"""Part of the paths of `wiretape.recorder.relay.environment`'s files; importing that would be slow."""
_JAVA = "JAVA_TOOL_OPTIONS"


@dataclass(frozen=True, slots=True)
class OuterRecorder:
    """The recorder of a command: its process, its base URL, its tape.

    `apis` names those that it relays to at their own URL; `intercepts` is True for a forward proxy, `replays` for one
    that answers from the tape.
    """

    pid: int
    boot: str | None
    base: str
    tape: str
    apis: list[str]
    intercepts: bool = False
    replays: bool = False

    @property
    def is_alive(self) -> bool:
        """True if the recorder still runs on this machine."""
        return self.boot == boot_id() and not is_gone(self.pid, self.boot)


def mark(
    pid: int, base: str, tape: Path, plan: PointingPlan, *, intercepts: bool = False, replays: bool = False
) -> dict[str, str]:
    """Return the variable that names the recorder to a command."""
    import msgspec

    names = [
        upstream.name
        for upstream in plan.upstreams
        if upstream.name in BY_NAME and upstream.url == BY_NAME[upstream.name].url
    ]
    marker = OuterRecorder(pid, boot_id(), base, paths.text(paths.real(tape)), names, intercepts, replays)
    return {VARIABLE: msgspec.json.encode(marker).decode()}


def read(environ: Mapping[str, str]) -> OuterRecorder | None:
    """Return the mark of the environment; None if it has none, or one that cannot be read."""
    if VARIABLE not in environ:
        return None
    import msgspec

    try:
        return msgspec.json.decode(environ[VARIABLE], type=OuterRecorder)
    except msgspec.DecodeError:
        return None


_JAVA_ADDED = re.compile(rf' ?-Djavax\.net\.ssl\.trustStore=("[^"]*|[^\s"]*){_CERTIFICATES}.*')
"""Options for Java that went with a recorder: they stand behind the user's own."""


def without(environ: Mapping[str, str], marker: OuterRecorder) -> dict[str, str]:
    """Return the environment without the recorder's variables that replaced an API's own URL.

    The former value of any other variable is lost: it stays if it points at a running recorder. Raise ValueError if
    that recorder has ended.
    """
    variables = {name: value for name, value in environ.items() if not _is_left(name, value, marker)}
    if java := _JAVA_ADDED.sub("", environ.get(_JAVA, "")):
        variables[_JAVA] = java
    for name, path in pointed_at(variables, marker.base).items():
        if path.strip("/").partition("/")[0] in marker.apis:
            del variables[name]
        elif not marker.is_alive:
            raise ValueError(f"{name} points at a wiretape that has ended: set it to its API's URL, or unset it")
    return variables


def pointed_at(environ: Mapping[str, str], base: str) -> dict[str, str]:
    """Return the variables of APIs that point at a recorder, and the path of each below the recorder's base URL."""
    paths = {name: environ[name].removeprefix(base) for name in BY_VARIABLE.keys() & environ.keys()}
    return {name: path for name, path in paths.items() if path != environ[name] and path[:1] in ("", "/")}


def resolved(environ: Mapping[str, str], base: str, upstreams: Sequence[Upstream]) -> dict[str, str]:
    """Return the environment with the URLs of a recorder's upstreams in place of the recorder's.

    So a run on the tape of a recorder that `wiretape env` points at records each exchange once. A variable stays if its
    upstream has credentials, which are not on the tape.
    """
    routes = {name: providers.route(upstreams, path.encode()) for name, path in pointed_at(environ, base).items()}
    upstream_routes = {name: route for name, route in routes.items() if route and route[0].authorization is None}
    return {
        **environ,
        **{name: f"{upstream.url}{path_below.decode()}" for name, (upstream, path_below) in upstream_routes.items()},
    }


_PROXIES = frozenset(("http_proxy", "https_proxy", "all_proxy"))


def _is_left(name: str, value: str, marker: OuterRecorder) -> bool:
    """Return True if a variable names the recorder as a proxy, or certificates that went with a recorder."""
    if _CERTIFICATES in value:
        return not paths.exists(value)
    return name.lower() in _PROXIES and urlsplit(value).netloc.rpartition("@")[2] == urlsplit(marker.base).netloc
