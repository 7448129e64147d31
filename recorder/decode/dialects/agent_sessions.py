"""The dialect of an API whose streams tell the turns of hosted agents' sessions."""

from collections.abc import Callable

from wiretape.recorder.decode import usage_fields
from wiretape.recorder.decode.dialect import Chunk, Dialect, Parse, ReportedError
from wiretape.recorder.decode.effects import SILENT_FLAGS, EventTable, SessionEvent
from wiretape.recorder.decode.exchange import Exchange
from wiretape.recorder.decode.operation import api_asked
from wiretape.recorder.decode.values import JsonObject, text


def dialect(
    api: str, table: EventTable, marks: tuple[str, ...], read: Callable[[str, JsonObject, str], SessionEvent]
) -> Dialect:
    """Return a dialect; `read` reads an event of a type, on the stream at a path.

    Types that begin with `marks` occur on no other wire, so they tell the API at any path.
    """

    def parser(exchange: Exchange) -> Parse:
        is_recognised = False

        def parse(payload: JsonObject, event: str = "message", fault: ReportedError | None = None) -> Chunk | None:
            nonlocal is_recognised
            kind = text(payload.get("type")) or event
            is_recognised = is_recognised or kind.startswith(marks)
            if not is_recognised and not (kind in table.rows and api_asked(exchange) == api):
                return None
            return Chunk(api, event=read(kind, payload, exchange.path), ping=kind == "ping")

        return parse

    return Dialect(
        api=api,
        operation="agent_session",
        parse=lambda payload, event, fault: parser(Exchange())(payload, event, fault),
        tokens=usage_fields.reader(api),
        parser=parser,
        repeats=False,
        silent=SILENT_FLAGS,
        has_turns=True,
    )
