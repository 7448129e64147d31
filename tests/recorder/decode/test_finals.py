"""Texts that come in deltas and whole: nothing is there twice, and a finished text that differs holds."""

import json

import pytest

from tests.support.decoding import cut_everywhere, derived, said

PLAIN = '{"pond":"north"}'


def sse(*payloads):
    return "".join(f"data: {payload if isinstance(payload, str) else json.dumps(payload)}\n\n" for payload in payloads)


def chat(delta=None, finish=None, index=0, **choice):
    fields = {} if delta is None else {"delta": delta}
    return {"id": "c", "model": "m", "choices": [{"index": index, **fields, **choice, "finish_reason": finish}]}


def message(content, finish="stop", **more):
    return chat(None, finish, message={"role": "assistant", "content": content, **more})


def call(index=None, id="", name="", arguments=""):
    function = {"arguments": arguments} | ({"name": name} if name else {})
    return {"function": function} | ({} if index is None else {"index": index}) | ({"id": id} if id else {})


def event(kind, **more):
    return {"type": f"response.{kind}", "output_index": 0, "item_id": f"{kind}_1", **more}


def function(arguments):
    return {"type": "function_call", "id": "fc", "call_id": "call_1", "name": "count", "arguments": arguments}


def response(*output, kind="completed", status="completed"):
    answer = {"id": "r", "object": "response", "model": "m", "status": status, "output": list(output)}
    return {"type": f"response.{kind}", "response": answer}


def text_item(*texts):
    content = [{"type": "output_text", "text": text} for text in texts]
    return {"type": "message", "role": "assistant", "content": content}


def arguments_of(measures):
    return [call["arguments"] for call in measures.tool_calls or ()]


def test_a_last_message_that_repeats_its_deltas_adds_nothing():
    body = sse(chat({"content": "Two "}), chat({"content": "swans."}), message("Two swans."), "[DONE]")
    measures = derived(body)
    assert (measures.content, measures.output_chunks, measures.finish_reason) == ("Two swans.", 2, "stop")


@pytest.mark.parametrize(
    ("last_text", "content", "chunks"), [("Two swans, one duck.", "Two swans, one duck.", 3), ("A swan.", "A swan.", 2)]
)
def test_a_last_message_adds_the_remainder_or_holds(last_text, content, chunks):
    body = sse(chat({"content": "Two "}), chat({"content": "swans"}), message(last_text), "[DONE]")
    assert (derived(body).content, derived(body).output_chunks) == (content, chunks)


def test_whole_messages_add_to_or_repeat_earlier_text():
    steps = sse(message("Two ", None), message("swans.", None), message("", "stop"))
    states = sse(message("Two ", None), message("Two swans.", None), message("Two swans.", "stop"))
    assert [derived(body).content for body in (steps, states)] == ["Two swans."] * 2


def test_a_last_message_repeats_reasoning_and_calls():
    deltas = [
        chat({"reasoning_content": "Hm"}),
        chat({"tool_calls": [call(0, "a", "f", '{"x": ')]}),
        chat({"tool_calls": [call(0, "", "", "1}")]}),
    ]
    final = message(None, "tool_calls", reasoning_content="Hm", tool_calls=[call(None, "a", "f", '{"x":1}')])
    measures = derived(sse(*deltas, final, "[DONE]"))
    assert (measures.reasoning, arguments_of(measures), measures.output_chunks) == ("Hm", ['{"x": 1}'], 3)


def test_calls_that_only_the_last_message_has_are_added():
    final = message("Hi", "tool_calls", tool_calls=[call(None, "a", "f", "{}"), call(None, "b", "g", "{}")])
    measures = derived(sse(chat({"content": "Hi"}), final, "[DONE]"))
    assert [call["name"] for call in measures.tool_calls] == ["f", "g"]
    assert (measures.content, measures.output_chunks) == ("Hi", 2)


@pytest.mark.parametrize(
    ("deltas", "done"),
    [
        ("function_call_arguments", {"arguments": PLAIN}),
        ("custom_tool_call_input", {"input": PLAIN}),
        ("mcp_call_arguments", {"arguments": PLAIN}),
    ],
)
@pytest.mark.parametrize("finished", [("done",), ("item",), ("response",), ("done", "item", "response")])
def test_plain_arguments_hold_against_ciphertext(deltas, done, finished):
    kinds = {"function_call_arguments": "function_call", "mcp_call_arguments": "mcp_call"}
    kind = kinds.get(deltas, "custom_tool_call")
    item = {"type": kind, "call_id": "call_1", "id": "call_1", "name": "count", **done}
    ends = {
        "done": event(f"{deltas}.done", **done),
        "item": event("output_item.done", item=item),
        "response": response(item),
    }
    begin = event("output_item.added", item=item | dict.fromkeys(done, ""))
    cipher = [event(f"{deltas}.delta", delta=text, obfuscation="a") for text in ("pQ7+zz#", "0Lk==", "x==")]
    body = sse(begin, *cipher, *[ends[name] for name in ends if name in finished or name == "response"])
    for measures in (derived(body), *cut_everywhere(body, 97)):
        assert arguments_of(measures) == [PLAIN]
        assert measures.output_chunks == 4


def test_a_finished_text_that_differs_holds():
    deltas = [event("output_text.delta", delta=text) for text in ("c1pher", "t3xt", "==")]
    body = sse(*deltas, event("output_text.done", text="Two swans."), response(text_item("Two swans.")))
    assert (derived(body).content, derived(body).output_chunks) == ("Two swans.", 3)


def test_a_finished_text_adds_what_its_deltas_lack():
    body = sse(event("output_text.delta", delta="Two "), response(text_item("Two swans.")))
    assert (derived(body).content, derived(body).output_chunks) == ("Two swans.", 2)


def test_parts_of_an_item_are_finished_one_by_one():
    body = sse(
        event("output_text.delta", delta="One."),
        event("output_text.done", text="One."),
        event("output_text.delta", content_index=1, delta="Tw"),
        event("output_text.done", content_index=1, text="Two."),
        event("output_item.done", item=text_item("One.", "Two.")),
        response(text_item("One.", "Two.")),
    )
    assert derived(body).content == "One.Two."


def test_an_items_summary_and_reasoning_finish_separately():
    item = {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "S"}],
        "content": [{"type": "reasoning_text", "text": "R"}],
    }
    body = sse(
        event("reasoning_text.delta", delta="R"),
        event("reasoning_summary_text.delta", delta="S"),
        event("reasoning_text.done", text="R"),
        event("reasoning_summary_text.done", text="S"),
        event("output_item.done", item=item),
        response(item),
    )
    assert (derived(body).reasoning, derived(body).output_chunks) == ("RS", 2)


def test_an_empty_finished_text_says_nothing():
    body = sse(event("output_text.delta", delta="Hi"), event("output_text.done", text=""), response())
    assert derived(body).content == "Hi"


@pytest.mark.parametrize("kind", ["reasoning.delta", "reasoning_summary.delta"])
@pytest.mark.parametrize("delta", ["Hm", {"text": "Hm"}])
def test_reasoning_comes_under_earlier_names(kind, delta):
    body = sse(event(kind, delta=delta), event(kind.replace("delta", "done"), text="Hm"), response())
    assert (derived(body).reasoning, derived(body).output_chunks) == ("Hm", 1)


@pytest.mark.parametrize(
    ("status", "finish"), [("completed", "completed"), ("", "completed"), ("incomplete", "incomplete")]
)
def test_response_done_ends_a_stream(status, finish):
    body = sse(event("output_text.delta", delta="Hi"), response(kind="done", status=status))
    assert (derived(body).outcome, derived(body).finish_reason) == ("complete", finish)


def test_a_failed_response_done_is_an_error():
    body = sse(event("output_text.delta", delta="Hi"), response(kind="done", status="failed"))
    assert (derived(body).outcome, derived(body).outcome_detail) == ("error_event", "mid_stream")


def block(index, start_value, *deltas):
    start = {"type": "tool_use", "id": f"t{index}", "name": "count", "input": start_value}
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *[
            {"type": "content_block_delta", "index": index, "delta": {"type": "input_json_delta", "partial_json": text}}
            for text in deltas
        ],
        {"type": "content_block_stop", "index": index},
    ]


def test_deltas_override_input_at_their_blocks_start():
    body = sse(
        {"type": "message_start", "message": {"id": "m", "role": "assistant", "content": []}},
        *block(0, {"pond": 3}, '{"pond":', "3}"),
        *block(1, {"pond": 4}),
        *block(2, {}, '{"pond":5}'),
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
        {"type": "message_stop"},
    )
    for measures in (derived(body), *cut_everywhere(body, 97)):
        assert arguments_of(measures) == ['{"pond":3}', '{"pond":4}', '{"pond":5}']


def test_a_run_of_deltas_can_be_replaced():
    deltas = [event("output_text.delta", delta=f"x{number} ") for number in range(200)]
    measures = derived(sse(*deltas, event("output_text.done", text="Plain."), response()))
    assert (measures.content, measures.output_chunks) == ("Plain.", 200)


def test_the_answer_is_the_same_whatever_repeats_it():
    short = sse(event("output_text.delta", delta="Hi"), response())
    long = sse(
        event("output_text.delta", delta="Hi"),
        event("output_text.done", text="Hi"),
        event("content_part.done", part={"type": "output_text", "text": "Hi"}),
        event("output_item.done", item=text_item("Hi")),
        response(text_item("Hi")),
    )
    assert said(derived(short)) == said(derived(long))


def test_a_call_with_changing_ids_is_one_call():
    deltas = [call(0, "a", "count", ""), call(0, "b", "", '{"pond"'), call(0, "c", "", ":3}")]
    without_index = [call(None, "a", "count", ""), call(None, "b", "", '{"pond"'), call(None, "c", "", ":3}")]
    for calls in (deltas, without_index):
        measures = derived(sse(*[chat({"tool_calls": [call]}) for call in calls], chat({}, "tool_calls"), "[DONE]"))
        assert [(call["id"], call["name"], call["arguments"]) for call in measures.tool_calls] == [
            ("a", "count", '{"pond":3}')
        ]


def test_calls_with_names_of_their_own_stay_apart():
    calls = [call(0, "a", "f", "{}"), call(0, "b", "f", "{}"), call(0, "c", "g", "{}")]
    measures = derived(sse(*[chat({"tool_calls": [call]}) for call in calls], chat({}, "tool_calls"), "[DONE]"))
    assert [(call["id"], call["name"]) for call in measures.tool_calls] == [("a", "f"), ("b", "f"), ("c", "g")]
