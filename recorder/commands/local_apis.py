"""Whether a command of `wiretape run` may call an API of this machine, which only the proxy would see.

Programs have one setting for all servers of this machine: they ask the proxy for them, or connect directly. Asked of a
proxy, a server that is not up yet does not refuse the connection, and programs that wait for it give up. So the proxy
is for this machine only if there is an API to be recorded, as far as a look at the command and at the ports can tell.
"""

import contextlib
import fnmatch
import itertools
import os
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
_LOOPBACK = r"(?:localhost|127(?:\.\d{1,3}){3}|\[?::1\]?)"
_SERVER = re.compile(rf"(?:https?://(?:[^\s/@]*@)?|(?<![\w/@.:-])){_LOOPBACK}:(\d{{1,5}})(/v1\b)?", re.IGNORECASE)
"""A server of this machine with its port; another scheme than HTTP is none of an API."""
_COMPUTED = re.compile(rf"(?<![\w.-]){_LOOPBACK}(?![\w.-]|:\d|/)([^\n/]{{0,99}}(/[\w./:-]*))?", re.IGNORECASE)
"""A name of this machine whose port is computed, with the path behind it: `f"http://localhost:{port}/v1"`."""
# A path behind another host is none of this machine's.
_ELSEWHERE = re.compile(rf"https?://(?!(?:[^\s/@]*@)?{_LOOPBACK}(?![\w.-]))[\w.-]+\S*", re.IGNORECASE)
_PORT = re.compile(r"(?:.*[=:])?(\d{2,5})")
"""A word that is a port, or ends with one: `--port=8001`."""
_SERVES = re.compile(r"\b(?:listen|serve|createServer)\(|HTTPServer\b|\buvicorn\b")
"""A program with a server of its own, which cannot listen before the program runs."""
_PART = re.compile(r"[^\s\"';&|()<>=]+")


def are_called(
    plan: PointingPlan,
    hosts: Sequence[str],
    environ: Mapping[str, str],
    command: Sequence[str],
    usual_ports: Set[int] = _PORTS,
) -> bool:
    """Return True if an API of this machine may be called that no variable of the plan leads here.

    It is named by `--host`, by a variable with TLS, by another variable, or by the command or a script of it together
    with a path of an API or an SDK; or it is at a usual port. It has to listen already, unless the user names it, the
    program computes its port, or has a server of its own.
    """
    patterns = [form for pattern in hosts for form in (pattern.lower(), re.sub(r":[^:]*$", "", pattern.lower()))]
    if any(fnmatch.fnmatchcase(name, pattern) for name in _NAMES for pattern in patterns):
        return True
    if any(upstream.scheme == "https" and is_loopback(upstream.host) for upstream in plan.upstreams):
        return True
    variables = environ.keys() - plan.variables.keys() - set(PROXIES)
    ports = {int(place[1]) for name in variables if "WIRETAPE" not in name for place in _SERVER.finditer(environ[name])}
    text = _ELSEWHERE.sub("", "\n".join(_texts(command)))
    places, computed = list(_SERVER.finditer(text)), list(_COMPUTED.finditer(text))
    words = [part for word in command for part in _PART.findall(word)] + [environ[n] for n in variables if "PORT" in n]
    numbers = {int(number[1]) for number in map(_PORT.fullmatch, words) if number}
    is_api = bool(places or computed or numbers) and _names_api(text)
    if any(_names_api(path) if path else is_api for path in {place[2] for place in computed}):
        return True
    in_command = {int(place[1]) for place in places if place[2] or is_api}
    if in_command and _SERVES.search(text):
        return True
    ports |= in_command | usual_ports | (numbers if is_api else set())
    return not ports.isdisjoint(_listening(ports))


_WORD = re.compile(r"[\w.-]+")
_FILE_BYTES = 256 << 10
_MOST_FILES = 50


def _texts(command: Sequence[str]) -> Iterator[str]:
    """Yield the words of a command, the text of each script in them, and of the files beside it that it names.

    Many programs read variables from `.env`, too.
    """
    yield from command
    modules = [word.replace(".", "/") for option, word in itertools.pairwise(command) if option == "-m"]
    names = [*command, *(part for word in command for part in _PART.findall(word))]
    names += [f"{module}{end}" for module in modules for end in (".py", "/__main__.py")]
    files = list(dict.fromkeys((*names, ".env")))
    for name in files:  # it grows
        try:
            if not paths.is_file(path := Path(name)) or path.stat().st_size > _FILE_BYTES:  # no pipe of `<(…)`
                continue
            yield (text := path.read_text("utf-8"))
            words = {*_WORD.findall(text), *re.findall(r"\w+", text)}
            for beside in map(Path, os.listdir(path.parent)):
                is_named = beside.name in words or (beside.suffix == path.suffix and beside.stem in words)
                if beside.suffix and is_named and len(files) < len(names) + _MOST_FILES:
                    files += [file_beside] if (file_beside := str(path.with_name(beside.name))) not in files else []
        except (OSError, ValueError):  # it names no file, or no text
            continue


_PATH = re.compile(r"/[\w./:-]{1,200}")
_VERSION = re.compile(r"""(?<=["'`\s}])/?v1(?![\w.-])""")
_SDK = re.compile(
    r"""(?:\b(?:import|from|require)\b|--)[\s"'`(@]{0,8}[\w./-]{0,80}?"""
    r"(?:openai|anthropic|litellm|langchain|llama|groq|mistral|cohere|genai|ai-sdk|pydantic_ai|huggingface)",
    re.IGNORECASE,
)


def _names_api(text: str) -> bool:
    """Return True if a text has a path of an API, or names an SDK."""
    from wiretape.recorder.decode.dialects import registry  # with all dialects, which most runs do not need

    if _VERSION.search(f" {text}") or _SDK.search(text):
        return True
    return any(registry.is_posted_to(path) for path in dict.fromkeys(_PATH.findall(text)))


def _listening(ports: Set[int]) -> Set[int]:
    """Return the ports of this machine at which something listens, perhaps among others."""
    if process.HAS_PROC:
        return process.listening_ports()
    open_ports = set[int]()
    for port in ports:
        with (
            contextlib.suppress(OSError, OverflowError),
            socket.create_connection(("127.0.0.1", port), 0.1),
        ):
            open_ports.add(port)
    return open_ports
