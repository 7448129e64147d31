"""A tape that a test writes to while the viewer looks at it, with any exchanges."""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from tests.support.frames import read
from tests.support.sample_tape import COMPLETE_READS, MS, begin, end, response
from wiretape.recorder.tape import file, journal
from wiretape.recorder.tape.store import Store

Parts = Sequence[tuple[int, bytes]]
STARTED = "2026-03-01T12:00:00.000000Z"
"""When the recorder of such a tape was last heard of."""


class Recorder:
    """Writes exchanges, a commit each."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def record(self, id: str, parts: Parts = COMPLETE_READS, at: int = 0, path: str = "/v1", by: str = "end") -> None:
        """Write an exchange from its beginning to its end."""
        self.begin(id, parts, at, path)
        self.end(id, parts, by)

    def answer(self, id: str, body: bytes, at_ms: int, at: int = 0) -> None:
        """Write an exchange whose answer is no stream."""
        head = journal.Head(
            id=id,
            status=200,
            headers=[(b"content-type", b"application/json")],
            framing="length",
            connected_ns=2 * MS,
            sent_ns=3 * MS,
            headers_ns=at_ms * MS,
        )
        first_read = read(id, 0, at_ms * MS, None, body)
        self.store.append([begin(id, at, b"{}"), head, first_read])
        self.end(id, [(at_ms, body)])

    def begin(
        self, id: str, parts: Parts, at: int = 0, path: str = "/v1", headers: list[tuple[bytes, bytes]] | None = None
    ) -> None:
        """Write an exchange that goes on; `headers` are those of its response."""
        head, *reads = response(id, parts)
        if headers is not None:
            head = msgspec.structs.replace(head, headers=headers)
        self.store.append([begin(id, at, b"{}", path), head, *reads])

    def go_on(self, id: str, parts: Parts, known: int, until: int) -> None:
        """Add more of its reads: those of `parts` from `known` to before `until`."""
        coming = enumerate(parts[known:until], known)
        self.store.append([read(id, seq, at_ms * MS, None, data) for seq, (at_ms, data) in coming])

    def beat(self, wall: str) -> None:
        """Be heard of at a wall time."""
        self.store.append([journal.Heartbeat(wall)])

    def end(self, id: str, parts: Parts, by: str = "end") -> None:
        """End it."""
        self.store.settle(self.store.append([end(id, parts, by)]))


@contextlib.contextmanager
def recorder(path: Path) -> Iterator[Recorder]:
    """Make a tape, or go on with it."""
    with file.writing(path, "a test") as connection:
        store = Store(connection)
        store.begin_session(
            journal.Session(
                path.name, "0", 1, None, "http://127.0.0.1:8377", [("", "https://api.example.com")], STARTED
            )
        )
        yield Recorder(store)
