"""The audio of turns as a WAV file of PCM with 16 bits, which every player reads; G.711 is decoded for it.

`wave` of the standard library writes PCM only. Samples of G.711 (ITU-T G.711, µ-law and A-law) become the 16 bits that
they stand for, so nothing is lost.
"""

import wave
from collections.abc import Iterable, Sequence
from typing import BinaryIO, Final, NamedTuple

import numpy as np

from wiretape.recorder.decode import turns
from wiretape.recorder.decode.audio import AudioFormat, Encoding
from wiretape.recorder.decode.decoder import Decoded
from wiretape.recorder.decode.dialects import gemini_live, openai_realtime

_READERS: Final = {openai_realtime.API: openai_realtime.audio_in, gemini_live.API: gemini_live.audio_in}


class Sound(NamedTuple):
    """Audio of an answer: when it came, in ns since T0 if that is known, its format, and its bytes."""

    at_ns: int | None
    format: AudioFormat
    data: bytes


def sounds(decoded: Decoded, turn: int | None = None) -> list[Sound]:
    """Return the audio of one turn, or of all, in the order of arrival; without that of an unknown format.

    Raises `ValueError` if there is no such turn.
    """
    drafts = turns.by_start(decoded.drafts)
    if turn is not None and not 1 <= turn <= len(drafts):
        raise ValueError(f"there is no turn {turn}: it has {len(drafts)}")
    chosen = drafts if turn is None else drafts[turn - 1 : turn]
    decode_item = _READERS.get(decoded.api or "")
    items = sorted((item, draft.format) for draft in chosen for item, _ in draft.audio if draft.format is not None)
    if decode_item is None:
        return []
    return [
        Sound(decoded.at_ns[item], format, decode_item(decoded.data[decoded.starts[item] : decoded.ends[item]]))
        for item, format in items
    ]


def pcm(sound: Sound) -> bytes:
    """Return audio as PCM with 16 bits, little-endian."""
    if sound.format.encoding == "pcm16":
        return sound.data
    return _TABLES[sound.format.encoding][np.frombuffer(sound.data, np.uint8)].tobytes()


def write(out: BinaryIO, sounds: Sequence[Sound]) -> int:
    """Write audio as one WAV file; return the number of its samples. Raises `ValueError` if it has several rates."""
    rates = sorted({sound.format.rate for sound in sounds})
    if len(rates) > 1:
        raise ValueError(f"its turns have audio of {' and '.join(map(str, rates))} samples per second: choose --turn N")
    with wave.open(out, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rates[0])
        file.writeframes(b"".join(map(pcm, sounds)))
        return file.getnframes()


def _ulaw(codes: Iterable[int]) -> "np.ndarray[tuple[int], np.dtype[np.int16]]":
    inverted = np.array(list(codes)) ^ 0xFF  # all bits are inverted on the line; 0x84 is the bias, 33 in 14 bits
    magnitude = (((inverted & 0x0F) << 3) + 0x84 << ((inverted & 0x70) >> 4)) - 0x84
    return np.where(inverted & 0x80, -magnitude, magnitude).astype("<i2")


def _alaw(codes: Iterable[int]) -> "np.ndarray[tuple[int], np.dtype[np.int16]]":
    # A sign, three bits of an exponent and four of a mantissa; every other bit is inverted on the line.
    toggled = np.array(list(codes)) ^ 0x55
    exponent, mantissa = (toggled & 0x70) >> 4, ((toggled & 0x0F) << 4) + 8
    magnitude = np.where(exponent > 0, (mantissa + 0x100) << np.maximum(exponent - 1, 0), mantissa)
    return np.where(toggled & 0x80, magnitude, -magnitude).astype("<i2")


_TABLES: Final[dict[Encoding, "np.ndarray[tuple[int], np.dtype[np.int16]]"]] = {
    "g711_ulaw": _ulaw(range(256)),
    "g711_alaw": _alaw(range(256)),
}
"""The samples of G.711 by their bytes."""
