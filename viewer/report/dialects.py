"""Pure: recorded streams decoded by declarations on trial, and the list of declared dialects."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from wiretape.recorder.decode.declared.compiler import DeclaredDialect
from wiretape.recorder.decode.decoder import Decoded, decode
from wiretape.recorder.decode.derive import derive
from wiretape.recorder.decode.dialects import registry
from wiretape.recorder.decode.exchange import Exchange, Reads
from wiretape.recorder.decode.metrics import Measures
from wiretape.recorder.plurals import counted
from wiretape.recorder.sanitize import clipped, safe
from wiretape.viewer.exchange import events
from wiretape.viewer.exchange.clocks import Times
from wiretape.viewer.exchange.transcript import Transcript
from wiretape.viewer.record import fields, units
from wiretape.viewer.record.rows import TableRow
from wiretape.viewer.text import formatting

TRIED: Final = (
    "api", "dialect_version", "operation", "outcome", "outcome_detail", "error_code", "error_message", "finish_reason",
    "response_model", "response_id", "input_tokens", "output_tokens", "total_tokens", "ttft_ns", "latency_ns",
    "duration_ns", "events", "chunks", "output_chunks", "content", "reasoning", "tool_calls", "attributes", "flags",
)  # fmt: skip
"""The measures that a trial shows, as the tape names them."""
LISTED: Final = ("name", "version", "operation", "source")


@dataclass(frozen=True, slots=True)
class Trial:
    """A recorded stream, decoded by some declarations; `ignored` are their keys without a meaning."""

    decoded: Decoded
    measures: Measures
    ignored: tuple[str, ...]

    @property
    def is_recognised(self) -> bool:
        return self.measures.dialect_version is not None


def trial(exchange: Exchange, reads: Reads, body: bytes, declarations: Sequence[dict[str, Any]]) -> Trial:
    """Decode and measure an exchange anew by these declarations, and collect the keys that they ignore."""
    facts = replace(exchange, dialects=json.dumps(declarations))
    decoded = decode(facts, reads, body)
    dialects = [
        dialect
        for dialect in registry.declared(facts.dialects)
        if any(dialect.declaration == declaration for declaration in declarations)
    ]
    ignored = (f"{dialect.api}.{'.'.join(map(str, key))}" for dialect in dialects for key in dialect.ignored)
    return Trial(decoded, derive(facts, reads, body, decoded), tuple(ignored))


def row(trial: Trial) -> TableRow:
    values = {name: getattr(trial.measures, name) for name in TRIED}
    values = {
        fields.field_name(name): units.ms(value) if name.endswith("_ns") else value for name, value in values.items()
    }
    return values | {"flags": list(trial.measures.flags), "ignored": list(trial.ignored)}


def lines(trial: Trial, most: int) -> Iterator[str]:
    """Yield the first events with their kinds and meanings, then the measures, each safe for a terminal."""
    transcript = Transcript(trial.decoded)
    yield from events.lines(transcript, Times(), range(min(most, len(transcript))))
    if len(transcript) > most:
        yield f"… and {counted(len(transcript) - most, 'more event')}"
    yield ""
    for name, value in row(trial).items():
        if value not in (None, [], {}):
            figure = formatting.ms(value) if name.endswith("_ms") else value
            text = figure if isinstance(figure, str) else json.dumps(figure, ensure_ascii=False)
            yield f"{name:<16} {safe(clipped(text, 300))}"


def dialect_rows(dialects: Sequence[DeclaredDialect], configured: Sequence[str]) -> Iterator[TableRow]:
    """Yield a row of `LISTED` for each dialect; `configured` are the names of those of the configuration."""
    for dialect in dialects:
        source = "configuration" if dialect.api in configured else "wiretape"
        yield {"name": dialect.api, "version": dialect.version, "operation": dialect.operation, "source": source}
