import json

from tests.support.cases import each_case
from tests.support.decoding import derived
from wiretape.recorder.decode.dialect import Tokens
from wiretape.recorder.decode.dialects import chat, gemini, gemini_live, interactions, messages, registry
from wiretape.recorder.decode.usage_fields import FIELDS, merge, summed

USED = {"prompt_tokens": 100, "completion_tokens": 7, "total_tokens": 107}


def sse(*payloads):
    return "".join(f"data: {json.dumps(payload)}\n\n" for payload in payloads)


def chunk(content=None, **fields):
    choices = [] if content is None else [{"index": 0, "delta": {"content": content}}]
    return {"object": "chat.completion.chunk", "choices": choices, **fields}


def merged(api, *usages):
    total = {}
    for usage in usages:
        merge(api, total, usage)
    return total


def test_merged_usage_keeps_the_reports_field_order() -> None:
    names = ["cache_creation_input_tokens", "input_tokens", "cache_creation", "cache_read_input_tokens"]
    for order in (names, names[::-1]):
        assert list(merged("anthropic.messages", dict.fromkeys(order, 1))) == order


@each_case(
    ("fields", "read", "written"),
    [
        ({"prompt_tokens_details": {"cached_tokens": 90}}, 90, None),
        ({"cached_tokens": 90}, 90, None),
        ({"prompt_tokens_details": {"cached_tokens": 0}, "cached_tokens": 90}, 90, None),
        ({"prompt_cache_hit_tokens": 90, "prompt_cache_miss_tokens": 10}, 90, None),
        ({"num_cached_tokens": 90}, 90, None),
        ({"cache_read_input_tokens": 90, "cache_creation_input_tokens": 5}, 90, 5),
        ({"prompt_tokens_details": {"cached_tokens": 90, "cache_creation_tokens": 5}}, 90, 5),
        ({"prompt_tokens_details": {"cached_tokens": 90, "cache_write_tokens": 5}}, 90, 5),
        ({"prompt_tokens_details": {"cached_tokens": 90, "cache_creation_input_tokens": 5}}, 90, 5),
        ({"cached_tokens": None, "prompt_tokens_details": None}, None, None),
    ],
)
def test_cached_tokens_are_found_under_every_vendors_name(fields, read, written):
    tokens = chat.tokens(USED | fields)
    assert (tokens.input, tokens.cache_read, tokens.cache_write) == (100, read, written)
    assert tokens.uncached == 100 - (read or 0) - (written or 0)
    names = {"input_tokens": 100, "output_tokens": 7}
    renamed = {name.replace("prompt_tokens", "input_tokens"): value for name, value in fields.items()}
    assert registry.tokens_of("openai.responses", names | renamed) == Tokens(
        input=100, output=7, cache_read=read, cache_write=written
    )


def test_split_cache_writes_are_read_if_they_add_up():
    split = {"ephemeral_5m_input_tokens": 2, "ephemeral_1h_input_tokens": 3}
    details = {"cache_creation_tokens": 5, "cache_creation_token_details": split}
    assert chat.tokens(USED | {"prompt_tokens_details": details}).cache_write_1h == 3
    assert chat.tokens(USED | {"prompt_tokens_details": details | {"cache_creation_tokens": 9}}).cache_write_1h is None


def test_input_without_cached_tokens_is_completed_by_the_total():
    usage = {"prompt_tokens": 10, "completion_tokens": 7, "cache_read_input_tokens": 90, "total_tokens": 107}
    assert (chat.tokens(usage).input, chat.tokens(usage).uncached) == (100, 10)
    assert chat.tokens(usage | {"total_tokens": 17}).uncached is None


def test_a_choices_usage_and_a_chunks_complement_each_other():
    choice = {"index": 0, "delta": {}, "finish_reason": "stop", "usage": USED | {"cached_tokens": 90}}
    measures = derived(sse(chunk("Hi"), {"choices": [choice], "usage": USED}) + "data: [DONE]\n\n")
    assert (measures.input_tokens, measures.cache_read_input_tokens, measures.input_uncached_tokens) == (100, 90, 10)


ZERO = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0, "prompt_tokens_details": {"cached_tokens": 0}}


@each_case("last", [ZERO, {"prompt_tokens": 0}, {"completion_tokens": None}, {"prompt_tokens_details": {}}, {}])
def test_zeros_behind_real_usage_replace_nothing(last):
    real = USED | {"prompt_tokens_details": {"cached_tokens": 90}}
    assert merged(chat.API, real, last) == real
    assert merged(chat.API, last, real) | real == merged(chat.API, last, real)
    measures = derived(sse(chunk("Hi", usage=real), chunk(usage=last)) + "data: [DONE]\n\n")
    assert (measures.input_tokens, measures.output_tokens, measures.cache_read_input_tokens) == (100, 7, 90)


@each_case(
    ("first", "last", "expected"),
    [
        ((3200, 1000, 0), (0, 0, 0), (4200, 1000)),
        ((3200, 1000, 0), (0, None, None), (4200, 1000)),
        ((3200, 0, 0), (2200, 1000, 0), (3200, 1000)),
        ((3200, 1000, 0), (3300, 1000, 50), (4350, 1000)),
        ((25, None, None), (25, 0, 0), (25, 0)),
        ((0, 0, 0), (2200, 1000, 0), (3200, 1000)),
    ],
)
def test_parts_of_input_come_from_the_larger_report(first, last, expected):
    names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    reports = [
        {name: count for name, count in zip(names, counts, strict=True) if count is not None}
        for counts in (first, last)
    ]
    tokens = messages.tokens(merged(messages.API, *reports))
    assert (tokens.input, tokens.cache_read) == expected


def test_merging_leaves_the_reports_as_they_are():
    first, last = {"details": {"a": 1}}, {"details": {"a": 5}}
    assert merged(chat.API, first, last) == {"details": {"a": 5}}
    assert (first, last) == ({"details": {"a": 1}}, {"details": {"a": 5}})


def test_usages_of_several_answers_add_up():
    assert summed({"a": 1, "d": {"b": 2}, "x": "y"}, {"a": 2, "d": {"b": 3, "c": 1}}) == {
        "a": 3, "d": {"b": 5, "c": 1}, "x": "y",
    }  # fmt: skip


def run(kind, input, output, **more):
    return {"type": kind, "input_tokens": input, "output_tokens": output, **more}


def test_a_compaction_is_part_of_the_counts():
    usage = {"input_tokens": 23, "cache_read_input_tokens": 7, "output_tokens": 10}
    runs = [
        run("compaction", 180, 35, cache_creation_input_tokens=4),
        run("message", 23, 10, cache_read_input_tokens=7),
    ]
    tokens = messages.tokens(usage | {"iterations": runs})
    assert tokens == Tokens(input=23 + 7 + 180 + 4, output=45, cache_read=7, cache_write=4)
    assert tokens.uncached == 203


@each_case(
    "runs",
    [
        [run("message", 5, 2), run("advisor_message", 900, 90, model="claude-opus")],
        [run("message", 5, 0, model="a"), run("fallback_message", 5, 2, model="b")],
        [run("message", 5, 1, model="a"), run("message", 5, 1, model="b")],
    ],
)
def test_another_models_tokens_leave_the_price_unknown(runs):
    tokens = messages.tokens({"input_tokens": 5, "output_tokens": 2, "iterations": runs})
    assert (tokens.input, tokens.output, tokens.uncached) == (5, 2, None)


def test_a_tool_loops_iterations_are_counted_already():
    usage = {"input_tokens": 9, "output_tokens": 4, "iterations": [run("message", 4, 2), run("message", 5, 2), None]}
    assert messages.tokens(usage) == Tokens(input=9, output=4)


GEMINI = {"promptTokenCount": 70, "thoughtsTokenCount": 200}
LIVE = {"promptTokenCount": 70, "thoughtsTokenCount": 200}
STEPS = {"total_input_tokens": 70, "total_thought_tokens": 200}


@each_case(
    ("read", "usage", "output"),
    [
        (gemini.tokens, GEMINI | {"candidatesTokenCount": 230, "totalTokenCount": 300}, 230),
        (gemini.tokens, GEMINI | {"candidatesTokenCount": 30, "totalTokenCount": 300}, 230),
        (gemini.tokens, GEMINI | {"candidatesTokenCount": 30}, 230),
        (gemini.tokens, GEMINI | {"totalTokenCount": 270}, 200),
        (
            gemini.tokens,
            GEMINI | {"toolUsePromptTokenCount": 5, "candidatesTokenCount": 230, "totalTokenCount": 305},
            230,
        ),
        (gemini_live.tokens, LIVE | {"responseTokenCount": 230, "totalTokenCount": 300}, 230),
        (gemini_live.tokens, LIVE | {"responseTokenCount": 30, "totalTokenCount": 300}, 230),
        (interactions.tokens, STEPS | {"total_output_tokens": 230, "total_tokens": 300}, 230),
        (interactions.tokens, STEPS | {"total_output_tokens": 30, "total_tokens": 300}, 230),
    ],
)
def test_thoughts_are_added_unless_the_total_excludes_them(read, usage, output):
    tokens = read(usage)
    assert (tokens.output, tokens.reasoning) == (output, 200)


TIMINGS = {"cache_n": 236, "prompt_n": 1, "prompt_ms": 30.9, "predicted_n": 35, "predicted_ms": 661.0}


def test_timings_are_usage_where_none_came_and_say_so():
    measures = derived(sse(chunk("Hi"), chunk(timings=TIMINGS)) + "data: [DONE]\n\n")
    assert (measures.input_tokens, measures.output_tokens, measures.total_tokens) == (237, 35, 272)
    assert (measures.cache_read_input_tokens, measures.input_uncached_tokens) == (236, 1)
    assert measures.usage == {"timings": TIMINGS}
    assert "usage_from_timings" in measures.flags
    assert "no_usage" not in measures.flags


@each_case("places", [("usage", "timings"), ("timings", "usage")])
def test_usage_goes_before_timings(places):
    reports = {"usage": {"usage": USED}, "timings": {"timings": TIMINGS}}
    for payloads in ([chunk(**reports["usage"], **reports["timings"])], [chunk(**reports[place]) for place in places]):
        measures = derived(sse(chunk("Hi"), *payloads) + "data: [DONE]\n\n")
        assert (measures.input_tokens, measures.output_tokens, measures.total_tokens) == (100, 7, 107)
        assert "usage_from_timings" not in measures.flags


def test_timings_of_each_chunk_are_running_counts():
    pieces = [chunk("a", timings=TIMINGS | {"predicted_n": count}) for count in (1, 2, 3)]
    assert derived(sse(*pieces)).output_tokens == 3


def test_llamacpps_cached_tokens_are_in_its_timings():
    final_event = {"content": "", "stop": True, "stop_type": "eos", "tokens_evaluated": 237, "tokens_predicted": 35}
    measures = derived(sse({"content": "Hi", "stop": False}, final_event | {"timings": TIMINGS}), path="/completion")
    assert (measures.api, measures.input_tokens, measures.cache_read_input_tokens) == ("llamacpp", 237, 236)


def test_every_builtin_dialect_has_fields_in_the_table():
    assert {*registry.BY_API} <= {*FIELDS}
