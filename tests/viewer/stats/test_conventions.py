"""The names of OpenTelemetry's conventions for providers."""

from tests.support.cases import each_case
from wiretape.viewer.stats.conventions import provider_of


@each_case(
    ("host", "api", "provider"),
    [
        ("api.openai.com", "openai.chat", "openai"),
        ("chatgpt.com", "openai.responses", "openai"),
        ("api.groq.com", "openai.chat", "groq"),
        ("api.deepseek.com", "openai.chat", "deepseek"),
        ("api.deepseek.com", "anthropic.messages", "deepseek"),
        ("api.x.ai", "openai.chat", "x_ai"),
        ("api.mistral.ai", "openai.chat", "mistral_ai"),
        ("api.moonshot.cn", "openai.chat", "moonshot_ai"),
        ("api.perplexity.ai", "openai.chat", "perplexity"),
        ("api.cohere.com", "cohere.chat", "cohere"),
        ("openrouter.ai", "openai.chat", "openrouter"),
        ("me.openai.azure.com", "openai.chat", "azure.ai.openai"),
        ("me.cognitiveservices.azure.com", "openai.responses", "azure.ai.openai"),
        ("me.services.ai.azure.com", "openai.chat", "azure.ai.inference"),
        ("europe-west4-aiplatform.googleapis.com", "anthropic.messages", "gcp.vertex_ai"),
        ("aiplatform.googleapis.com", "gemini", "gcp.vertex_ai"),
        ("generativelanguage.googleapis.com", "openai.chat", "gcp.gemini"),
        ("generativelanguage.googleapis.com", "gemini.interactions", "gcp.gemini"),
        ("bedrock-runtime.us-east-1.amazonaws.com", "anthropic.messages", "aws.bedrock"),
        ("127.0.0.1", "openai.chat", "openai"),
        ("gateway.example", "gemini", "gcp.gen_ai"),
        ("gateway.example", "gemini.interactions", "gcp.gen_ai"),
        ("gateway.example", "bedrock.converse", "aws.bedrock"),
        ("gateway.example", None, ""),
        ("", None, ""),
    ],
)
def test_the_provider_is_the_hosts_or_the_apis(host: str, api: str | None, provider: str) -> None:
    assert provider_of(api, host) == provider
