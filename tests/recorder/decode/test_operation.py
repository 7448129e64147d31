"""The operation of an exchange, by its path, its answer and its request; the model that a path names."""

import pytest

from tests.support.cases import each_case
from wiretape.recorder.decode.dialects import registry
from wiretape.recorder.decode.exchange import OPERATIONS, Exchange
from wiretape.recorder.decode.operation import (
    GENERATIONS,
    UNKNOWN,
    api_asked,
    model_in_path,
    model_in_query,
    operation,
    resumed,
)

GEMINI = "/v1beta/models/gemini-2.5-flash"
VERTEX = "/v1/projects/p/locations/us-central1/publishers"
AIGC = "/api/v1/services/aigc"
PATHS = {
    "chat": [
        "/v1/chat/completions", "/chat/completions", "/v1/chat/completions/", "/api/v1/chat/completions?beta=true",
        "/openai/deployments/gpt-4o/chat/completions?api-version=2024-10-21", "/models/chat/completions",
        "/v1/responses", "/openai/v1/responses?api-version=preview", "/v1/messages", "/v1/messages?beta=true",
        "/anthropic/v1/messages", "/v1beta/openai/chat/completions", "/engines/m/chat/completions",
        f"{VERTEX}/anthropic/models/claude-sonnet-4:streamRawPredict", f"{VERTEX}/mistralai/models/m:rawPredict",
        "/v1/projects/p/locations/l/endpoints/openapi/chat/completions", "/api/chat", "/v1/chat", "/v2/chat",
        f"{AIGC}/text-generation/generation", f"{AIGC}/multimodal-generation/generation",
        "/compatible-mode/v1/chat/completions", "/model/anthropic.claude-3-haiku-20240307-v1%3A0/converse",
        "/model/anthropic.claude-3-haiku-20240307-v1%3A0/converse-stream", "/model/meta.llama3-8b/invoke",
        "/bedrock/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Ainference-profile%2Fm/invoke-with-response-stream",
    ],
    "generate_content": [
        f"{GEMINI}:generateContent", f"{GEMINI}:streamGenerateContent?alt=sse", "/v1beta/tunedModels/t:generateContent",
        f"{VERTEX}/google/models/gemini-2.5-pro:streamGenerateContent", f"/gemini{GEMINI}:generateContent?key=REDACTED",
        "/v1/projects/p/locations/l/endpoints/123:generateContent", "/v1beta/interactions", "/interactions?alt=sse",
        "/v1beta1/projects/p/locations/l/interactions",
    ],
    "text_completion": [
        "/v1/completions", "/completion", "/completions", "/infill", "/generate", "/generate_stream", "/api/generate",
        "/v1/generate", "/v1/complete", "/openai/deployments/d/completions?api-version=1",
        "/engines/davinci/completions", "/api/v1/apps/a1/completion",
    ],
    "embeddings": [
        "/v1/embeddings", "/embedding", "/api/embed", "/api/embeddings", "/v2/embed", "/models/embeddings",
        f"{GEMINI}:embedContent", f"{GEMINI}:batchEmbedContents", "/openai/deployments/d/embeddings?api-version=1",
        f"{VERTEX}/google/models/text-embedding-005:predict", "/model/amazon.titan-embed-text-v2%3A0/invoke",
        "/api/v1/services/embeddings/text-embedding/text-embedding",
    ],
    "rerank": [
        "/v1/rerank", "/v2/rerank", "/rerank", "/reranking", "/model/cohere.rerank-v3-5%3A0/invoke",
        "/api/v1/services/rerank/text-rerank/text-rerank",
    ],
    "moderation": ["/v1/moderations"],
    "image": [
        "/v1/images/generations", "/v1/images/edits", "/openai/deployments/d/images/generations?api-version=1",
        f"{VERTEX}/google/models/imagen-4:predict", f"{AIGC}/text2image/image-synthesis",
        f"{AIGC}/image-generation/generation", "/model/amazon.nova-canvas-v1%3A0/invoke",
        "/model/stability.sd3-5-large-v1%3A0/invoke",
    ],
    "audio": ["/v1/audio/speech", "/v1/audio/transcriptions", "/api/v1/services/audio/tts/customization"],
    "count_tokens": [
        "/v1/messages/count_tokens", f"{GEMINI}:countTokens", "/v1/responses/input_tokens", "/tokenize", "/detokenize",
        "/v1/tokenize", f"{VERTEX}/anthropic/models/count-tokens:rawPredict", "/model/m/count-tokens",
    ],
    "realtime": [
        "/v1/realtime?model=m", "/openai/v1/realtime?model=m", "/v1/live/sessions", "/v1/live/sessions/s1/attach",
        "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent?key=REDACTED",
        "/ws/google.ai.generativelanguage.v1alpha.GenerativeService.BidiGenerateContentConstrained",
        "/ws/google.cloud.aiplatform.v1beta1.LlmBidiService/BidiGenerateContent",
    ],
    "models": ["/api/show"],
    "other": [
        "/api/pull", "/api/create", "/v1/batches", "/v1/messages/batches", "/v1/fine_tuning/jobs", "/v1/assistants",
        "/v1beta/cachedContents", f"{GEMINI}:batchGenerateContent", f"{VERTEX}/google/models/veo-3:predictLongRunning",
        "/v1/realtime/sessions", "/v1/videos", f"{AIGC}/video-generation/video-synthesis", "/classify", "/score",
    ],
}  # fmt: skip


def exchange(path: str, method: str = "POST", model: str | None = None) -> Exchange:
    return Exchange(status=200, ended_by="end", method=method, path=path, request_model=model)


@each_case(("path", "name"), [(path, name) for name, paths in PATHS.items() for path in paths])
def test_a_posts_path_names_the_operation_for_any_answer(path: str, name: str) -> None:
    for api in (None, "unknown", "openai.chat", "openai.embeddings"):
        assert operation(exchange(path, model="m"), registry.dialect_named(api)) == name


def test_every_operation_is_described_and_every_generation_is_one() -> None:
    assert {*PATHS, UNKNOWN, "mcp", "agent_session"} == set(OPERATIONS)
    assert set(GENERATIONS) <= set(OPERATIONS)
    assert {dialect.operation for dialect in registry.BY_API.values()} <= set(OPERATIONS)


@each_case("method", ["HEAD", "OPTIONS"])
@each_case("path", ["/", "/v1/chat/completions", "/v1/messages", "/v1/models"])
def test_a_probe_for_a_server_is_no_generation(method: str, path: str) -> None:
    assert operation(exchange(path, method), None) == "other"


@each_case(
    "path",
    [
        "/v1/models", "/v1/models/", "/v1/models?limit=20", "/v1/models/gpt-4o", "/v1/models/meta-llama/Llama-3.1-8B",
        "/openai/v1/models", "/openai/models?api-version=1", GEMINI, "/api/tags", "/api/ps", "/foundation-models",
        "/api/v1/models/author/slug/endpoints",
    ],
)  # fmt: skip
def test_requests_for_models_are_no_generations(path: str) -> None:
    for api in (None, "unknown"):
        assert operation(exchange(path, "GET"), registry.dialect_named(api)) == "models"


@each_case("path", ["/", "/health", "/api/version", "/v1/chat/completions", f"{GEMINI}:generateContent"])
def test_an_unknown_get_is_of_operation_other(path: str) -> None:
    assert operation(exchange(path, "GET"), None) == "other"


@each_case(
    ("api", "name"),
    [
        ("openai.chat", "chat"), ("openai.completions", "text_completion"), ("gemini", "generate_content"),
        ("openai.embeddings", "embeddings"), ("openai.images", "image"), ("bedrock.converse", "chat"),
    ],
)  # fmt: skip
def test_behind_an_unknown_path_the_answer_decides(api: str, name: str) -> None:
    for path in ("/invocations", "/", "/v2/anything", "/endpoints/e/invocations-response-stream"):
        assert operation(exchange(path, model="m"), registry.dialect_named(api)) == name
    assert operation(exchange("/v1/responses/resp_1?stream=true", "GET"), registry.dialect_named(api)) == name


def test_only_a_streamed_interaction_is_a_generation() -> None:
    dialect = registry.dialect_named("gemini.interactions")
    for path, method, name in (
        ("/v1beta/interactions/v1_x?stream=true&last_event_id=e7", "GET", "generate_content"),
        ("/v1beta/interactions/v1_x?include_input=true", "GET", "other"),
        ("/v1beta/interactions/v1_x/cancel", "POST", "other"),
    ):
        assert operation(exchange(path, method), dialect) == name


@each_case(
    ("path", "method", "name"),
    [
        ("/v1/responses/resp_1?stream=true", "GET", "chat"),
        ("/openai/responses/resp_1?api-version=1", "GET", "chat"),  # the answer to a request in the background
        ("/v1/responses/resp_1/cancel", "POST", "other"),
        ("/v1/responses/compact", "POST", "chat"),
        ("/v1/chat/completions/chatcmpl-1", "GET", "other"),
        ("/v1/chat/completions/chatcmpl-1", "POST", "other"),
    ],
)
def test_reading_or_changing_stored_answers_is_no_generation(path: str, method: str, name: str) -> None:
    for api in ("openai.responses", "openai.chat"):
        assert operation(exchange(path, method), registry.dialect_named(api)) == name


@each_case(
    ("path", "method", "id"),
    [
        ("/v1beta/interactions/v1_x?stream=true", "GET", "v1_x"),
        ("/v1beta/interactions/v1%5Fx?alt=sse&stream=true&last_event_id=e7", "GET", "v1_x"),
        ("/v1/responses/resp_1?stream=true&starting_after=3", "GET", "resp_1"),
        ("/v1beta/interactions/v1_x", "GET", None),
        ("/v1beta/interactions/v1_x?stream=false", "GET", None),
        ("/v1beta/interactions/v1_x?stream=true", "POST", None),
        ("/v1beta/interactions?stream=true", "GET", None),
    ],
)
def test_a_resumed_stream_names_its_response(path: str, method: str, id: str | None) -> None:
    assert resumed(exchange(path, method)) == id


def test_an_unanswered_post_with_a_model_is_a_generation() -> None:
    for api in (None, "unknown"):
        assert operation(exchange("/v2/anything", model="m"), registry.dialect_named(api)) == "chat"
        assert operation(exchange("/v2/anything"), registry.dialect_named(api)) == "other"
        assert operation(exchange("/v2/anything", "PUT", model="m"), registry.dialect_named(api)) == "other"


@each_case(
    ("path", "api"),
    [
        ("/v1/chat/completions", "openai.chat"), ("/v1/messages/count_tokens", "anthropic.messages"),
        ("/api/generate", "ollama"), ("/generate", None), ("/v2/chat", "cohere.chat"), ("/anything", None),
        (f"{AIGC}/text-generation/generation", "dashscope"), ("/model/m/converse-stream", "bedrock.converse"),
        (f"{VERTEX}/anthropic/models/claude:rawPredict", None), (f"{GEMINI}:countTokens", "gemini"),
        ("/v1beta/interactions", "gemini.interactions"), ("/v1beta/interactions/v1_x/events", None),
    ],
)  # fmt: skip
def test_a_path_names_an_api_if_unique(path: str, api: str | None) -> None:
    assert api_asked(exchange(path)) == api
    assert api_asked(exchange(path, "GET")) is None


@each_case(
    ("path", "model"),
    [
        (f"{GEMINI}:streamGenerateContent?alt=sse", "gemini-2.5-flash"),
        (f"{VERTEX}/anthropic/models/claude-sonnet-4@20250514:rawPredict", "claude-sonnet-4@20250514"),
        ("/model/anthropic.claude-3-haiku-20240307-v1%3A0/converse", "anthropic.claude-3-haiku-20240307-v1:0"),
        ("/model/anthropic.claude-v2:1/invoke-with-response-stream", "anthropic.claude-v2:1"),
        (
            "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A1%3Ainference-profile%2Fus.m-v1%3A0/converse-stream",
            "arn:aws:bedrock:us-east-1:1:inference-profile/us.m-v1:0",
        ),
        (
            "/model/arn:aws:bedrock:us-east-1:1:inference-profile/us.m-v1:0/converse",
            "arn:aws:bedrock:us-east-1:1:inference-profile/us.m-v1:0",
        ),
        ("/openai/deployments/gpt%204o/chat/completions?api-version=1", "gpt 4o"),
        ("/engines/davinci/completions", "davinci"),
        ("/models/meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B-Instruct"),
        ("/models/meta-llama/Llama-3.1-8B-Instruct/v1/chat/completions", "meta-llama/Llama-3.1-8B-Instruct"),
        ("/models/gpt2", "gpt2"),
        ("/models/chat/completions?api-version=1", None),
        ("/models/embeddings", None),
        ("/model/info", None),
        ("/v1/models", None),
        ("/v1/models/", None),
        ("/v1/chat/completions?model=/models/x", None),
        ("/", None),
        ("", None),
    ],
)  # fmt: skip
def test_the_model_in_a_path(path: str, model: str | None) -> None:
    assert model_in_path(path) == model


@pytest.mark.parametrize("part", ["/models", "/models/", "/model/a", "/model/arn:a", "/deployments", "/aigc/image"])
def test_a_path_of_many_prefixes_reads_in_linear_time(part: str) -> None:
    path = part * (60_000 // len(part)) + "/!"
    assert operation(exchange(path), None) == "other"
    assert operation(exchange(path, "GET"), None) in ("models", "other")
    assert model_in_path(path) in ("!", "models/!", "deployments", None)


def test_a_realtime_session_names_its_model_in_the_query() -> None:
    assert model_in_query("/v1/realtime?intent=x&model=gpt%2Drealtime") == "gpt-realtime"
    assert model_in_query("/v1/models?model=m") is None


@each_case(("status", "wanted"), [(200, "chat"), (422, "other"), (503, "other"), (None, "other")])
def test_an_answered_request_with_a_model_generates(status, wanted):
    assert operation(Exchange(status=status, ended_by="end", path="/v1/systemone", request_model="m")) == wanted
