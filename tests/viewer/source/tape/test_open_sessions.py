"""Running streams of hosted sessions: their turns are linked before they end, and no stall is between two of them."""

from contextlib import closing
from pathlib import Path

from tests.support.hosted_sessions import CLAUDE_STREAM, idle, message, posted, running, said, stream
from tests.support.sample_tape import SESSION
from wiretape.recorder.tape import file, reader
from wiretape.recorder.tape.store import Store
from wiretape.viewer.source.tape import live


def test_a_running_streams_turns_begin_with_their_requests(tmp_path: Path) -> None:
    tape = tmp_path / "t.db"
    told = [(20, running("r1")), (40, message("m1", "one")), (50, idle("i1"))]
    request, told_by = posted("bbbb00000000000b", 10, said("A")), stream("aaaa00000000000a", 0, told, CLAUDE_STREAM)
    with file.writing(tape, "a test") as connection:
        store = Store(connection)
        store.begin_session(SESSION)
        store.settle(store.append([*[*told_by.frames()][:-1], *request.frames()]))
        with closing(reader.connect(tape, 0)) as driver:
            measures = live.figures(reader.Connection(driver, path=tape), 1)
    (turn,) = measures.turns or ()
    assert (turn["started_at_ns"], turn["begun_by_id"], measures.ttft_ns) == (10_000_000, request.id, 30_000_000)
    assert "stall" not in measures.flags
