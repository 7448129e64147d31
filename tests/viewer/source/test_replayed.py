"""The rows of exchanges that a replay reads."""

from contextlib import closing
from pathlib import Path

from wiretape.recorder.demo import synthetic
from wiretape.recorder.tape import file, retention
from wiretape.viewer.source.replayed import ReplaySource


def test_requests_come_in_ordered_groups_with_deleted_ones_unknown(tmp_path: Path) -> None:
    tape = tmp_path / "t.db"
    with file.writing(tape, "test") as connection:
        assert sum(1 for _ in synthetic.fill(connection, 450, 2, 1))
    with closing(ReplaySource(tape)) as source:
        heads = source.newer()[::-1]
        with file.writing(tape, "test") as writing:
            assert sum(retention.erase(writing, [heads[300].id])) == 1
        bodies = list(source.request_bodies(heads))
        deleted = [no for no, (head, body) in enumerate(zip(heads, bodies, strict=True)) if body is None]
        assert deleted == [300]
        assert all(str(head.model).encode() in body for head, body in zip(heads, bodies, strict=True) if body)
