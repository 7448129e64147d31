"""Reading what the commands of analysis are given."""

from pathlib import Path

import click
import pytest

from viewer.commands import measuring


def test_groups_are_names_separated_by_commas_each_once() -> None:
    assert measuring.keys_of("model, label.run-1,model") == ("model", "label.run-1")
    assert measuring.keys_of(None) == ()


@pytest.mark.parametrize("text", ["colour", "", "model,", "label.", 'label."x"', "label.a b"])
def test_what_is_no_group_is_a_usage_error(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"choose from .*label\.KEY") as raised:
        measuring.keys_of(text)
    assert raised.value.param_hint == "--by"


def test_the_closest_group_and_quantity_are_offered_first() -> None:
    with pytest.raises(click.BadParameter, match="choose from model, "):
        measuring.keys_of("modl")
    with pytest.raises(click.BadParameter, match="choose from ttft, "):
        measuring.quantity_of("tft")


def test_an_objective_and_a_quantity_are_read() -> None:
    assert [bound.limit for bound in measuring.bounds_of("ttft<1s,tps>5")] == [1000, 5]
    assert measuring.bounds_of(None) == []
    assert measuring.quantity_of("icl").column is None
    with pytest.raises(click.BadParameter, match="not a bound"):
        measuring.bounds_of("fast")
    with pytest.raises(click.BadParameter, match="choose from ttft"):
        measuring.quantity_of("fast")


def test_rules_of_a_file_come_before_those_of_the_command_line(tmp_path: Path) -> None:
    file = tmp_path / "rules.toml"
    file.write_text('slo = "ttft<1s"\n[min]\nn = 3\n')
    rules, slo = measuring.rules_of(file, ["ttft.p50=1s"], ["tps.p50=5"])
    assert ([rule.text for rule in rules], slo) == (["min n=3", "max ttft.p50=1s", "min tps.p50=5"], "ttft<1s")
    assert measuring.rules_of(None, [], []) == ([], None)


@pytest.mark.parametrize("document", [b"[max", b"\xff", b"[max]\nx = 1"])
def test_a_file_that_cannot_be_read_is_a_usage_error(tmp_path: Path, document: bytes) -> None:
    file = tmp_path / "rules.toml"
    file.write_bytes(document)
    with pytest.raises(click.BadParameter) as raised:
        measuring.rules_of(file, [], [])
    assert raised.value.param_hint == "--rules"


def test_a_rule_that_cannot_be_read_names_its_option() -> None:
    with pytest.raises(click.BadParameter) as raised:
        measuring.rules_of(None, [], ["x=1"])
    assert raised.value.param_hint == "--min"


def test_a_group_is_a_filter_within_the_selection(tape: Path) -> None:
    within = measuring.group_of(None, "model:gpt-x-mini", "--base")
    (all_of_them,) = measuring.samples(tape, within)
    (group,) = measuring.samples(tape, measuring.group_of(within, "status:429", "--base"))
    assert (all_of_them.size > 1, group.size) == (True, 0)
    with pytest.raises(click.BadParameter) as raised:
        measuring.group_of(None, "model:(", "--new")
    assert raised.value.param_hint == "--new"


def test_details_are_of_the_exchanges_named(tape: Path) -> None:
    assert [row["id"][:4] for row in measuring.details(tape, ["b000", "@"])] == ["b000", "f000"]
