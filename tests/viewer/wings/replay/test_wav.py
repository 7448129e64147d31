"""The audio of turns is a WAV file, or samples in time; G.711 becomes the samples that it stands for."""

import base64
import json
import wave
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import run
from tests.support.frames import opened, record, websocket
from tests.support.websockets import Spoken, session, side
from wiretape.recorder.decode.audio import AudioFormat
from wiretape.recorder.decode.decoder import decode
from wiretape.viewer.exchange import events
from wiretape.viewer.exchange.transcript import Transcript
from wiretape.viewer.wings.replay import wav
from wiretape.viewer.wings.replay.wav import Sound

PATH = "/v1/realtime?model=m"
LIVE = "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent?key=REDACTED"
FIRST, SECOND = bytes(range(200)), bytes(range(100, 250))


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def answer(id: str, *sounds: bytes) -> list[dict[str, Any]]:
    return [
        {"type": "response.created", "response": {"id": id}},
        *({"type": "response.output_audio.delta", "response_id": id, "delta": b64(sound)} for sound in sounds),
        {"type": "response.done", "response": {"id": id, "status": "completed"}},
    ]


@pytest.fixture
def spoken(tmp_path: Path) -> Path:
    """A tape of two turns with audio."""
    upstream, client = side(), side(client=True)
    messages = [*answer("r1", FIRST[:100], FIRST[100:]), *answer("r2", SECOND)]
    sent = [bytes(client.send_data('{"type":"response.create"}'))]
    with opened(tape := tmp_path / "tape.db") as store:
        pieces = [bytes(upstream.send_data(json.dumps(message))) for message in messages]
        record(store, websocket("0123456789abcdef", pieces, sent, PATH))
    return tape


@pytest.mark.parametrize(
    ("options", "expected"), [((), FIRST + SECOND), (("--turn", "1"), FIRST), (("--turn", "2"), SECOND)]
)
def test_the_audio_of_turns_is_a_wav_file(spoken: Path, options: tuple[str, ...], expected: bytes) -> None:
    file = spoken.parent / "turn.wav"
    assert "s of audio" in run(spoken, "play", "@", "--as", "audio", *options, "-o", str(file)).stderr
    with wave.open(str(file)) as wave_file:
        assert (wave_file.getnchannels(), wave_file.getsampwidth(), wave_file.getframerate()) == (1, 2, 24_000)
        assert wave_file.readframes(wave_file.getnframes()) == expected


def test_without_a_file_the_samples_are_written_in_time(spoken: Path) -> None:
    assert run(spoken, "play", "--as", "audio", "--turn", "2").stdout_bytes == SECOND


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--as", "audio", "--turn", "3", "-o", "x.wav"), "there is no turn 3: it has 2"),
        (("--as", "audio", "--turn", "3"), "there is no turn 3: it has 2"),
        (("--turn", "1"), "add --as audio"),
        (("--as", "audio", "-o", "x.wav", "--from", "1s"), "choose parts of it by --turn"),
    ],
)
def test_options_that_do_not_fit_are_refused(spoken: Path, arguments: tuple[str, ...], message: str) -> None:
    assert message in run(spoken, "play", "@", *arguments, code=2).stderr


def test_an_exchange_without_audio_writes_no_file(tape: Path, tmp_path: Path) -> None:
    file = tmp_path / "none.wav"
    assert "has no audio" in str(run(tape, "play", "@", "--as", "audio", "-o", str(file), code=1).exception)
    assert not file.exists()


@pytest.mark.parametrize(
    ("encoding", "codes", "samples"),
    [
        ("g711_ulaw", (0x00, 0x80, 0x7F, 0xFF, 0x0F, 0xEF), (-32124, 32124, 0, 0, -16764, 132)),
        ("g711_alaw", (0x55, 0xD5, 0x2A, 0xAA, 0x54, 0x80), (-8, 8, -32256, 32256, -24, 5504)),
    ],
)
def test_g711_becomes_the_samples_that_it_stands_for(encoding: Any, codes: Any, samples: Any) -> None:
    made = wav.pcm(Sound(0, AudioFormat(encoding, 8000), bytes(codes)))
    assert [int.from_bytes(made[at : at + 2], "little", signed=True) for at in range(0, len(made), 2)] == [*samples]


@pytest.mark.parametrize(
    ("path", "messages"),
    [
        (
            PATH,
            [
                (5, "client", {"type": "input_audio_buffer.append", "audio": b64(bytes(4800))}),
                (10, "server", answer("r1")[0]),
                (20, "server", answer("r1", bytes(2400))[1]),
            ],
        ),
        (
            LIVE,
            [
                (5, "client", {"realtimeInput": {"audio": {"data": b64(bytes(3200)), "mimeType": "audio/pcm"}}}),
                (10, "server", {"setupComplete": {}}),
                (
                    20,
                    "bytes",
                    {"serverContent": {"modelTurn": {"parts": [
                        {"inlineData": {"mimeType": "audio/pcm;rate=24000", "data": b64(bytes(2400))}}
                    ]}}},
                ),
            ],
        ),
    ],
)  # fmt: skip
def test_audio_of_both_sides_is_shown_by_its_length(path: str, messages: list[Spoken]) -> None:
    transcript = Transcript(decode(*session(path, messages)))
    size = 4800 if path == PATH else 3200
    assert events.summary(transcript, 0) == f"(100 ms of audio, {size:,} bytes)"
    assert events.summary(transcript, 2) == "(50 ms of audio, 2,400 bytes)"
    assert [transcript.kind(event) for event in (0, 2)] == ["sent", "content"]
