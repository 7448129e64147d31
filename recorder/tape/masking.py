"""Pure: the mask over secrets in texts that are made to be passed on, such as a cut or a page.

The tape keeps bodies as they came; what leaves it for others has each secret replaced by `*`, byte for byte, so that
reads, offsets and times stay true. A secret is found by its shape (`sk-…`, a JWT, a private key) or, in JSON, by the
name of its field (`"api_key": "…"`), also where that JSON is a text within other JSON.

Unlike in headers (`redact.py`), looks and names are weak in a body: `"token": " the"` is a part of log probabilities,
`"signature"` belongs to an answer's reasoning, ids link calls and conversations, and a picture in base64 has any four
letters somewhere. A name that has other meanings counts only with a value that looks like a key.
"""

import functools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from typing import Any, Final, NamedTuple

from wiretape.recorder.tape.redact import KEY_PREFIXES

Span = tuple[int, int]

_WORD: Final = re.compile(r"(?<![\w+-])[A-Za-z0-9][\w.:-][\w.=:-]{12,}", re.ASCII)
"""A word that is long enough to hold a key: to look for keys in these only takes a third of the time."""
# A letter behind a backslash is an escape of JSON, such as \n, and no part of a word.
_KEY: Final = re.compile(
    rf"(?:(?<![\w+-])|(?<=\\[bfnrt])|(?<=\\u[0-9a-fA-F]{{4}}))(?:{KEY_PREFIXES}|ek_|LTAI)[\w.=-]{{11,}}[\w=-]", re.ASCII
)
# Each begins with a character or a text that is found quickly.
_SHAPES: Final = (
    re.compile(r"[Bb](?i:earer|asic)\s{1,8}(?=[\w.~+/=-]*\d|[A-Za-z+/]{15,}=)[\w.~+/=-]{16,}", re.ASCII),
    # The end may be missing in a text that was cut off; another beginning is none of the key's lines.
    re.compile(
        r"-----BEGIN (?:[A-Z]{2,20} ){0,2}PRIVATE KEY(?: BLOCK)?-----(?:[\w+/=\s\\:,.]|-(?!----)){1,16384}"
        r"(?:-----END [A-Z ]{0,44}KEY(?: BLOCK)?-----)?", re.ASCII,
    ),
    re.compile(r"://(?P<secret>[^/\s\"'\\:@]{1,256}:[^/\s\"'\\@]{1,256})@"),
)  # fmt: skip
_IS_KEY: Final = re.compile(
    # Words of names have no digit: sk-learn-compatible. Behind `_`, names with a version have one: hf_hub_v2_cache.
    r"[a-z]+-(?=.*\d|.*[A-Za-z0-9]{16})|eyJ[\w-]+\.[\w-]{4}|AIza|(?:A[KS]IA|LTAI)[A-Z0-9a-z]{12}"
    r"|[a-z0-9]+[_.].*?(?:(?=[A-Za-z]{0,20}\d)[A-Za-z0-9]{10}|[A-Za-z0-9]{16})|(?:bot)?\d+:|SG\."
)
_VALUE: Final = re.compile(r"\"[ \t\r\n]*:[ \t\r\n]*(?P<escape>\\*)\"")
# In a text of JSON within JSON, a quotation mark has 1, 3 or 7 backslashes in front.
_DEPTHS: Final = frozenset({0, 1, 3, 7})
_QUOTE: Final = re.compile(r"(?<!\\)(\\*)\"")
_LONGEST_NAME: Final = 64
_LONGEST_VALUE: Final = 16384
"""Bound of a value's length: a search for each field's end through a whole body would take quadratic time."""
_NAME: Final = re.compile(
    r"(?:.*-)?(?:api-?key|(?:access|private|secret|signing|subscription|account|master|service|encryption)-?key"
    r"|(?:access|refresh|id|auth|authorization|bearer|security|session)-?token|secret|client-?secret|passw(?:or)?d"
    r"|passphrase|pwd|(?:proxy-)?authorization|credentials?|connection-?string|(?:set-)?cookie)"
)
_WEAK_NAME: Final = re.compile(r"(?:.*-)?(?:token|key|auth|pass|pat|jwt|bearer)")
_NOT_WEAK: Final = re.compile(
    r"(?:^|-)(?:page|continuation|sync|next|prev|previous|cursor|cache|idempotency|partition|sort|primary|foreign|public"
    r"|prompt|resume|stop|start|end|sample|sampled|image|file|object|row)(?:-|$)"
)
_KEY_LIKE: Final = re.compile(r"(?=[\w.~+=-]*[A-Za-z])(?=[\w.~+=-]*\d)(?=[\w.~+=-]*[A-Za-z0-9]{16})[\w.~+=-]{20,}")
_PLACEHOLDERS: Final = frozenset({"string", "null", "none", "true", "false", "optional", "required"})
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_FILLER: Final = re.compile(rb"[^\r\n]")


class Rules(NamedTuple):
    """What is masked: the matches of regular expressions, the values of fields of JSON, and what looks like a key."""

    patterns: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    secrets: bool = True


SECRETS: Final = Rules()


class Masker:
    """Finds what rules say; `count` says how much was replaced. Raises `re.error` for an invalid expression.

    Expressions are applied to the recorded text, where JSON is escaped; line ends stay.
    """

    def __init__(self, rules: Rules = SECRETS) -> None:
        self._patterns = [re.compile(pattern) for pattern in rules.patterns]
        self._fields = frozenset(map(_normal, rules.fields))
        self._masks_secrets = rules.secrets
        self.has_rules = bool(rules.patterns or rules.fields)
        self.limit: Callable[[], AbstractContextManager[object]] = nullcontext
        """Entered while the expressions search, which a program may limit in time."""
        self.count = 0

    def __call__(self, data: bytes) -> bytes:
        """Return data of the same length, masked."""
        spans = self.spans(data)
        self.count += len(spans)
        return masked(data, spans)

    def value(self, value: Any) -> Any:
        """Return a value with the texts in it masked, character for character."""
        if isinstance(value, str):
            spans = self.text_spans(value)
            self.count += len(spans)
            for start, end in spans:
                value = value[:start] + "*" * (end - start) + value[end:]
            return value
        if isinstance(value, dict):
            return {name: self.value(one) for name, one in value.items()}
        return [self.value(one) for one in value] if isinstance(value, list) else value

    def spans(self, data: bytes) -> list[Span]:
        """Return the byte ranges of secrets, ascending and apart from each other."""
        text = data.decode("utf-8", "surrogateescape")
        spans = self.text_spans(text)
        return spans if len(text) == len(data) else list(_in_bytes(text, spans))

    def text_spans(self, text: str) -> list[Span]:
        """Return the ranges of secrets in characters, as `spans` does."""
        with self.limit():
            spans = [match.span() for pattern in self._patterns for match in pattern.finditer(text)]
        if self._masks_secrets:
            words = (word.span() for word in _WORD.finditer(text))
            keys = (key for start, end in words for key in _KEY.finditer(text, start, end) if _IS_KEY.match(key[0]))
            spans += [key.span() for key in keys]
            spans += [match.span(match.lastgroup or 0) for shape in _SHAPES for match in shape.finditer(text)]
        if self._masks_secrets or self._fields:
            spans += filter(None, (self._secret_value(text, match) for match in _VALUE.finditer(text)))
        # What is masked already, as in a cut of a cut, is no secret any more.
        return joined((start, end) for start, end in spans if text[start:end].strip("*\r\n"))

    def _secret_value(self, text: str, field: re.Match[str]) -> Span | None:
        """Return the span of a field's value; None if it is no secret."""
        depth, start = len(field["escape"]), field.end()
        before = text[max(field.start() - _LONGEST_NAME, 0) : field.start()].rpartition('"')[2]
        name = before.rstrip("\\")
        if depth not in _DEPTHS or len(before) - len(name) != depth:
            return None
        is_rule = _normal(name) in self._fields
        is_strong, is_weak = _judged(name) if self._masks_secrets else (False, False)
        if not (is_rule or is_strong or is_weak):
            return None
        quotes = _QUOTE.finditer(text, start, start + _LONGEST_VALUE)
        # Twice as many backslashes and one more are a quotation mark within the value, pairs of them are backslashes.
        end = next((quote.end() - depth - 1 for quote in quotes if len(quote[1]) % (2 * depth + 2) == depth), None)
        if end is None:  # a body that was cut off ends within the value
            end = len(text) if len(text) <= start + _LONGEST_VALUE else start
        value = text[start:end]
        is_secret = is_rule or is_strong or _KEY_LIKE.fullmatch(value) is not None
        is_known = value.lower() in _PLACEHOLDERS or value.startswith("REDACTED")
        return (start, end) if is_secret and not is_known else None


def masked(data: bytes, spans: Sequence[Span]) -> bytes:
    """Return data with the bytes of spans replaced; line ends stay."""
    parts, position = list[bytes](), 0
    for start, end in spans:
        parts += [data[position:start], _FILLER.sub(b"*", data[start:end])]
        position = end
    return b"".join([*parts, data[position:]]) if spans else data


def joined(spans: Iterable[Span]) -> list[Span]:
    """Return spans in order, those that overlap as one."""
    found = list[Span]()
    for start, end in sorted(spans):
        if found and start < found[-1][1]:
            found[-1] = found[-1][0], max(end, found[-1][1])
        else:
            found.append((start, end))
    return found


def _in_bytes(text: str, spans: Sequence[Span]) -> Iterator[Span]:
    """Yield spans of characters, ascending, as spans of bytes."""
    borders = [0, *(border for span in spans for border in span)]
    offset, offsets = 0, list[int]()
    for start, end in pairwise(borders):
        offset += len(text[start:end].encode("utf-8", "surrogateescape"))
        offsets.append(offset)
    return zip(offsets[::2], offsets[1::2], strict=True)


@functools.lru_cache(4096)
def _judged(name: str) -> tuple[bool, bool]:
    """Return whether a name is that of a credential, and whether it may be."""
    plain = _normal(name)
    is_weak = _WEAK_NAME.fullmatch(plain) is not None and _NOT_WEAK.search(plain) is None
    return _NAME.fullmatch(plain) is not None, is_weak


def _normal(name: str) -> str:
    return _CAMEL.sub("-", name).lower().replace("_", "-")
