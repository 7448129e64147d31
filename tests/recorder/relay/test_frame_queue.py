"""The queue of a relay's journal frames until they are acknowledged."""

from collections.abc import Iterator

from tests.support.frames import Source, begin, end
from wiretape.recorder.clock import SYSTEM
from wiretape.recorder.relay.frame_queue import FrameQueue
from wiretape.recorder.tape import journal


def decoded(data: bytes) -> Iterator[journal.Frame]:
    return (frame for _, frame in journal.decode(bytearray(data)))


def test_a_frames_reads_precede_its_other_entries_by_source() -> None:
    queue, one, other = FrameQueue(SYSTEM), Source("e1"), Source("e2")
    queue.put(end("e1", []))
    for source, at, data in [(one, 1, b"a"), (other, 2, b"b"), (one, 3, b"c")]:
        queue.put_read(source, at, at, data, len(data))
    queue.encode()

    reads, final = decoded(queue.take_piece())
    assert isinstance(reads, journal.SocketReads)
    assert [(run.id, run.at_ns, data) for run, data in reads.parts()] == [("e1", [1, 3], b"ac"), ("e2", [2], b"b")]
    assert isinstance(final, journal.End)


def test_another_writer_gets_all_frames_that_are_not_acknowledged() -> None:
    queue = FrameQueue(SYSTEM)
    for id in ("e1", "e2", "e3"):
        queue.put(begin(id))
        queue.encode()
    queue.take_piece()
    assert queue.is_sent
    assert [frame.begins for frame in queue.acknowledge(1)] == [1]

    queue.send_again()
    assert [frame.id for frame in decoded(queue.take_piece()) if isinstance(frame, journal.Begin)] == ["e2", "e3"]
    assert queue.is_sent


def test_the_size_counts_all_that_is_not_acknowledged() -> None:
    queue, source = FrameQueue(SYSTEM), Source("e1")
    queue.put_read(source, 1, 1, b"abc", 3)
    assert queue.size == 3
    queue.encode()
    assert queue.size == len(queue.take_piece())
    queue.clear()
    assert (queue.size, len(queue), queue.oldest_at) == (0, 0, None)


def test_a_large_body_gets_a_frame_and_a_piece() -> None:
    queue, source = FrameQueue(SYSTEM), Source("e1")
    queue.put_read(source, 1, 1, b"a", 1)
    queue.encode()
    queue.put_read(source, 2, 2, bytes(1 << 20), 1 << 20)  # fills the frame
    queue.encode()
    assert len(queue) == 2
    assert len(queue.take_piece()) < 100
    assert len(queue.take_piece()) > 1 << 20
