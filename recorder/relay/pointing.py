"""Pure: the upstreams that a command's environment names, and the variables that send its calls here."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from wiretape.recorder.relay import providers
from wiretape.recorder.relay.apis import APIS, BY_VARIABLE, Api, program_of
from wiretape.recorder.relay.providers import Upstream


@dataclass(slots=True)
class PointingPlan:
    """The upstreams to serve, and for each variable to set, the path below the recorder's base URL.

    `left` has the variables that stay unchanged although programs read them, with reasons; `is_given`: the user chose
    the upstreams.
    """

    upstreams: list[Upstream] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)
    is_given: bool = False

    @property
    def unreached(self) -> list[str]:
        """The paths of the upstreams that no variable points at."""
        routes = (providers.route(self.upstreams, path.encode()) for path in self.variables.values())
        reached = [route[0] for route in routes if route]
        return [f"/{upstream.name}" for upstream in self.upstreams if upstream not in reached]

    def values(self, base: str) -> dict[str, str]:
        """Return the variables' values for a recorder at `base`."""
        return {name: base + path for name, path in self.variables.items()}


def plan(upstreams: Sequence[Upstream], environ: Mapping[str, str], command: Sequence[str]) -> PointingPlan:
    """Return the plan for a command behind a forward proxy: its variables stay as they are, but those for plain HTTP.

    Many clients ask no proxy for a server of plain HTTP, such as a local model: a variable that names one is pointed at
    the recorder. One that names a host with TLS is left, and its host is an upstream. The variables of `upstreams`
    upstreams are set.
    """
    pointing = PointingPlan(list(upstreams), providers.sdk_bases("", upstreams), is_given=bool(upstreams))
    for api in () if upstreams else APIS:
        preset = [variable.name for variable in api.variables if environ.get(variable.name)]
        for name in preset:
            _keep_preset(pointing, api, name, environ[name])
        if api.url and not preset:
            pointing.upstreams.append(providers.parse(f"{api.name}={api.url}"))
    program = program_of(command)
    for name in program.needs if program and not upstreams else ():
        upstream = providers.parse(f"{BY_VARIABLE[name][0].name}={BY_VARIABLE[name][0].url}")
        if upstream in pointing.upstreams:  # no variable names another server
            pointing.variables[name] = providers.sdk_bases("", [upstream])[name]
    _reject(pointing, environ, command)
    return pointing


def plan_base_urls(upstreams: Sequence[Upstream], environ: Mapping[str, str], command: Sequence[str]) -> PointingPlan:
    """Return the plan for a command without a forward proxy; without `upstreams` upstreams, for all well-known APIs.

    A variable that is set already names the upstream for its own API, so that its meaning does not change. Then others
    of that API stay unset: a program that reads only those would send its key to a new place. Raise ValueError, which
    names the variable, if one is not set to a URL.
    """
    pointing = PointingPlan(list(upstreams), providers.sdk_bases("", upstreams), is_given=bool(upstreams))
    for api in () if upstreams else APIS:
        preset = [variable.name for variable in api.variables if environ.get(variable.name)]
        for name in preset:
            _serve_preset(pointing, api, name, environ[name])
        if api.url and not preset:
            upstream = providers.parse(f"{api.name}={api.url}")
            if variables := providers.sdk_bases("", [upstream]):
                pointing.upstreams.append(upstream)
                pointing.variables |= variables
    _reject(pointing, environ, command)
    if not upstreams:
        unreached = pointing.unreached
        pointing.upstreams = [server for server in pointing.upstreams if f"/{server.name}" not in unreached]
    return pointing


def _reject(plan: PointingPlan, environ: Mapping[str, str], command: Sequence[str]) -> None:
    """Remove the variables that break a command's program."""
    program = program_of(command)
    for name in list(plan.variables):
        if program and program.rejects(name, is_set=bool(environ.get(name))):
            del plan.variables[name]
            plan.left[name] = f"{program.words} does not work with it: {program.reason}"


def _keep_preset(plan: PointingPlan, api: Api, name: str, value: str) -> None:
    """Keep a variable, unless it names a server that speaks plain HTTP."""
    try:
        upstream = providers.make(name.lower(), _split(name, value)[0])
    except ValueError:
        plan.left[name] = "it names no server that can be recorded"
        return
    if upstream.scheme == "http":
        _serve_preset(plan, api, name, value)
    else:  # without user info, which the program sends by itself
        plan.upstreams.append(providers.make(upstream.name, f"https://{upstream.authority.decode()}"))


def _serve_preset(plan: PointingPlan, api: Api, name: str, value: str) -> None:
    """Serve the URL of a variable, and keep its path: programs may depend on it."""
    url, path = _split(name, value)
    serving = next((server for server in plan.upstreams if server.name == api.name), None)
    try:
        upstream = providers.make(name.lower() if serving and serving.url != url else api.name, url)
    except ValueError as error:
        raise ValueError(f"{name} is not set to the base URL of an API: correct it, or unset it ({error})") from error
    if api.is_bound_to_host and upstream.api == api.name:
        plan.left[name] = "clients sign the host that it names, or go by it"
        return
    if upstream != serving:
        plan.upstreams.append(upstream)
    plan.variables[name] = f"/{upstream.name}{path}"


_URL = re.compile(r"(https?://[^/?#]*)(.*)", re.IGNORECASE)


def _split(name: str, value: str) -> tuple[str, str]:
    """Return the origin and the rest of a base URL; `OLLAMA_HOST` may lack the scheme, the host and the port."""
    value = value.strip()
    if name == "OLLAMA_HOST" and "://" not in value:
        host, colon, path = value.partition("/")
        bare = re.fullmatch(r"(.*?)(:\d+)?", host)
        assert bare is not None  # it matches anything
        value = f"http://{bare[1] or '127.0.0.1'}{bare[2] or ':11434'}{colon}{path}"
    match = _URL.fullmatch(value)
    return (match[1], match[2]) if match else (value, "")
