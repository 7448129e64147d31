"""Destinations of a tape, by their addresses, which hold no credential: command lines end up in logs. Pure.

A recorder knows no more of them. The kinds belong to wings of the viewer, which `configure` names here: the recorder
imports none.
"""

import ipaddress
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

TENANT: Final = "tenant"
"""The label that keeps tenants apart."""
COLLECTOR: Final = "otlp+"
"""Prefix of a collector's URL where other kinds of destination are possible."""


class Destination(ABC):
    """A place that a tape is shipped to."""

    noun: str = "server"
    """The kind of place in messages."""
    purpose: str = "ships the tape"
    """The purpose of the process that ships to it."""
    own_option: str = ""
    """The option of `record` that names it instead of `--ship`."""
    takes_bodies: bool = True
    sink: str
    """`module:attribute` of the function that opens the sink of a destination, with the `Shipping` options."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The destination in a few words, without credentials, different for each: names the progress of shipping."""

    @property
    def shown(self) -> str:
        """The name for people."""
        return self.name

    @property
    def line(self) -> str:
        """The line that a recorder prints at its start."""
        return f"ship        {self.shown}"

    def check(self, headers_file: Path | None = None) -> None:
        """Raise `WiretapeError` or `click.UsageError` if this machine cannot ship to it."""
        return

    @abstractmethod
    def arguments(self, labels: Mapping[str, str], since_version: int) -> Iterator[str]:
        """Yield the arguments of `wiretape ship` beside a recorder whose first exchange settles after a version."""


def _unknown(address: str) -> Destination:
    raise ValueError("this installation ships to no other place")


_parse: Callable[[str], Destination] = _unknown
_prefixes: tuple[str, ...] = ()


def configure(parse: Callable[[str], Destination], sources: Sequence[str]) -> None:
    """Set the parser of destinations, which raises `ValueError`, and the prefixes of addresses that are no tapes."""
    global _parse, _prefixes
    _parse, _prefixes = parse, tuple(prefix.rstrip("/") for prefix in sources)


def parse(address: str) -> Destination:
    """Parse the address of any destination. Raises `ValueError`; its message never holds a credential."""
    return _parse(address)


def names_server(text: str) -> bool:
    """Return True if a text is the address of a server, not the path of a tape."""
    return text.startswith(_prefixes)


def is_loopback(host: str) -> bool:
    """Return True if a host, as a URL writes it, is this machine itself."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"
