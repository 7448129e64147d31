"""The API dialects that are decoded: a new one is a module beside this one and an entry here, or a declaration.

Declarations are files of `declared/wires`, or come with an exchange: those that were given for its recording.
"""

import functools
import json
import tomllib
from importlib.resources import files
from typing import Final, NamedTuple

from wiretape.recorder.decode import operation
from wiretape.recorder.decode.declared import compiler, matching
from wiretape.recorder.decode.declared.compiler import DeclaredDialect
from wiretape.recorder.decode.declared.matching import Alternative
from wiretape.recorder.decode.declared.table import DeclarationError
from wiretape.recorder.decode.dialect import Chunk, Dialect, Tokens
from wiretape.recorder.decode.dialects import (
    anthropic_sessions,
    bedrock,
    bedrock_invoke,
    chat,
    cohere,
    completions,
    dashscope,
    embeddings,
    gemini,
    gemini_live,
    images,
    interactions,
    messages,
    ollama,
    openai_agents,
    openai_realtime,
    responses,
    snowflake,
)
from wiretape.recorder.decode.values import JsonObject

DIALECTS: Final[tuple[Dialect, ...]] = (
    openai_agents.DIALECT,
    anthropic_sessions.DIALECT,
    snowflake.DIALECT,
    chat.DIALECT,
    responses.DIALECT,
    messages.DIALECT,
    gemini.DIALECT,
    interactions.DIALECT,
    ollama.DIALECT,
    cohere.DIALECT,
    bedrock.DIALECT,
    bedrock_invoke.DIALECT,
    dashscope.DIALECT,
    completions.DIALECT,
    embeddings.DIALECT,
    images.DIALECT,
)
"""No object is of two dialects, but for errors and pings, which the first two know by the path: they come first."""

VOICE: Final = (openai_realtime.DIALECT, gemini_live.DIALECT)
"""The dialects of sessions over a WebSocket, whose messages have readers of their own (`decode.websocket`)."""

BY_API: Final = {dialect.api: dialect for dialect in (*DIALECTS, *VOICE)}

SESSION_APIS: Final = frozenset(dialect.api for dialect in DIALECTS if dialect.has_turns)
"""The APIs whose streams tell the turns of a hosted agent's session."""


def shipped_texts() -> dict[str, str]:
    """Return the declarations of this package as TOML, by the names of their files."""
    files_in_order = sorted(files(compiler.__package__).joinpath("wires").iterdir(), key=lambda file: file.name)
    return {
        file.name.removesuffix(".toml"): file.read_text("utf-8")
        for file in files_in_order
        if file.name.endswith(".toml")
    }


@functools.cache
def shipped() -> tuple[DeclaredDialect, ...]:
    """Return the declared dialects of this package; their files are read when they are first needed."""
    tables = [table for text in shipped_texts().values() for table in tomllib.loads(text)["dialects"]]
    return tuple(compiler.compile(table, [*BY_API]) for table in tables)


@functools.lru_cache(64)
def declared(declarations: str | None) -> tuple[DeclaredDialect, ...]:
    """Return the dialects that are declared in a JSON list, those of this package last; faulty ones are left out.

    One with the name of a dialect of this package replaces that.
    """
    dialects: dict[str, DeclaredDialect] = {}
    try:
        tables = json.loads(declarations or "[]")
    except (ValueError, TypeError, RecursionError):  # on a tape that was changed, a number may stand here
        tables = []
    for table in tables if isinstance(tables, list) else ():
        if not isinstance(table, dict):
            continue
        try:
            dialect = compiler.compile(table, [*BY_API])
        except (DeclarationError, RecursionError):  # they were checked when they were given: the tape was changed
            continue
        dialects[dialect.api] = dialect
    return *dialects.values(), *(dialect for dialect in shipped() if dialect.api not in dialects)


@functools.lru_cache(64)
def alternatives(declarations: str | None) -> tuple[tuple[DeclaredDialect, Alternative], ...]:
    """Return the ways to recognise each declared dialect, in their order."""
    return tuple((dialect, alternative) for dialect in declared(declarations) for alternative in dialect.match)


class Alternatives(NamedTuple):
    """Ways to recognise a declared dialect: those that need no event, and those that have to see the first one."""

    by_exchange: tuple[tuple[DeclaredDialect, Alternative], ...]
    by_event: tuple[tuple[DeclaredDialect, Alternative], ...]


def alternatives_of(declarations: str | None, method: str, path: str) -> Alternatives:
    """Return the ways by which requests of a method to a path may be recognised."""
    # Paths may differ in each request, by a tenant, a model or an id in them.
    return _alternatives_of(declarations, method, _path_words(declarations).known_part(path))


@functools.lru_cache(64)
def _path_words(declarations: str | None) -> matching.PathWords:
    return matching.PathWords(
        [pattern for _, alternative in alternatives(declarations) for pattern in alternative.patterns]
    )


@functools.lru_cache(256)
def _alternatives_of(declarations: str | None, method: str, path: str) -> Alternatives:
    possible = [
        (dialect, alternative)
        for dialect, alternative in alternatives(declarations)
        if alternative.may_ask(method, path)
    ]
    return Alternatives(
        tuple((dialect, alternative) for dialect, alternative in possible if alternative.first is None),
        tuple((dialect, alternative) for dialect, alternative in possible if alternative.first is not None),
    )


def is_posted_to(path: str, declarations: str | None = None) -> bool:
    """Return True if calls of a decoded API are posted to a path, on any server."""
    return operation.is_api(path) or any(alternative.is_at(path) for _, alternative in alternatives(declarations))


def dialect_named(api: str | None, declarations: str | None = None) -> Dialect | None:
    """Return the dialect with a name, built in or declared; None if there is none."""
    if api is None or api == "unknown" or api in BY_API:
        return BY_API.get(api or "")
    return next((dialect for dialect in declared(declarations) if dialect.api == api), None)


def tokens(chunk: Chunk) -> Tokens:
    """Return the counts that one chunk's own usage reports."""
    return tokens_of(chunk.api, chunk.usage)


def tokens_of(api: str, usage: JsonObject | None) -> Tokens:
    """Return the counts of the usage of an API; those of all declared dialects have the same names."""
    if not usage or not api:
        return Tokens()
    return BY_API[api].tokens(usage) if api in BY_API else compiler.tokens(usage)
