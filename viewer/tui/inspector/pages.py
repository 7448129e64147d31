"""The inspector's panes that are pages, its copies and its exports."""

import asyncio
import functools
from bisect import bisect_left, bisect_right
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from rich.style import Style
from textual.message import Message

from wiretape.recorder.sanitize import clipped
from wiretape.viewer.exchange import conversation, plain
from wiretape.viewer.exchange.conversation import Folding
from wiretape.viewer.exchange.facts import Line
from wiretape.viewer.exchange.opened import Known, OpenedExchange
from wiretape.viewer.exchange.pages import request as request_lines
from wiretape.viewer.exchange.transcript import Transcript
from wiretape.viewer.exchange.turn import Turn
from wiretape.viewer.source.base import Place
from wiretape.viewer.text import curl, formatting
from wiretape.viewer.text.paged import WrappedPage
from wiretape.viewer.tui.base.paint import Part
from wiretape.viewer.tui.dialogs import offers
from wiretape.viewer.tui.dialogs.offers import Copy, Later
from wiretape.viewer.tui.widgets.pane import Pane

Decoding = Callable[[], Awaitable[OpenedExchange]]
"""Waits for the decoded exchange."""

LONGEST_COPY: Final = 100_000
"""A longer text is offered for copying with the command that prints it, since a clipboard may not take it."""


class PagePane(Pane):
    """Shows lines; the last piece of a line is wrapped below itself."""

    def __init__(self, id: str) -> None:
        super().__init__(id=id)
        self._make: Callable[[int], Iterable[Line]] = lambda _: ()
        self._sources: tuple[object, ...] = ()
        self._page, self._match_row = WrappedPage(), -1

    def show(self, make: Callable[[int], Iterable[Line]], *sources: object) -> None:
        """Show the lines of `make` for the pane's width, unless they were made from the same `sources` before."""
        if not sources or sources != self._sources:
            self._make, self._sources = make, sources
            self._lay_out()

    def on_resize(self) -> None:
        self._lay_out()

    def line(self, number: int) -> Iterable[Part]:
        return [(" ", None), *((piece, self.look(tone)) for piece, tone in self._page.rows[number])]

    def behind(self, number: int) -> Style:
        return self.look("lit" if number == self._match_row else "ground")

    def find(self, words: str, *, back: bool) -> str:
        """Show the next row with some words, or the one before, round the end. Return its place of how many, or ""."""
        rows = self._page.matches(words)
        if not rows:
            return ""
        place = (bisect_left(rows, self._match_row) - 1 if back else bisect_right(rows, self._match_row)) % len(rows)
        self._match_row = rows[place]
        self.reveal(self._match_row, 2)
        self.redraw()
        return f"{place + 1} / {len(rows)}"

    def _lay_out(self) -> None:
        width = self.size.width - 3
        if width <= 0:
            return
        self._page, self._match_row = WrappedPage(self._make(width), width), -1
        self.set_lines(len(self._page.rows))
        self.redraw()


class RequestPane(PagePane):
    """Shows the request message by message or, by the user's choice and if it has no messages, as it was sent."""

    class TurnWanted(Message):
        """The request has to be read, to be shown message by message."""

    def __init__(self) -> None:
        super().__init__("request")
        self._facts: Known | None = None
        self._turn: Turn | None = None
        self._turn_state: tuple[object, ...] = ()
        self._is_folded, self._match = True, ""
        self._choice: bool | None = None

    @property
    def turn(self) -> Turn | None:
        """The request, if it is shown message by message."""
        return None if self.is_as_sent else self._turn

    @property
    def is_as_sent(self) -> bool:
        if self._choice is not None:
            return self._choice
        return self._turn is not None and not (self._turn.content.prompt and self._turn.content.prompt.messages)

    @property
    def heading(self) -> str:
        """The title above the pane, with the place of the words that were found."""
        return f"request · {'as sent' if self.is_as_sent else 'messages (v: as sent)'}{self._match}"

    def show_facts(self, facts: Known) -> None:
        self._facts = facts
        self._write()

    def show_turn(self, turn: Turn) -> None:
        self._turn = turn
        self._write()

    def want_turn(self) -> None:
        """Ask for the reading of the request, and again when more of it is known."""
        if self._facts is None:
            return
        row, request = self._facts.row, self._facts.request
        if (state := (request.size, row.outcome, row.content, row.tool_calls)) != self._turn_state:
            self._turn_state = state
            self.post_message(self.TurnWanted())

    def fold(self) -> None:
        """Fold the messages, or unfold them."""
        self._is_folded, self._match = not self._is_folded, ""
        self._write()

    def cycle(self) -> None:
        """Show the request in the next view."""
        self._choice, self._match = not self.is_as_sent, ""
        self._write()

    def find(self, words: str, *, back: bool) -> str:
        """Show the next place of some words in the request, which is unfolded for that."""
        if self._is_folded and not self.is_as_sent:
            self.fold()
        place = super().find(words, back=back)
        self._match = place and f" · {words}: {place}"
        return place

    def _write(self) -> None:
        facts, turn = self._facts, self._turn
        if facts is None:
            return
        if self.is_as_sent:
            self.show(lambda _: request_lines(facts), facts)
        elif turn is None:
            self.show(lambda _: [[("reading …", "muted")]])
        else:
            remedy = "r shows it" * self._is_folded
            self.show(lambda width: conversation.lines(turn, Folding(width, remedy), "3 shows it"), turn, remedy)


def copies(place: Place, facts: Known, exchange: OpenedExchange | None, decoded: Decoding, position: int) -> list[Copy]:
    """Return the texts to copy as (label, text): the id, equivalent commands, the texts, the event."""
    row, command = facts.row, functools.partial(offers.part_command, place, facts.row.id)
    verb = "show" if place.supports("bodies") else "view"
    copies: list[Copy] = [("id", row.id), ("command", offers.command(place, verb, row.id))]
    texts = [("text", row.content), ("reasoning", row.reasoning), ("request body", facts.request.text)]
    for call in (row.tool_calls or [])[:20]:
        texts.append((f"arguments of {clipped(formatting.line(call['name']), 24)}", call["arguments"]))
    copies += [(label, _short_or_later(text, command(label))) for label, text in texts if text]
    # Made once it is chosen: a menu must not wait for a body of megabytes.
    curled = _later("its request, as a command", lambda: curl.of(facts.request), command("curl"))
    copies.append(("curl", curled))
    if row.outcome == "open":
        copies.append(("text", _of_transcript("the text so far", decoded, plain.answer, command("text"))))
    body = _of_transcript("the answer, as it came", decoded, plain.body, command("body"))
    copies.append(("body", body))
    if exchange is not None and 0 < position <= len(exchange.transcript):
        copies.append(
            (f"event #{position - 1}", _short_or_later(plain.event(exchange.transcript, position), body.command))
        )
        copies.append(("place", offers.command(place, "view", row.id, "--at", f"#{position - 1}")))
    return copies


def _of_transcript(label: str, decoded: Decoding, text: Callable[[Transcript], str], instead: str) -> Later:
    """Return a text that is made of the transcript once it is chosen and decoded."""

    async def read() -> str:
        exchange = await decoded()
        return await asyncio.to_thread(text, exchange.transcript)

    return Later(label, read, instead)


def _later(label: str, make: Callable[[], str], command: str) -> Later:
    """Return a text that is made in a thread once it is chosen."""
    return Later(label, functools.partial(asyncio.to_thread, make), command)


def _short_or_later(text: str, command: str) -> str | Later:
    return text if len(text) <= LONGEST_COPY else _later(text[:200], lambda: text, command)


def exports(tape: Place, id: str) -> list[tuple[str, list[str]]]:
    exported = offers.arguments(tape, "export", id)
    tables = [(f"its {table}", [*exported, "--table", table]) for table in ("chunks", "reads", "texts")]
    formats = [("bytes", "sse"), ("HAR", "har"), ("asciicast", "asciicast"), ("GIF", "gif"), ("page", "html")]
    full_page = ("page with text and bodies", [*exported, "--format", "html", "--with-bodies"])
    return [("its row", exported), *tables, *((name, [*exported, "--format", of]) for name, of in formats), full_page]
