"""Pure: which upstreams the environment of a command names, and what to set in it so that its calls come here."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from recorder.relay import providers
from recorder.relay.apis import APIS, BY_VARIABLE, Api
from recorder.relay.providers import Upstream

_URL = re.compile(r"(https?://[^/?#]*)(.*)", re.IGNORECASE)
_LAUNCHERS = frozenset(("bun", "bunx", "dlx", "env", "exec", "nice", "node", "npm", "npx", "pnpm", "pnpx", "yarn"))


@dataclass(slots=True)
class Plan:
    """The upstreams to serve, and for each variable to set, the path below the recorder's base URL.

    `left` has the variables that stay as they are although programs read them, and why.
    """

    upstreams: list[Upstream] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)

    @property
    def unreached(self) -> list[str]:
        """The paths of the upstreams that no variable points at."""
        routes = (providers.route(self.upstreams, path.encode()) for path in self.variables.values())
        reached = [route[0] for route in routes if route]
        return [f"/{one.name}" for one in self.upstreams if one not in reached]

    def values(self, base: str) -> dict[str, str]:
        """Return the variables' values for a recorder at `base`."""
        return {name: base + path for name, path in self.variables.items()}


def plan(given: Sequence[Upstream], environ: Mapping[str, str], command: Sequence[str]) -> Plan:
    """Return the plan for a command and its environment; without `given` upstreams, for all well-known APIs.

    A variable that is set already names the upstream for its own API: what it stands for does not change. Then others
    of that API stay unset: a program that reads only those would send its key to where it did not before. Raise
    ValueError, saying which variable is wrong, if one is not set to a URL.
    """
    made = Plan(list(given), providers.sdk_bases("", given))
    for api in () if given else APIS:
        preset = [variable.name for variable in api.variables if environ.get(variable.name)]
        for name in preset:
            _serve_preset(made, api, name, environ[name])
        if api.url and not preset:
            upstream = providers.parse(f"{api.name}={api.url}")
            if variables := providers.sdk_bases("", [upstream]):
                made.upstreams.append(upstream)
                made.variables |= variables
    for name in list(made.variables):
        variable = BY_VARIABLE[name][1]
        programs = variable.listen if environ.get(name) else variable.clashes
        if broken := [program for program in programs if _runs(command, program)]:
            del made.variables[name]
            made.left[name] = f"{broken[0]} does not work with it"
    if not given:
        unreached = made.unreached
        made.upstreams = [one for one in made.upstreams if f"/{one.name}" not in unreached]
    return made


def _serve_preset(made: Plan, api: Api, name: str, value: str) -> None:
    """Serve what a variable points at, with the path that it has: programs may go by that."""
    url, path = _split(name, value)
    serving = next((one for one in made.upstreams if one.name == api.name), None)
    try:
        upstream = providers.make(name.lower() if serving and serving.url != url else api.name, url)
    except ValueError as error:
        raise ValueError(f"{name} is not set to the base URL of an API: correct it, or unset it ({error})") from error
    if api.is_bound_to_host and upstream.api == api.name:
        made.left[name] = "clients sign the host that it names, or go by it"
        return
    if upstream != serving:
        made.upstreams.append(upstream)
    made.variables[name] = f"/{upstream.name}{path}"


def _split(name: str, value: str) -> tuple[str, str]:
    """Return the origin and the rest of a base URL; `OLLAMA_HOST` may lack the scheme, the host and the port."""
    value = value.strip()
    if name == "OLLAMA_HOST" and "://" not in value:
        host, colon, rest = value.partition("/")
        bare = re.fullmatch(r"(.*?)(:\d+)?", host)
        assert bare is not None  # it matches anything
        value = f"http://{bare[1] or '127.0.0.1'}{bare[2] or ':11434'}{colon}{rest}"
    match = _URL.fullmatch(value)
    return (match[1], match[2]) if match else (value, "")


def _runs(command: Sequence[str], program: str) -> bool:
    """Return whether a command runs a program, such as `gemini` or `ollama serve`, directly or by a launcher."""
    words = [PurePath(word).name.partition("@")[0].removesuffix(".js").removesuffix("-cli") for word in command]
    while words and (words[0] in _LAUNCHERS or words[0].startswith("-") or "=" in words[0]):
        words.pop(0)
    return words[: len(program.split())] == program.split()
