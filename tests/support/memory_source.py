"""A source that is a list in memory: the third kind, which no command knows of."""

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from wiretape.recorder.decode.causes import Ending
from wiretape.recorder.decode.decoder import Decoded
from wiretape.recorder.decode.exchange import FAILURES, Exchange, Reads
from wiretape.recorder.errors import NotFound
from wiretape.viewer.exchange.opened import Known
from wiretape.viewer.exchange.turn import Turn
from wiretape.viewer.query.syntax import Match
from wiretape.viewer.record import fields as contract
from wiretape.viewer.record import rows
from wiretape.viewer.record.fields import TEXT_FIELDS, field_name
from wiretape.viewer.record.rows import DetailRow, HeadersRow, RequestRow, TableRow
from wiretape.viewer.source.base import (
    ALL,
    Browsed,
    CountTokens,
    Failures,
    Measuring,
    Order,
    Place,
    Recorded,
    Selection,
    Source,
)
from wiretape.viewer.stats import summary
from wiretape.viewer.stats.metrics import QUANTITIES
from wiretape.viewer.stats.prices import Paid
from wiretape.viewer.stats.summary import TOKENS, AnswerEnds, Figures, Sample
from wiretape.viewer.stats.tools.summary import Addend

SILENCES = ("answers", "stalled_answers", "given_up_answers", "last_silence_ms", "silent_end_by", "silent_end_is_quiet")
FIELDS = tuple(dict.fromkeys((
    *contract.FIELDS, *TEXT_FIELDS, "output_chunks", "tps_user", "sparkline", *SILENCES,
)))  # fmt: skip


@dataclass(frozen=True)
class Remembered(Recorded):
    """One exchange, all of it in memory."""

    row: TableRow
    packed: bytes | None
    details: DetailRow
    both_headers: HeadersRow
    asked: RequestRow
    its_reads: list[TableRow]
    data: bytes
    from_client: bytes
    decoded: tuple[Exchange, Reads, Decoded]
    as_turn: Turn
    facts: Known

    @classmethod
    def of(cls, source: Source, number: int) -> "Remembered":
        exchange = source.exchange(number)
        (row,) = source.rows(FIELDS, Selection(None, (number,)))
        return cls(
            row, source.gaps([row["id"]]).get(row["id"]), exchange.worked_out(), exchange.headers(), exchange.request(),
            exchange.reads(), exchange.body(), exchange.sent(), exchange.observed(), exchange.turn(), exchange.known(),
        )  # fmt: skip

    def detail(self) -> DetailRow:
        return self.details

    def worked_out(self) -> DetailRow:
        return self.details

    def headers(self) -> HeadersRow:
        return self.both_headers

    def request(self) -> RequestRow:
        return self.asked

    def reads(self) -> list[TableRow]:
        return self.its_reads

    def body(self) -> bytes:
        return self.data

    def sent(self) -> bytes:
        return self.from_client

    def observed(self) -> tuple[Exchange, Reads, Decoded]:
        return self.decoded

    def turn(self) -> Turn:
        return self.as_turn

    def known(self, *, worked_out: bool = False) -> Known:
        return self.facts


class Memory(Place, Source):
    """Exchanges in a list, oldest first; of filters it knows that of one flag."""

    name, noun = "a list", "list in memory"
    lacks = frozenset({"conversations", "pages"})

    def __init__(self, kept: Sequence[Remembered]) -> None:
        self.kept = kept

    @contextlib.contextmanager
    def opened(self) -> Iterator[Browsed]:
        yield cast(Browsed, self)  # no screen lists it

    def _chosen(self, selection: Selection) -> list[Remembered]:
        flag = selection.filter.patterns[0][0] if isinstance(selection.filter, Match) else None
        assert flag or selection.filter is None
        numbers = range(len(self.kept)) if selection.numbers is None else selection.numbers
        chosen = [self.kept[number] for number in numbers]
        chosen = [remembered for remembered in chosen if flag is None or flag in (remembered.row["flags"] or ())]
        return [
            remembered
            for remembered in chosen
            if not selection.generations or remembered.row["operation"] in ("chat", None)
        ]

    def count(self, selection: Selection = ALL) -> int:
        return len(self._chosen(selection))

    def numbers(self, selection: Selection = ALL, limit: int | None = None) -> list[int]:
        return [self.kept.index(remembered) for remembered in self._chosen(selection)][::-1][:limit]

    def rows(
        self,
        fields: tuple[str, ...],
        selection: Selection = ALL,
        *,
        order: Order | None = None,
        newest_first: bool = False,
        limit: int | None = None,
    ) -> Iterator[TableRow]:
        chosen_exchanges = self._chosen(selection)
        chosen_exchanges = chosen_exchanges[::-1] if newest_first or order else chosen_exchanges
        if order is not None:
            by, descending = order
            chosen_exchanges.sort(key=lambda remembered: remembered.row[by] or 0, reverse=descending)
            chosen_exchanges.sort(key=lambda remembered: remembered.row[by] is None)
        return rows.only([remembered.row for remembered in chosen_exchanges[:limit]], fields)

    def gaps(self, ids: Sequence[str]) -> dict[str, bytes]:
        return {
            remembered.details.id: remembered.packed
            for remembered in self.kept
            if remembered.details.id in ids and remembered.packed is not None
        }

    def find(self, reference: str) -> int:
        if reference == "@":
            return len(self.kept) - 1
        remembered = [number for number, one in enumerate(self.kept) if one.details.id.startswith(reference)]
        if len(remembered) != 1:
            raise NotFound(f"no exchange {reference}")
        return remembered[0]

    def exchange(self, number: int) -> Recorded:
        return self.kept[number]

    def figures(self, keys: Sequence[str], selection: Selection, measuring: Measuring) -> Iterator[Figures]:
        groups: dict[tuple[Any, ...], list[Remembered]] = {}
        for remembered in self._chosen(selection):
            groups.setdefault(tuple(remembered.row[key] for key in keys), []).append(remembered)
        for key in sorted(groups, key=str):
            yield summary.measure(_sample(key, groups[key]), measuring.method, measuring.bounds, measuring.drawn)

    def samples(
        self, selection: Selection, by: Sequence[str] = (), *, include_failed: bool = False, gaps: bool = False
    ) -> list[Sample]:
        return [_sample((), self._chosen(selection))]

    def measured(self, tool: str, selection: Selection, count_tokens: CountTokens | None = None) -> Iterator[Addend]:
        return iter(())

    def left_out(self, selection: Selection) -> dict[str, int]:
        generations = self._chosen(selection.of_generations())
        return dict(
            Counter(
                remembered.row["operation"] for remembered in self._chosen(selection) if remembered not in generations
            )
        )

    def failures(self, selection: Selection) -> list[Failures]:
        failed = Counter(
            remembered.row["outcome"] for remembered in self._chosen(selection) if remembered.row["outcome"] in FAILURES
        )
        return [Failures(outcome, None, None, None, count) for outcome, count in failed.most_common()]

    def endings(self, selection: Selection) -> dict[Ending, int]:
        return Counter(Ending(remembered.row["outcome"]) for remembered in self._chosen(selection))

    def label_keys(self, selection: Selection) -> list[str]:
        return []

    def follow(
        self, fields: tuple[str, ...], selection: Selection, *, last: int, wait: Callable[[], None]
    ) -> Iterator[list[TableRow]]:
        yield list(self.rows(fields, selection))[-last:]


def _sample(key: tuple[Any, ...], kept: Sequence[Remembered]) -> Sample:
    table = [remembered.row for remembered in kept]
    complete = np.array([row["outcome"] == "complete" for row in table], bool)
    names = {name: name for name in TOKENS}
    names |= {
        quantity.name: field_name(quantity.column) for quantity in QUANTITIES.values() if quantity.column is not None
    }
    flags = [set(row["flags"]) if row["outcome"] == "complete" else set() for row in table]
    rates = [row["tps_user"] is not None for row in table]
    gaps = [remembered.packed for remembered in kept if remembered.row["outcome"] == "complete" and remembered.packed]
    starts = [row["started_at"] for row in table]
    return Sample(
        key,
        Counter(row["outcome"] for row in table),
        Counter(row["outcome"] for row in table if 200 <= (row["status"] or 0) < 300),
        complete,
        complete | np.array([(row["output_chunks"] or 0) > 0 for row in table], bool),
        complete,
        {
            name: np.array([np.nan if row[column] is None else row[column] for row in table], float)
            for name, column in names.items()
        },
        np.frombuffer(bytearray().join(gaps), "<i8"),
        min(starts, default=None),
        max(starts, default=None),
        sum("burst" in flag_text and rate for flag_text, rate in zip(flags, rates, strict=True)),
        sum("backpressure" in flag_text for flag_text in flags),
        sum("hidden_tokens" in flag_text and rate for flag_text, rate in zip(flags, rates, strict=True)),
        *(sum(flag in flag_text for flag_text in flags) for flag in ("clock_suspect", "imported", "no_timing")),
        Paid(unknown_n=int(complete.sum())),
        AnswerEnds(
            *(sum(row[name] or 0 for row in table) for name in ("answers", "stalled_answers", "given_up_answers")),
            sum(row["silent_end_by"] is not None for row in table),
        ),
    )
