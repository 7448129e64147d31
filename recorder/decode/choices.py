"""Choices that are one: Foundry Local and older servers number `choices[].index` by chunk, not by choice."""

from dataclasses import replace
from itertools import pairwise

import msgspec

from wiretape.recorder.decode.dialects import chat, completions
from wiretape.recorder.decode.runs import ItemRun


class _Request(msgspec.Struct):
    n: int | None = None


def merge(runs: list[ItemRun], request: bytes | None) -> None:
    """Make one choice of those whose indexes count up by chunk, unless the request asks for several.

    Of several choices, each would end: only the last chunk has a finish reason.
    """
    if not any([piece.index for run in runs for piece in run.chunk.pieces]):
        return  # as nearly always
    numbered = [run for run in runs if run.chunk.api in (chat.API, completions.API) and run.chunk.pieces]
    if not numbered:
        return
    indexes = [run.chunk.pieces[0].index for run in numbered for _ in run.texts]
    reasons = [piece.finish_reason for run in numbered[:-1] for piece in run.chunk.pieces]
    is_one_each = all([len(run.chunk.pieces) == 1 for run in numbered])
    if not is_one_each or any(reasons) or indexes != sorted(indexes):
        return
    try:
        choice_count = msgspec.json.decode(request or b"", type=_Request).n or 1
    except (msgspec.MsgspecError, ValueError, RecursionError):
        choice_count = None  # the request is not known
    # Two indexes that count up may well be two choices.
    is_strict = len(indexes) >= 3 and all([previous < index for previous, index in pairwise(indexes)])
    if choice_count == 1 or (choice_count is None and is_strict):
        for run in numbered:
            run.chunk = replace(run.chunk, pieces=(replace(run.chunk.pieces[0], index=0),))
