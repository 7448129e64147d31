"""Pure: the well-known APIs: where they are, and the environment variables by which programs are pointed at them.

Each variable stands here because the source of an SDK or program reads it, with the path that this source expects.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

NOT_SET = None
"""The path of a variable that is replaced only where it is set already."""


@dataclass(frozen=True, slots=True)
class Variable:
    """An environment variable from which programs read the base URL of an API.

    `path` is the path below the API's own URL that they expect in it. None (`NOT_SET`): programs disagree on the path,
    or change their behaviour where the variable is set.
    """

    name: str
    path: str | None = ""


@dataclass(frozen=True, slots=True)
class Api:
    """An API: its base URL ("" where each account or region has its own) and the hosts that serve it.

    In a host, `*` stands for a part of one label. `version`: operations such as `/chat/completions` are served below
    this path and nowhere else. `is_bound_to_host`: clients sign the host, or go by it, so that a variable that names
    one of the API's own hosts cannot be replaced. `note` says what users have to know of its variables.
    """

    name: str
    url: str = ""
    hosts: tuple[str, ...] = ()
    variables: tuple[Variable, ...] = ()
    version: str = ""
    is_bound_to_host: bool = False
    note: str = ""


def _preset(*names: str) -> tuple[Variable, ...]:
    return tuple(Variable(name, NOT_SET) for name in names)


APIS = (
    Api("openai", "https://api.openai.com", ("api.openai.com", "*.api.openai.com"), version="/v1",
        variables=(Variable("OPENAI_BASE_URL", "/v1"), Variable("OPENAI_API_BASE", "/v1"))),
    Api("anthropic", "https://api.anthropic.com", ("api.anthropic.com",), version="/v1",
        note="the AI SDK and opencode expect /v1 in ANTHROPIC_BASE_URL, Anthropic's SDKs do not: both reach it",
        variables=(Variable("ANTHROPIC_BASE_URL"), Variable("ANTHROPIC_API_URL"), Variable("ANTHROPIC_API_BASE"))),
    Api("openrouter", "https://openrouter.ai/api", ("openrouter.ai",), version="/v1",
        variables=(Variable("OPENROUTER_API_BASE", "/v1"),)),
    Api("groq", "https://api.groq.com/openai", ("api.groq.com",), version="/v1",
        note="LiteLLM expects /openai/v1 in GROQ_API_BASE, LangChain does not",
        variables=(Variable("GROQ_BASE_URL"), Variable("GROQ_API_BASE", NOT_SET))),
    Api("mistral", "https://api.mistral.ai", ("api.mistral.ai", "codestral.mistral.ai"), version="/v1",
        variables=(Variable("MISTRAL_BASE_URL", "/v1"), Variable("MISTRAL_API_BASE", "/v1"))),
    Api("deepseek", "https://api.deepseek.com", ("api.deepseek.com",),
        note="LangChain offers less where DEEPSEEK_API_BASE is set, and LiteLLM calls another version of the API",
        variables=_preset("DEEPSEEK_API_BASE")),
    Api("gemini", "https://generativelanguage.googleapis.com", ("generativelanguage.googleapis.com",),
        variables=(Variable("GOOGLE_GEMINI_BASE_URL"), *_preset("GEMINI_API_BASE"))),
    Api("codeassist", "https://cloudcode-pa.googleapis.com", ("cloudcode-pa.googleapis.com",),
        variables=(Variable("CODE_ASSIST_ENDPOINT"),)),
    Api("together", "https://api.together.xyz", ("api.together.xyz", "api.together.ai", "api-inference.together.ai"),
        version="/v1", note="its Node SDK expects /v1 in TOGETHER_BASE_URL, its Python SDK does not: both reach it",
        variables=(Variable("TOGETHER_BASE_URL"), Variable("TOGETHER_API_BASE", "/v1"),
                   Variable("TOGETHER_AI_API_BASE", "/v1"))),
    Api("fireworks", "https://api.fireworks.ai/inference", ("api.fireworks.ai",),
        note="Fireworks' SDK manages accounts below FIREWORKS_BASE_URL as well, which are not below /inference",
        variables=(Variable("FIREWORKS_API_BASE", "/v1"), *_preset("FIREWORKS_BASE_URL"))),
    Api("xai", "https://api.x.ai", ("api.x.ai", "*.api.x.ai"), version="/v1",
        variables=(Variable("XAI_API_BASE", "/v1"),)),
    Api("perplexity", "https://api.perplexity.ai", ("api.perplexity.ai",),
        variables=(Variable("PERPLEXITY_BASE_URL"), Variable("PERPLEXITY_API_BASE"))),
    Api("cerebras", "https://api.cerebras.ai", ("api.cerebras.ai",), version="/v1",
        variables=(Variable("CEREBRAS_BASE_URL"), Variable("CEREBRAS_API_BASE", "/v1"))),
    Api("cohere", "https://api.cohere.com", ("api.cohere.com", "api.cohere.ai"),
        note="LiteLLM expects the whole URL of an endpoint in COHERE_API_BASE",
        variables=(Variable("CO_API_URL"), Variable("CO_BASE_URL"), *_preset("COHERE_API_BASE"))),
    Api("moonshot", "https://api.moonshot.ai", ("api.moonshot.ai", "api.moonshot.cn", "api.kimi.com"), version="/v1",
        variables=(Variable("MOONSHOTAI_BASE_URL", "/v1"), Variable("MOONSHOT_API_BASE", "/v1"))),
    Api("nvidia", "https://integrate.api.nvidia.com", ("integrate.api.nvidia.com",), version="/v1",
        variables=_preset("NVIDIA_NIM_API_BASE")),
    Api("sambanova", "https://api.sambanova.ai", ("api.sambanova.ai",), version="/v1",
        variables=(Variable("SAMBANOVA_BASE_URL", "/v1"), Variable("SAMBANOVA_API_BASE", "/v1"))),
    Api("ollama", "http://127.0.0.1:11434", ("ollama.com",),
        version="/v1",
        variables=(Variable("OLLAMA_HOST"), Variable("OLLAMA_API_BASE"),
                   Variable("OLLAMA_BASE_URL"), *_preset("CODEX_OSS_BASE_URL"))),
    Api("vllm", "http://127.0.0.1:8000", version="/v1",
        variables=_preset("VLLM_BASE_URL", "HOSTED_VLLM_API_BASE")),
    Api("azure", "", ("*.openai.azure.com", "*.services.ai.azure.com", "*.cognitiveservices.azure.com",
                      "*.models.ai.azure.com"),
        variables=(Variable("AZURE_OPENAI_ENDPOINT"), *_preset("AZURE_API_BASE", "AZURE_AI_API_BASE"))),
    Api("foundry", variables=(Variable("ANTHROPIC_FOUNDRY_BASE_URL"),)),
    Api("bedrock", "", ("bedrock-runtime.*.amazonaws.com", "bedrock-runtime-fips.*.amazonaws.com",
                        "bedrock-runtime.*.amazonaws.com.cn", "*.bedrock-runtime.*.vpce.amazonaws.com",
                        "bedrock-runtime.*.api.aws", "bedrock-mantle.*.api.aws"),
        variables=_preset("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "AWS_BEDROCK_RUNTIME_ENDPOINT", "AWS_BEDROCK_BASE_URL",
                          "ANTHROPIC_BEDROCK_BASE_URL", "ANTHROPIC_BEDROCK_MANTLE_BASE_URL"),
        is_bound_to_host=True, note="requests are signed for their host: --base-url does not record AWS's own"),
    Api("vertex", "", ("aiplatform.googleapis.com", "*-aiplatform.googleapis.com", "aiplatform.*.rep.googleapis.com"),
        variables=_preset("GOOGLE_VERTEX_BASE_URL", "ANTHROPIC_VERTEX_BASE_URL", "VERTEXAI_API_BASE",
                          "ANTHROPIC_GOOGLE_CLOUD_BASE_URL"),
        is_bound_to_host=True, note="SDKs go by the host: --base-url does not record Google's own"),
    Api("dashscope", "", ("dashscope*.aliyuncs.com", "*.*.maas.aliyuncs.com"),
        variables=_preset("DASHSCOPE_API_BASE", "DASHSCOPE_HTTP_BASE_URL")),
    Api("copilot", "", ("api.githubcopilot.com", "api.*.githubcopilot.com"),
        variables=_preset("GITHUB_COPILOT_BASE_URL", "COPILOT_API_URL", "GITHUB_COPILOT_API_BASE")),
    Api("cursor", hosts=("api2.cursor.sh", "*.api5.cursor.sh", "*.*.api5.cursor.sh"),
        variables=_preset("CURSOR_BACKEND_URL"),
        note="Cursor's SDK uses HTTP/1.1 where CURSOR_BACKEND_URL begins with http://"),
    Api("chatgpt", hosts=("chatgpt.com", "gov.chatgpt.com"),
        note="Codex reads no variable: --base-url does not record it"),
    Api("opencode", hosts=("opencode.ai",)),
    Api("github", hosts=("models.github.ai", "models.inference.ai.azure.com")),
    Api("huggingface", hosts=("router.huggingface.co", "api-inference.huggingface.co"),
        variables=_preset("HF_INFERENCE_ENDPOINT", "HUGGINGFACE_API_BASE")),
    Api("vercel", hosts=("ai-gateway.vercel.sh",), variables=_preset("VERCEL_AI_GATEWAY_API_BASE")),
    Api("cloudflare", hosts=("gateway.ai.cloudflare.com",)),
    Api("deepinfra", hosts=("api.deepinfra.com",), variables=_preset("DEEPINFRA_API_BASE")),
    Api("minimax", hosts=("api.minimax.io", "api.minimax.cn", "api.minimaxi.com"),
        variables=_preset("MINIMAX_API_BASE")),
    Api("zai", hosts=("api.z.ai", "open.bigmodel.cn"), variables=_preset("ZAI_API_BASE")),
    Api("llama", hosts=("api.llama.com",), variables=_preset("LLAMA_API_BASE")),
    Api("nebius", hosts=("api.studio.nebius.ai",), variables=_preset("NEBIUS_API_BASE")),
    Api("novita", hosts=("api.novita.ai",), variables=_preset("NOVITA_API_BASE")),
    Api("hyperbolic", hosts=("api.hyperbolic.xyz",), variables=_preset("HYPERBOLIC_API_BASE")),
    Api("baseten", hosts=("inference.baseten.co",), variables=_preset("BASETEN_API_BASE")),
    Api("siliconflow", hosts=("api.siliconflow.com", "api.siliconflow.cn")),
    Api("volcengine", hosts=("ark.*.volces.com",), variables=_preset("VOLCENGINE_API_BASE")),
)  # fmt: skip
"""`wiretape record` serves those with a URL at `/NAME/…` where it has no `--upstream`."""
BY_NAME = {api.name: api for api in APIS}
BY_VARIABLE = {variable.name: (api, variable) for api in APIS for variable in api.variables}


@dataclass(frozen=True, slots=True)
class Program:
    """A program that needs another treatment than others, and the reason.

    `words` are those that a command line begins with; `agent` occurs in the User-Agent or the Originator of its
    requests, in lower case. It gets the variables in `needs` although they are not set, and none in `breaks` unless its
    user sets them; those in `listens` say where it listens, and are left alone. `falls_back_on` is the status that it
    takes for "no WebSocket here". With the option `no_daemon`, it and its `interactive` subcommands start no daemon,
    which they would leave behind, or use past the recorder of the run if it runs already.
    """

    words: str
    reason: str
    needs: tuple[str, ...] = ()
    breaks: tuple[str, ...] = ()
    listens: tuple[str, ...] = ()
    agent: str = ""
    falls_back_on: int | None = None
    no_daemon: str = ""
    interactive: tuple[str, ...] = ()

    def starts_daemon(self, arguments: Sequence[str]) -> bool:
        """Return True if its arguments start its daemon; a text with a space is a prompt."""
        first = arguments[0] if arguments else "-"
        is_interactive = first.startswith("-") or " " in first or first in self.interactive
        return bool(self.no_daemon) and self.no_daemon not in arguments and is_interactive

    def rejects(self, variable: str, *, is_set: bool) -> bool:
        """Return True if the program does not work with a variable that points at wiretape."""
        return variable in self.listens or (variable in self.breaks and not is_set)


PROGRAMS = (
    Program("ollama serve", "it listens at OLLAMA_HOST", listens=("OLLAMA_HOST",)),
    Program("ollama", "Go asks no proxy for a server on this machine", needs=("OLLAMA_HOST",)),
    Program("gemini", "it takes GOOGLE_GEMINI_BASE_URL for a gateway's and exits with 41 unless an authentication "
                      "type is configured", breaks=("GOOGLE_GEMINI_BASE_URL",)),
    Program("codex", "it goes on over HTTP only if a WebSocket is refused with 426, and its background server would go "
                     "past a run, or outlive it", agent="codex", falls_back_on=426, no_daemon="--no-daemon",
            interactive=("resume", "fork")),
)  # fmt: skip
"""The longer `words` come first."""


_LAUNCHERS = frozenset(("bun", "bunx", "dlx", "env", "exec", "nice", "node", "npm", "npx", "pnpm", "pnpx", "yarn"))


def program_of(command: Sequence[str]) -> Program | None:
    """Return the known program that a command runs, directly or by a launcher such as `npx`."""
    words = [PurePath(word).name.partition("@")[0].removesuffix(".js").removesuffix("-cli") for word in command]
    while words and (words[0] in _LAUNCHERS or words[0].startswith("-") or "=" in words[0]):
        words.pop(0)
    return next((program for program in PROGRAMS if words[: len(program.words.split())] == program.words.split()), None)


def program_by_agent(agent: str) -> Program | None:
    """Return the known program that sends a User-Agent or an Originator."""
    return next((program for program in PROGRAMS if program.agent and program.agent in agent.lower()), None)


def _pattern(host: str) -> str:
    return re.escape(host).replace(r"\*", "[a-z0-9-]*")


_HOSTS = re.compile("|".join(f"(?P<{api.name}>{'|'.join(map(_pattern, api.hosts))})" for api in APIS if api.hosts))


def at_host(host: str) -> Api | None:
    """Return the API that a host serves; None for any other host."""
    match = _HOSTS.fullmatch(host.lower().removesuffix("."))
    return BY_NAME[match.lastgroup] if match and match.lastgroup else None
