"""One module for each framing: bytes in, records with their byte ranges out."""

from typing import NamedTuple


class Record(NamedTuple):
    """One payload and its byte range; `type` is the event type where the framing has one.

    `broken` means that it cannot be trusted or read, as where a checksum is wrong.
    """

    start: int
    end: int
    type: str
    data: str
    broken: bool = False
