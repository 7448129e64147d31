"""Fields: the names that a filter may use, each for something that a row has."""

from wiretape.recorder.decode.exchange import FLAGS, OUTCOMES
from wiretape.viewer.query import fields
from wiretape.viewer.record.fields import DETAIL_FIELDS, FIELDS, TEXT_FIELDS

ALIASES = {
    "host": "upstream", "is": "outcome", "detail": "outcome_detail", "finish": "finish_reason", "flag": "flags",
    "ttft": "ttft_ms", "ttf_byte": "ttf_byte_ms", "dur": "duration_ms", "icl.p90": "icl_p90_ms",
    "gap.max": "max_gap_ms", "gap": "gap", "stall": "max_output_silence_ms", "tok.in": "input_tokens",
    "tok.total": "total_tokens", "tps": "tps_user", "at": "started_at", "coalesced": "coalesced_fraction",
    "tokens": "output_tokens",
}  # fmt: skip


def test_every_field_of_the_contract_can_be_filtered_by() -> None:
    assert set(FIELDS) <= set(fields.NAMES)


def test_the_short_names_mean_what_people_expect() -> None:
    assert {name: fields.NAMES[name] for name in ALIASES} == ALIASES


def test_a_gap_is_no_latency_between_chunks() -> None:
    gap_fields = {fields.NAMES[name] for name in fields.NAMES if name.startswith("gap")}
    assert not [name for name in gap_fields if name.startswith("icl")]


def test_every_name_is_a_field_of_a_row() -> None:
    assert set(fields.NAMES.values()) == set(fields.FIELDS)
    field_names = {*FIELDS, *TEXT_FIELDS, *DETAIL_FIELDS, "request_body", "icl"}
    assert {name for field in fields.FIELDS.values() for name in field.rows} <= field_names


def test_failures_are_neither_complete_nor_open_nor_the_clients() -> None:
    assert set(OUTCOMES) - set(fields.FAILURES) == {"complete", "open", "client_closed"}
    assert set(fields.CHOICES["flags"]) == set(FLAGS)


def test_only_nullable_fields_can_be_asked_for_unknown() -> None:
    assert {"ttft_ms", "status", "output_tokens", "prompt", "text"} <= fields.KNOWABLE
    assert fields.KNOWABLE.isdisjoint({"id", "started_at", "upstream", "outcome", "flags", "label", "has", "bytes"})
    assert (fields.having("error"), fields.having("ttft_ms")) == (("error_code", "error_message"), ("ttft_ms",))
