"""An event taken apart."""

import pytest
from sqlalchemy import Connection

from viewer import queries
from viewer.model import raw_tree
from viewer.model.transcript import Transcript

from ..conftest import COMPLETE, LIMITED


@pytest.fixture
def transcript(connection: Connection) -> Transcript:
    return Transcript(queries.decoded(connection, queries.find(connection, COMPLETE)))


def test_the_event_comes_first_and_then_its_lines_and_values(transcript: Transcript) -> None:
    nodes = raw_tree.of(transcript, 1)
    assert nodes[0].shown.startswith("(read 1, bytes ")
    assert [(node.depth, node.label, node.shown) for node in nodes[1:]] == [
        (1, "data", "object"), (2, "id", '"r1"'), (2, "object", '"chat.completion.chunk"'),
        (2, "model", '"gpt-x-mini"'), (2, "choices", "array"), (3, "[0]", "object"), (4, "index", "0"),
        (4, "delta", "object"), (5, "content", '"Hel"'), (4, "finish_reason", "null"),
    ]  # fmt: skip


def test_each_part_has_its_bytes(transcript: Transcript) -> None:
    said = next(node for node in raw_tree.of(transcript, 1) if node.label == "content")
    assert transcript.data[said.start : said.end] == b'"Hel"'


def test_comments_and_what_is_no_event_are_taken_apart_too(transcript: Transcript, connection: Connection) -> None:
    assert [(node.label, node.shown) for node in raw_tree.of(transcript, 2)][1:] == [("comment", "keep-alive")]
    limited = Transcript(queries.decoded(connection, queries.find(connection, LIMITED)))
    nodes = raw_tree.of(limited, 0)
    assert nodes[0].shown.startswith("(no read known")
    assert [node.label for node in nodes][1:4] == ["(no field)", "error", "message"]
