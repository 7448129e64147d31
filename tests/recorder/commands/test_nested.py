"""A run within a run: its recorder, its variables and its refusals."""

import os
from pathlib import Path

import pytest

from wiretape.recorder.commands import nested
from wiretape.recorder.relay import pointing, providers

BASE = "http://127.0.0.1:4321"
ENDED = nested.OuterRecorder(1, "another boot", BASE, "/t.db", ["openai"])


def test_a_command_gets_its_recorders_name_without_secrets() -> None:
    plan = pointing.plan_base_urls([], {"GROQ_BASE_URL": "https://me:hunter2@gw.test"}, ["x"])
    marks = nested.mark(os.getpid(), BASE, Path("/t.db"), plan)
    marker = nested.read(marks)
    assert marker is not None
    assert (marker.pid, marker.base, marker.tape, marker.is_alive) == (os.getpid(), BASE, "/t.db", True)
    assert ("openai" in marker.apis, "groq" in marker.apis, "hunter2" in str(marks)) == (True, False, False)


@pytest.mark.parametrize("value", ["", "1", "[]", "{", '{"pid": "x"}'])
def test_a_mark_that_cannot_be_read_is_none(value: str) -> None:
    assert nested.read({nested.VARIABLE: value}) is None
    assert nested.read({}) is None


def test_settings_of_an_ended_recorder_are_undone() -> None:
    assert not ENDED.is_alive
    unchanged = {"GROQ_BASE_URL": "http://gw.test", "OPENAI_API_BASE": f"{BASE}0/openai/v1", "NO_PROXY": BASE}
    undone = {"OPENAI_BASE_URL": f"{BASE}/openai/v1", "https_proxy": "http://wiretape:x@127.0.0.1:4321"}
    assert nested.without(unchanged | undone, ENDED) == unchanged


@pytest.mark.parametrize("store", ["/me/wiretape-ca-x/truststore.p12", '"/my self/wiretape-ca-x/truststore.p12"'])
def test_options_that_java_had_before_a_recorder_stay(store: str) -> None:
    options = '-Xmx1g -Djavax.net.ssl.trustStore="/home/my self/store"'
    added = f"-Djavax.net.ssl.trustStore={store} -Dhttps.proxyHost=127.0.0.1"
    assert nested.without({"JAVA_TOOL_OPTIONS": f"{options} {added}"}, ENDED) == {"JAVA_TOOL_OPTIONS": options}
    assert nested.without({"JAVA_TOOL_OPTIONS": added}, ENDED) == {}


def test_a_variable_at_our_recorder_means_its_upstream() -> None:
    upstreams = [providers.parse("openai=https://gw.test/x"), providers.parse("groq=https://REDACTED@gw.test")]
    unchanged = {"GROQ_BASE_URL": f"{BASE}/groq", "XAI_API_BASE": "http://127.0.0.1:1/v1", "PATH": BASE}
    variables = nested.resolved({"OPENAI_BASE_URL": f"{BASE}/openai/v1", **unchanged}, BASE, upstreams)
    assert variables == {"OPENAI_BASE_URL": "https://gw.test/x/v1", **unchanged}


def test_a_variable_through_an_ended_recorder_is_not_guessed() -> None:
    with pytest.raises(ValueError, match="GROQ_BASE_URL points at a wiretape that has ended"):
        nested.without({"GROQ_BASE_URL": f"{BASE}/groq"}, ENDED)


def test_a_variable_through_a_running_recorder_stays() -> None:
    alive = nested.read(nested.mark(os.getpid(), BASE, Path("/t.db"), pointing.plan_base_urls([], {}, ["x"])))
    assert alive is not None
    environ = {"OPENAI_BASE_URL": f"{BASE}/gateway/v1"}
    assert nested.without(environ | {"GROQ_BASE_URL": f"{BASE}/groq"}, alive) == environ
