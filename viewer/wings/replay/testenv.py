"""Pure: the environment variables that point the SDKs in a test to a server of recordings.

Unlike `run`, which leaves a variable alone if programs might misread it, all variables of an API are set: a test that
is answered from a tape must not reach the API by another one.
"""

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from wiretape.recorder.relay.apis import APIS, BY_NAME
from wiretape.recorder.relay.environment import BYPASSES, PROXIES
from wiretape.viewer.text.curl import KEYS

KEY: Final = "wiretape-needs-no-key"
"""A placeholder for a key: no API gets it."""


def variables(base: str, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the base URLs for a server at `base`; a variable for which programs expect different paths keeps its own.

    Such a variable is set only where it is set already.
    """
    values = {}
    for api in APIS:
        for variable in api.variables:
            preset = environ.get(variable.name)
            if variable.path is not None:
                values[variable.name] = f"{base}/{api.name}{variable.path}"
            elif preset:
                values[variable.name] = f"{base}/{api.name}{_path(preset)}"
    return values


def _path(url: str) -> str:
    try:
        return urlsplit(url).path
    except ValueError:
        return ""


def base_url(base: str, api: str, variables: Mapping[str, str]) -> str:
    """Return the base URL that the SDK of an API expects. Raise ValueError for an API that is not known by name.

    It is the value of the API's first variable, of those that are set.
    """
    if api not in BY_NAME:
        raise ValueError(f"{api!r} is no API known by name: see 'wiretape help upstreams'")
    values = [variables[variable.name] for variable in BY_NAME[api].variables if variable.name in variables]
    return values[0] if values else f"{base}/{api}"


def key_of(path: str) -> str | None:
    """Return the variable of the key for the API at a path; None if it is not known."""
    api = BY_NAME.get(path.split("/")[1]) if path.startswith("/") else None
    hosts = api.hosts if api else ()
    return next((name for domain, name in KEYS for host in hosts if f".{host}".endswith(f".{domain}")), None)


def keys(environ: Mapping[str, str]) -> dict[str, str]:
    """Return stand-ins for the keys that are not set, without which SDKs refuse to start."""
    names = [name for _, name in KEYS if name.endswith("_API_KEY")]
    other_names = {"GEMINI_API_KEY": "GOOGLE_API_KEY"}  # Google's SDK warns where both are set
    return {name: KEY for name in names if not environ.get(name) and not environ.get(other_names.get(name, ""))}


_CREDENTIAL: Final = re.compile(
    r"(\w+_)?(API_?KEYS?|API_TOKEN|AD_TOKEN|AUTH_TOKEN|OAUTH_TOKEN)(_\d+)?|AWS_(SESSION_TOKEN|BEARER_TOKEN_BEDROCK)",
    re.IGNORECASE,
)


def placeholders(environ: Mapping[str, str]) -> dict[str, str]:
    """Return stand-ins for all keys of APIs, also those that are set: no program gets one that it could send."""
    names = {name for _, name in KEYS if name != "GEMINI_API_KEY" or not environ.get("GOOGLE_API_KEY")}
    names |= {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", *filter(_CREDENTIAL.fullmatch, environ)}
    return dict.fromkeys(names, KEY)


def bypasses(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that exempt this machine from a proxy, if one is set."""
    if not any(environ.get(name) for name in PROXIES):
        return {}
    return {name: ",".join(filter(None, (environ.get(name), "127.0.0.1", "localhost"))) for name in BYPASSES}
