"""Pure: formats of audio in messages, and how long it plays.

Audio comes as base64 in JSON. The formats here have a fixed number of bytes per second: PCM with 16 bits a sample, and
G.711, one channel each. Of any other format, the duration is unknown.
"""

import base64
import binascii
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from wiretape.recorder.decode.values import text

Encoding = Literal["pcm16", "g711_ulaw", "g711_alaw"]

_NAMES: Final[dict[str, Encoding]] = {
    "audio/pcm": "pcm16",
    "audio/l16": "pcm16",
    "pcm16": "pcm16",
    "audio/pcmu": "g711_ulaw",
    "g711_ulaw": "g711_ulaw",
    "audio/pcma": "g711_alaw",
    "g711_alaw": "g711_alaw",
}
_RATE: Final = re.compile(r";\s*rate\s*=\s*(\d{1,7})\s*(?:;|$)", re.IGNORECASE)
_PCM_RATE: Final = 24_000
"""Samples per second of PCM where a message names no rate: the output of OpenAI's Realtime and of Gemini Live."""


@dataclass(frozen=True, slots=True)
class AudioFormat:
    """The encoding of samples, and their number per second."""

    encoding: Encoding
    rate: int

    @property
    def sample_bytes(self) -> int:
        return 2 if self.encoding == "pcm16" else 1

    def duration_ns(self, size: int) -> int:
        return size * 1_000_000_000 // (self.rate * self.sample_bytes)

    def __str__(self) -> str:
        return f"{self.encoding}/{self.rate}"


class AudioPart(NamedTuple):
    """The audio in one message: its bytes, and its format, None if that is unknown."""

    size: int
    format: AudioFormat | None

    @property
    def duration_ns(self) -> int | None:
        """Its duration in ns; None if its format is unknown."""
        return None if self.format is None else self.format.duration_ns(self.size)


def format_named(name: object, rate: object = None, default: int = _PCM_RATE) -> AudioFormat | None:
    """Return the format with a name, or with a media type and its parameters; None if it is unknown.

    PCM has the `default` rate where the media type names none.
    """
    kind = text(name)
    encoding = _NAMES.get(kind.partition(";")[0].strip().lower())
    if encoding is None:
        return None
    if encoding != "pcm16":
        return AudioFormat(encoding, 8_000)  # G.711 has no other rate (RFC 3551)
    rate_parameter = _RATE.search(kind)
    hertz = rate if type(rate) is int else int(rate_parameter[1]) if rate_parameter else default
    return AudioFormat(encoding, hertz) if 0 < hertz <= 1_000_000 else None


def size_of(encoded: str) -> int:
    """Return the number of bytes that a base64 text stands for."""
    return len(encoded.rstrip("=")) * 3 // 4


def bytes_of(encoded: str) -> bytes:
    """Return the bytes that a base64 text stands for; none if it is broken."""
    try:
        return base64.b64decode(encoded)
    except (binascii.Error, ValueError):
        return b""


def underrun_ns(pieces: Iterable[tuple[int, int]]) -> int:
    """Return the silence that a listener hears, in ns, if audio plays from its first piece on in real time.

    `pieces` are the timestamps and the durations of the audio, in the order of its arrival.
    """
    silence, played_until = 0, None
    for at_ns, duration_ns in pieces:
        if played_until is None:
            played_until = at_ns
        silence += max(at_ns - played_until, 0)
        played_until = max(at_ns, played_until) + duration_ns
    return silence
