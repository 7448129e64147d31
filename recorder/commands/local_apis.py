"""Whether a command of `wiretape run` may call an API of this machine, which only the proxy would see.

Programs have one setting for all servers of this machine: they ask the proxy for them, or connect directly. Asked of a
proxy, a server that is not up yet does not refuse the connection, and programs that wait for it give up. So the proxy
is for this machine only if there is an API to be recorded, as far as a look at the command and at the ports can tell.
"""

import contextlib
import fnmatch
import re
import socket
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path

from wiretape.recorder import paths, process
from wiretape.recorder.destinations import is_loopback
from wiretape.recorder.relay.environment import PROXIES
from wiretape.recorder.relay.pointing import PointingPlan

_NAMES = ("localhost", "127.0.0.1", "::1")
EXCLUDED = (*_NAMES, "127.0.0.0/8")
"""This machine's names for `NO_PROXY`, in which some programs take no network."""
_PORTS = frozenset((11434, 8000, 1234, 8080, 30000))
"""Ports by default of Ollama, vLLM, LM Studio, llama.cpp and SGLang."""
_URL = re.compile(r"https?://(?:localhost|127(?:\.\d{1,3}){3}|\[::1\]):(\d{1,5})(/v1\b)?", re.IGNORECASE)
_PATH = re.compile(r"/[\w./:-]{1,200}")
_FILE_BYTES = 1 << 20
_CONNECT_SECONDS = 0.1


def are_called(
    plan: PointingPlan,
    hosts: Sequence[str],
    environ: Mapping[str, str],
    command: Sequence[str],
    usual_ports: Set[int] = _PORTS,
) -> bool:
    """Return True if an API of this machine may be called that no variable of the plan leads here.

    It is named by `--host`, by a variable with TLS, by another variable, or by the command or a script of it together
    with a path of an API; or it is at a usual port. It has to listen already, unless the user names it.
    """
    patterns = [form for pattern in hosts for form in (pattern.lower(), re.sub(r":[^:]*$", "", pattern.lower()))]
    if any(fnmatch.fnmatchcase(name, pattern) for name in _NAMES for pattern in patterns):
        return True
    if any(one.scheme == "https" and is_loopback(one.host) for one in plan.upstreams):
        return True
    others = environ.keys() - plan.variables.keys() - set(PROXIES)
    texts = " ".join(_texts(command))
    named = {int(url[1]) for name in others if "WIRETAPE" not in name for url in _URL.finditer(environ[name])}
    in_command = list(_URL.finditer(texts))
    if any(url[2] for url in in_command) or (in_command and _has_path_of_api(texts)):
        named |= {int(url[1]) for url in in_command}
    ports = named | usual_ports
    return not ports.isdisjoint(_listening(ports))


def _texts(command: Sequence[str]) -> Iterator[str]:
    """Yield the words of a command, and the text of each script among them."""
    for word in command:
        yield word
        try:
            if paths.is_file(path := Path(word)) and path.stat().st_size <= _FILE_BYTES:  # no pipe of `<(…)`
                yield path.read_text("utf-8")
        except (OSError, ValueError):  # it names no file, or no text
            continue


def _has_path_of_api(text: str) -> bool:
    from wiretape.recorder.decode.dialects import registry  # with all dialects, which most runs do not need

    return any(registry.is_posted_to(path) for path in dict.fromkeys(_PATH.findall(text)))


def _listening(ports: Set[int]) -> Set[int]:
    """Return the ports of this machine at which something listens, perhaps among others."""
    if process.HAS_PROC:
        return process.listening_ports()
    open_ports = set[int]()
    for port in ports:
        with (
            contextlib.suppress(OSError, OverflowError),
            socket.create_connection(("127.0.0.1", port), _CONNECT_SECONDS),
        ):
            open_ports.add(port)
    return open_ports
