"""Pure: the rules for stalls and bursts, and their thresholds.

An answer is *awaited* from its request to the end of waiting: the event that ends the stream in good order, an error
event, or else the end of the exchange. A silence of output lasts from one read with output to the next, or from the
last one to the end of waiting; the first one, from the request to the first output, is a silence of its own, and the
time of a tool that the provider runs is none. A *stall* is a later silence above the threshold, whatever ended it, or
the whole time of an answer without any output.

The tape's flags are raised with the default thresholds when an exchange is stored. Verdicts, accounts, lists, markers
of a recording and the screens apply the same functions, with the user's thresholds if there are any.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from itertools import accumulate, compress, starmap
from operator import ne, sub
from typing import Any, Final, Literal, NamedTuple

_ALL: Final = "Lists, filters and --format json use the flags on the tape, set by the default limits."


def _threshold(default: object, meaning: str, sign: str, most: float = 1e9) -> Any:
    return field(default=default, metadata={"doc": meaning, "sign": sign, "most": most})


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The limits for a stall, and for a burst; each field's metadata has its meaning."""

    stall_ms: float = _threshold(2000.0, "Limit of silences without output; a longer one is a stall.", "MS")
    burst_chunks: int = _threshold(20, "Minimum number of output chunks in a burst.", "N")
    burst_share: float = _threshold(
        0.8, "A burst has this share of its output chunks in --burst-reads reads, …", "SHARE", 1
    )
    burst_reads: int = _threshold(2, "Number of reads for --burst-share.", "N")
    burst_window: float = _threshold(0.05, f"… or all of them within this share of the latency. {_ALL}", "SHARE", 1)

    @property
    def stall_ns(self) -> int:
        return round(self.stall_ms * 1_000_000)

    def is_stall(self, silence_ns: int | None) -> bool:
        """Return True if a stream stalled whose longest later silence by output is this."""
        return silence_ns is not None and silence_ns > self.stall_ns

    def is_burst(self, at_ns: Sequence[int], reads: Sequence[Hashable]) -> bool:
        """Return True if output chunks with these timestamps, brought by these reads, came in a burst."""
        if len(at_ns) < max(self.burst_chunks, 1):
            return False
        together = sum(times for _, times in Counter(reads).most_common(self.burst_reads))
        in_a_flash = at_ns[-1] - at_ns[0] < self.burst_window * at_ns[-1]
        return together >= self.burst_share * len(at_ns) or in_a_flash

    @property
    def stall_meaning(self) -> str:
        """The rule for a stall, in words."""
        return (
            f"more than {self.stall_ms / 1000:g} s without output: between two reads with output, from the last one to "
            "the end of the stream, whatever ended it, or all the time of a stream without any"
        )

    @property
    def burst_meaning(self) -> str:
        """The rule for a burst, in words."""
        share, window = f"{100 * self.burst_share:g} %", f"{100 * self.burst_window:g} %"
        return (
            f"{self.burst_chunks} or more output chunks, {share} of them in {self.burst_reads} reads"
            f" or all within {window} of the latency"
        )


LIMITS: Final = {limit.name: limit for limit in fields(Thresholds)}
"""The fields of `Thresholds` by name."""

DEFAULT: Final = Thresholds()
"""The thresholds by which the tape's flags are raised."""


def is_held_by_compression(chunk_count: int, read_count: int, flush_count: int | None) -> bool:
    """Return True if a compressor held output chunks back that came in fewer reads.

    `flush_count`: how often it was flushed, None without one. A flushed compressor holds nothing back: then the chunks
    were together before it, or came together on the way.
    """
    is_coalesced = 2 * (chunk_count - read_count) >= chunk_count > 1
    return is_coalesced and flush_count is not None and 2 * flush_count < read_count


def output_gaps(at_ns: Sequence[int], reads: Sequence[Hashable]) -> Iterator[tuple[int, int]]:
    """Return the gaps between reads with output: for each, the number of the output chunk that ended it, and its ns.

    The output chunks have these timestamps and were brought by these reads; chunks of one read have no gap.
    """
    return compress(enumerate(map(sub, at_ns[1:], at_ns), 1), map(ne, reads[1:], reads))


Span = tuple[int, int]
"""The beginning and the end of a time, in ns."""

Who = Literal["upstream", "relay", "client"]
"""The parties that can be silent, or slow."""

Ending = Literal["good", "dead", "left", "limit"]
"""The end of a stream: complete; in a silence, or failed; left by its client, or by the recorder, while it was alive;
or at a limit of the recorder's own."""


@dataclass(frozen=True, slots=True)
class AwaitedAnswer:
    """An answer from its request to the end of waiting, in ns since T0.

    `outputs` are the timestamps of its output, in order; `tools` the times in which a tool of the provider ran.
    `end_ns` is None if it is unknown. `can_end_stalled` is False where its last silence is no stall however long it is:
    an error status answered at last, or the recorder died. `is_pending`: the end of the exchange ended it.
    `is_decoded` is False of a stream whose output is unknown. `ending` is None where that of the exchange decides.
    """

    start_ns: int
    end_ns: int | None
    outputs: Sequence[int] = ()
    tools: Sequence[Span] = ()
    can_end_stalled: bool = True
    is_pending: bool = False
    is_decoded: bool = True
    ending: Ending | None = None

    @property
    def first_ns(self) -> int | None:
        """The first silence: to the first output, or without any to the end."""
        end_ns = self.outputs[0] if self.outputs else self.end_ns
        return None if end_ns is None else end_ns - self.start_ns

    @property
    def last(self) -> Span | None:
        """The silence at the end of the answer, its first one if there was no output; None if it is unknown."""
        if self.end_ns is None:
            return None
        return self.silence(self.outputs[-1] if self.outputs else self.start_ns, self.end_ns)

    @property
    def longest_ns(self) -> int | None:
        """The longest later silence, or None without output."""
        if not self.tools:  # nearly always
            return max(map(sub, self._ends(), self.outputs), default=None)
        return max((to_ns - from_ns for from_ns, to_ns in self.later()), default=None)

    def silence(self, from_ns: int, to_ns: int) -> Span:
        """Return the longest part of a time without output in which no tool of the provider ran."""
        return without_tools(from_ns, to_ns, self.tools)

    def stalls(self, limits: Thresholds = DEFAULT) -> list[Span]:
        """Return its stalls in their order."""
        if self.outputs and not limits.is_stall(self.longest_ns):
            return []
        spans = [*self.later()] if self.outputs else [silence for silence in (self.last,) if silence is not None]
        if self.end_ns is not None and not self.can_end_stalled:
            spans.pop()
        return [span for span in spans if limits.is_stall(span[1] - span[0])]

    def later(self) -> Iterable[Span]:
        """Return the silences behind its first output; those of tools are cut out."""
        spans = zip(self.outputs, self._ends(), strict=False)
        return starmap(self.silence, spans) if self.tools else spans

    def _ends(self) -> Sequence[int]:
        """Return the ends of the silences behind its first output."""
        return self.outputs[1:] if self.end_ns is None else (*self.outputs[1:], self.end_ns)


Layer = Literal["bytes", "events", "output"]
LAYERS: Final[tuple[Layer, ...]] = ("bytes", "events", "output")
LATER: Final = 8
"""The bit of a later silence in a record of the tape's; those of `LAYERS` are 1, 2 and 4."""
OWNERS: Final[tuple[Who | None, ...]] = (None, "upstream", "client", "relay")
"""The owners of silences, by their numbers in a record; None is unclear."""
ENDINGS: Final[tuple[Ending, ...]] = ("good", "dead", "left", "limit")
"""The endings of streams, by their numbers in a record."""


class Silence(NamedTuple):
    """A silence since T0 of its exchange, and its owner, None if it is unclear."""

    from_ns: int
    lasted_ns: int
    who: Who | None


# Not frozen, though nothing changes one: a writer makes one for each stream.
@dataclass(slots=True)
class StreamSilences:
    """The silences of one stream: on each of `LAYERS` the first one, None if it is unknown, and the later rising ones.

    `first_event_ns` is the time from its request to its first event.
    """

    stream: AwaitedAnswer
    first: Sequence[Silence | None]
    later: Sequence[Sequence[Silence]]
    first_event_ns: int | None

    def first_ns(self, layer: Layer) -> int | None:
        silence = self.first[LAYERS.index(layer)]
        return None if silence is None else silence.lasted_ns

    def longest_ns(self, layer: Layer) -> int | None:
        """Return the longest later silence of a layer, of any owner."""
        return max((silence.lasted_ns for silence in self.later[LAYERS.index(layer)]), default=None)


def without_tools(from_ns: int, to_ns: int, tools: Sequence[Span]) -> Span:
    """Return the longest part of a time in which no tool of the provider ran."""
    longest, at_ns = (from_ns, from_ns), from_ns
    for began_ns, ended_ns in (*tools, (to_ns, to_ns)):
        if at_ns <= began_ns <= to_ns:
            longest = max(longest, (at_ns, began_ns), key=lambda span: span[1] - span[0])
            at_ns = max(ended_ns, at_ns)
    return longest


def stalls_among(
    gaps: Sequence[int],
    first_ns: int | None,
    last_ns: int | None,
    last_silence_ns: int | None = None,
    tools: Sequence[Span] = (),
    limits: Thresholds = DEFAULT,
) -> Iterator[Span]:
    """Yield the begin and end of each stall of an answer, by the values that a tape keeps of it.

    `gaps` are those between its outputs, needed only if one is a stall; the first output came at `first_ns`, the last
    one at `last_ns`. The silence in which it ended lasted `last_silence_ns`. The `tools` of the provider ran meanwhile.
    """
    if first_ns is not None and gaps:
        yield from AwaitedAnswer(0, None, [*accumulate(gaps, initial=first_ns)], tools).stalls(limits)
    if last_silence_ns is not None and limits.is_stall(last_silence_ns):
        from_ns = max(last_ns or 0, tools[-1][1] if tools else 0)
        yield from_ns, from_ns + last_silence_ns
