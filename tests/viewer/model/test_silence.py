"""For how long nothing has come."""

import pytest

from recorder.decode.stalls import Thresholds
from viewer.model.silence import Silence, silence

MS = 1_000_000


@pytest.mark.parametrize(
    ("passed", "last", "told"),
    [
        (1_000, 600, None),
        (1_100, 600, "silent for 0.5 s"),
        (2_500, 600, "silent for 1.9 s"),
        (1_900, None, "waiting for 1.9 s"),
        (400, None, None),
    ],
)
def test_a_silence_is_told_from_half_a_second_on(passed: int, last: int | None, told: str | None) -> None:
    found = silence(passed * MS, None if last is None else last * MS, Thresholds())
    assert (None if found is None else str(found)) == told


def test_from_the_limit_on_it_is_a_stall() -> None:
    assert silence(2_601 * MS, 600 * MS, Thresholds()) == Silence(2_001 * MS, stalled=True)
    assert silence(2_600 * MS, 600 * MS, Thresholds()) == Silence(2_000 * MS)
