"""Pure: the stream of a hosted agent's session: its turns, and the output that each of its chunks brings."""

from collections.abc import Sequence
from dataclasses import replace

from wiretape.recorder.decode import usage_fields
from wiretape.recorder.decode.agent_turns import AgentTurn, Output, OutputKind, TurnMachine, thread_at
from wiretape.recorder.decode.dialect import Piece, ReportedError, ToolPiece
from wiretape.recorder.decode.effects import Effect
from wiretape.recorder.decode.exchange import Exchange
from wiretape.recorder.decode.runs import ItemRun
from wiretape.recorder.decode.turns import ResponseTurn


def settle(runs: Sequence[ItemRun], exchange: Exchange) -> tuple[list[ResponseTurn], list[AgentTurn]]:
    """Make the chunks of a stream carry the output of its turns; return these, and the turns of all sub-agents.

    The answer is that of the stream's own thread, each of its turns a choice.
    """
    machine = TurnMachine()
    for run in runs:
        if run.chunk.event is not None:
            machine.take(run.item, run.chunk.event)
    drafts, thread = machine.finish(), thread_at(exchange.path)
    turns = [turn for turn in drafts if turn.thread == thread]
    if exchange.method == "POST" and turns:  # the request that created the session asked for its first turn
        turns[0].start_ns, turns[0].begun_by, turns[0].is_begin_known = 0, "create", True
    set_chunks(runs, turns, machine.fault)
    return list(map(response, turns)), drafts


def response(turn: AgentTurn) -> ResponseTurn:
    """Return the place of a turn in its stream."""
    return ResponseTurn(
        turn.start,
        turn.first,
        turn.end,
        start_ns=turn.start_ns,
        tools=[*turn.tool_spans, *turn.waits],
        is_begin_known=turn.is_begin_known,
    )


def set_chunks(runs: Sequence[ItemRun], turns: Sequence[AgentTurn], fault: tuple[int, Effect] | None = None) -> None:
    """Make the chunks of a stream carry the output of turns, and an error outside of all turns if there is none."""
    pieces: dict[int, list[tuple[OutputKind | None, Piece]]] = {}
    for number, turn in enumerate(turns):
        for output in turn.outputs:
            pieces.setdefault(output.mark, []).append((output.kind, _piece(number, output)))
        if turn.end is not None:
            pieces.setdefault(turn.end, []).append((None, Piece(number, finish_reason=turn.finish_reason)))
    ends = {turn.end: turn for turn in turns}
    faults = {turn.end: ReportedError(turn.error, turn.error_message) for turn in turns if turn.outcome == "error"}
    if not turns and fault is not None:
        mark, error = fault
        faults[mark] = ReportedError(error.code, error.message)
    # The usage of a part of the turns would pass for that of all.
    is_counted = all(turn.usages or turn.is_begun_elsewhere for turn in turns if turn.end is not None)
    usage = usage_fields.summed(*(usage for turn in turns for usage in turn.usages)) if is_counted else {}
    unknown_count, last = 0, max((index for index, run in enumerate(runs) if run.chunk.event), default=-1)
    for index, run in enumerate(runs):
        event = run.chunk.event
        if event is None:
            continue
        unknown_count += not event.is_known
        added = pieces.pop(run.item, [])
        kinds = {kind for kind, _ in added}
        run.chunk = replace(
            run.chunk,
            id=(turns[0].id or run.chunk.id) if turns and run.item == turns[0].first else "",
            model=event.model or run.chunk.model,
            pieces=tuple(piece for _, piece in added),
            content="content" in kinds,
            reasoning="reasoning" in kinds,
            tool="tool" in kinds,
            fault=faults.pop(run.item, None),
            ends=run.item in ends,
            usage=(usage or None) if index == last else None,
            attributes=(("unknown_events", unknown_count),)
            if unknown_count and index == last
            else run.chunk.attributes,
            finals=(),
        )


def _piece(number: int, output: Output) -> Piece:
    if output.kind == "tool":
        return Piece(number, tools=(ToolPiece(None, output.call, output.name, output.text),))
    is_content = output.kind == "content"
    return Piece(number, content=output.text if is_content else "", reasoning="" if is_content else output.text)
