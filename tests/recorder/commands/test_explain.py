"""Why nothing was recorded."""

from recorder.commands.explain import Attempt, explain
from recorder.relay import pointing
from recorder.relay.guard import Refusal


def explained(**seen: object) -> str:
    is_intercepting = seen.get("is_intercepting")
    plan = (pointing.plan if is_intercepting else pointing.plan_base_urls)([], {"PATH": "/bin"}, ["gemini"])
    return "\n".join(explain(Attempt(plan, **seen), "gemini"))  # type: ignore[arg-type]


def test_what_was_set_and_what_was_left_and_why_is_named() -> None:
    lines = explained().splitlines()
    assert lines[0].startswith("set: OPENAI_BASE_URL, OPENAI_API_BASE, ")
    assert any(line.startswith("not set: GOOGLE_GEMINI_BASE_URL, as gemini does not work with it: ") for line in lines)
    assert lines[-1].startswith("try: wiretape run -- gemini, without --base-url, ")


def test_behind_a_forward_proxy_base_urls_are_what_to_try_next() -> None:
    lines = explained(is_intercepting=True).splitlines()
    assert lines[0] == "set: HTTPS_PROXY, HTTP_PROXY and the variables that name certificates"
    assert lines[-1].startswith("try: wiretape run --base-url -- gemini, ")


def test_what_came_and_what_was_refused_is_named_once() -> None:
    text = explained(connections=2, refused=[Refusal(404, "no upstream"), Refusal(404, "no upstream")])
    assert "connected: 2 connections" in text
    assert text.count("404 no upstream") == 1


def test_a_host_that_was_not_intercepted_is_what_to_try_next() -> None:
    text = explained(is_intercepting=True, connections=1, asked={"gw.test:443": "tunnelled"})
    assert "asked of the proxy: gw.test:443 (tunnelled)" in text
    assert "try: --host gw.test" in text
    assert "trust" in explained(is_intercepting=True, asked={"a.test:443": "tunnelled", "b.test:443": "untrusted"})
