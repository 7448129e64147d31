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

_WORD: Final = re.compile(r"(?<![\w+-])[A-Za-z0-9][\w.:/-][\w.=:/-]{12,}", re.ASCII)
"""A word that is long enough to hold a key: to look for keys in these only takes a third of the time."""
_SHORT_PREFIXES: Final = (
    r"ek_|LTAI|fw_|sk_|sbp_|ntn_|rpa_|e2b_|f[om][12]_|secret_|bb_live_|AQ\.Ab|1//0|pa-|pat(?=\w{14}\.)"
    r"|(?:SK|key-|key_|fc-)(?=[0-9a-f]{32})|(?<!/)EAA(?=[\w-]{60,400}(?![\w+/=-]))|sl\.(?=[\w-]{60})|esecret_|aph0_"
    r"|a[ks]-(?=[A-Za-z0-9]{22}(?![\w-]))|(?=[0-9a-f]{32}(?:-us\d{1,2}|\.[A-Za-z0-9]{16})(?!\w))"
    r"|(?=(?:[MNO][DTjz][AEIMQUYcgk][w-z0-5]){5}[\w-]{3,6}\.[\w-]{6}\.[\w-]{27,38}(?![\w-]))"
)
"""Beginnings of keys that begin other words of headers, too.

Sound in base64 can begin with EAA, but is longer; names of classes can have the form of the last, but do not begin with
digits in base64.
"""
# A letter behind a backslash is an escape of JSON, such as \n, and no part of a word.
_KEY: Final = re.compile(
    rf"(?:(?<![\w+-])|(?<=\\[bfnrt])|(?<=\\u[0-9a-fA-F]{{4}}))(?:{KEY_PREFIXES}|{_SHORT_PREFIXES})[\w.=-]{{11,}}[\w=-]",
    re.ASCII,
)
_IS_KEY: Final = re.compile(
    # Words of names have no digit, or a version: sk-learn-compatible, hf_hub_v2_cache. Pictures in base64 have no dot.
    r"(?!eyJ[^.]*$)(?:.*?(?:(?=[A-Za-z]{0,20}\d)[A-Za-z0-9]{10}|[A-Za-z0-9]{16})|(?=.*\d)(?=.*[a-z])(?=.*[A-Z]).{20})"
)
_SPACE: Final = r"(?:\s|\\{1,7}[nrt]){1,8}"
_GAP: Final = r"(?:\s|\\{1,7}[nrt]){0,32}"
# A password may begin with $, too. Names of variables are upper case (environment), or say what they hold ($db_pass1).
_REFERENCE: Final = (
    r"\$(?:[({]|(?i:env):|\w{1,64}(?:\[|->|\.|::)|(?:[A-Z_][A-Z0-9_]*|\d|[a-z_]{0,32}(?:user|login|pass|pw|secret|token|key"
    r"|auth|cred)[a-z_]{0,32}\d?)(?:[\s\"'\\@&;,:)\]}]|$))"
)
"""A reference to a variable, as in a shell or a template."""
_NO_EXAMPLE: Final = (
    rf"(?!{_REFERENCE})"
    r"(?![<{%*]|(?i:your|my|x{3}|example|changeme)|(?i:[a-z]{1,20}_){0,3}(?i:pass(?:w(?:or)?d)?|pwd?|secret|token|key)"
    r"(?:[\s\"'\\]|$))"
)
_QUOTED: Final = r"\"(?:[^\"\r\n\\]|\\{1,8}(?![nr\\\r\n])){0,256}\"|'(?:[^'\r\n\\]|\\{1,8}(?![nr\\\r\n])){0,256}'"
"""A text in quotation marks, which may be escaped, in one line."""
# Each begins with a character or a text that is found quickly.
_SHAPES: Final = (
    re.compile(r"[Bb](?i:earer|asic)\s{1,8}(?=[\w.~+/=-]*\d|[A-Za-z+/]{15,}=)[\w.~+/=-]{16,}", re.ASCII),
    # The end may be missing in a text that was cut off; another beginning is none of the key's lines.
    re.compile(
        r"-----BEGIN (?:[A-Z]{2,20} ){0,2}PRIVATE KEY(?: BLOCK)?-----(?:[\w+/=\s\\:,.]|-(?!----)){1,16384}"
        r"(?:-----END [A-Z ]{0,44}KEY(?: BLOCK)?-----)?", re.ASCII,
    ),
    # Documents show where a password goes: user:password@, <user>:<password>@, {user}:{password}@, $USER:$PASSWORD@
    re.compile(
        rf"://(?P<secret>(?!\w*:(?i:pass(?:word)?|pwd)@)[^/\s\"'\\:@<{{$]{{0,256}}:(?![<{{]|{_REFERENCE})"
        r"[^/\s\"'\\@]{1,256}"
        r"|[\w-]{20,256})@"
    ),
    re.compile(r"ookie: ?(?P<secret>[\w.-]{1,64}=(?![<{$])[^\r\n\"'\\]{8,4096})"),
    re.compile(r"://hooks\.slack\.com/services/(?P<secret>[\w/]{20,})"),
    re.compile(r"discord(?:app)?\.com/api/webhooks/\d{1,32}/(?P<secret>[\w-]{20,})"),
    re.compile(  # a line of netrc, or several; prose of machines and passwords has no host, or no login, and no digit
        rf"machine{_SPACE}(?:(?P<host>(?:[\w-]{{1,64}}\.[\w.-]{{1,256}}|localhost){_SPACE}(?=login))"
        rf"|[\w.-]{{1,256}}{_SPACE})(?:(?:login|account){_SPACE}[^\s\"'\\]{{1,256}}{_SPACE}){{0,2}}"
        rf"password{_SPACE}(?(host)|(?=[^\s\"'\\]{{0,256}}\d))(?P<secret>{_NO_EXAMPLE}[^\s\"'\\]{{3,256}})"
    ),
    re.compile(
        rf"default{_SPACE}login{_SPACE}[^\s\"'\\]{{1,256}}{_SPACE}password{_SPACE}"
        rf"(?P<secret>{_NO_EXAMPLE}[^\s\"'\\]{{3,256}})"
    ),
    re.compile(  # curl -u user:password, in one command, whose lines end with a backslash
        rf"curl(?:\.exe)?(?=[\s\\])(?>{_QUOTED}"
        r"|[^\r\n;|&\\c]|c(?!url(?:\.exe)?[\s\\])|&(?![&\s])|\\{3,8}n|\\{1,8}(?![nr\\\r\n])|\\\r?\n){1,4096}?"
        r"(?<=[\sn])(?:-[a-zA-Z]{0,8}u ?|-U ?|--(?:proxy-)?user[ =])(?:\\{0,7}[\"'])?(?!\d{1,5}:\d{1,5}(?!\w))"
        rf"[^\s\"'\\:/]{{1,128}}:(?P<secret>{_NO_EXAMPLE}[^\s\"'\\]{{3,256}})"
    ),
    re.compile(  # ["curl", "-u", "user:password"]: a list of arguments, up to its end
        rf"curl(?:\.exe)?\\{{0,7}}[\"']{_GAP},(?:[^\"']|[\"'](?!{_GAP}\])){{0,4096}}?(?<=[\"'])"
        rf"(?:-[a-zA-Z]{{0,8}}u|-U|--(?:proxy-)?user)(?:=|\\{{0,7}}[\"']{_GAP},{_GAP}\\{{0,7}}[\"'])?"
        rf"(?!\d{{1,5}}:\d{{1,5}}(?!\w))[^\s\"'\\:/]{{1,128}}:(?P<secret>{_NO_EXAMPLE}[^\s\"'\\]{{2,256}})"
    ),
)  # fmt: skip
_PAIR: Final = re.compile(
    # Also --option VALUE, <name>VALUE</name>, and a field of multipart/form-data
    # Both cases of each first letter: a search for these is three times as fast.
    r"(?P<stem>k(?i:ey)|K(?i:ey)|t(?i:oken)|T(?i:oken)|s(?i:ecret|ig)|S(?i:ecret|ig)|p(?i:assw(?:or)?d|assphrase|wd|ass)"
    r"|P(?i:assw(?:or)?d|assphrase|wd|ass)|a(?i:uth(?:orization)?)|A(?i:uth(?:orization)?)|c(?i:redentials?)"
    r"|C(?i:redentials?)|j(?i:wt)|J(?i:wt))"
    r"(?P<end>\\{0,7}[\"'])?(?P<sign>[ \t]{0,4}[=:][ \t]{0,4}|[ >]|\r\n\r\n)(?i:(?:bearer|basic|token|sso-key) )?"
    rf"(?P<quote>\\{{0,7}}[\"'`])?(?P<secret>(?!{_REFERENCE})"
    r"[^\s\"'`\\&;,<>(){}\[\]*][^\s\"'`\\&;,<>(){}\[\]]{5,4095})(?P<next>[\[({&]?)"
)
"""A name and its value in text, such as `DB_PASSWORD=…` of an environment and `client_secret=…&` of a form."""
_EXAMPLE: Final = re.compile(r"(?i:your|my)[_-]|(?i:x{3,}|\.{3}|example|placeholder|changeme|redacted)|[#%]\w*[})%]?$")
_NAMED_BEFORE: Final = re.compile(
    r"[\"{](?i:name|key)\\*\"(?:\s|\\+[nrt]){0,8}:(?:\s|\\+[nrt]){0,8}\\*\"(?P<name>[\w.-]{1,64})\\*\"(?:\s|\\+[nrt]){0,32},"
    r"(?:\s|\\+[nrt]){0,32}\\*\"$"
)
"""The name of a variable before its `"value"`, as in the environment of a container."""
_NAMED_AFTER: Final = re.compile(
    rf"\\*\"{_GAP},{_GAP}\\*\"(?i:name|key)\\*\"{_GAP}:{_GAP}\\*\"(?P<name>[\w.-]{{1,64}})\\*\""
)
_YAML_NAME: Final = r"(?:name|Name|key|Key):[ \t]{1,8}(?:\\{0,7}[\"'])?(?P<name>[\w.-]{1,64})(?:\\{0,7}[\"'])?"
_YAML_VALUE: Final = r"[vV]alue:[ \t]{1,8}(?:\\{0,7}[\"'])?(?P<secret>[^\s\"'\\]{3,4096})(?:\\{0,7}[\"'])?"
_YAML_VARIABLES: Final = (
    re.compile(rf"(?:(?<!\w)|(?<=\\n)){_YAML_NAME}{_SPACE}{_YAML_VALUE}"),
    re.compile(rf"(?:(?<!\w)|(?<=\\n)){_YAML_VALUE}{_SPACE}{_YAML_NAME}"),
)
"""The name and the value of a variable on two lines of YAML, as in the environment of a container."""
_VALUE: Final = re.compile(r"\"[ \t\r\n]*:[ \t\r\n]*(?P<escape>\\*)\"")
_QUOTE: Final = re.compile(r"(?<!\\)(\\*)\"")
_LONGEST_NAME: Final = 64
_LONGEST_PAIR: Final = 128
_LONGEST_VALUE: Final = 16384
"""Bound of a value's length: a search for each field's end through a whole body would take quadratic time."""
_KEY_LIKE: Final = re.compile(r"(?=[\w.~+=%-]*[A-Za-z])(?=[\w.~+=%-]*\d)(?=[\w.~+=%-]*[A-Za-z0-9]{16})[\w.~+=%-]{20,}")
_PLACEHOLDERS: Final = frozenset({"string", "null", "none", "true", "false", "optional", "required"})


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
            return {name: self.value(item) for name, item in value.items()}
        return [self.value(item) for item in value] if isinstance(value, list) else value

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
            spans += filter(None, (_assigned(text, match) for match in _PAIR.finditer(text)))
            spans += [
                match.span("secret")
                for variable in _YAML_VARIABLES
                for match in variable.finditer(text)
                if _is_secret_variable(match["name"], match["secret"])
            ]
        if self._masks_secrets or self._fields:
            spans += filter(None, (self._secret_value(text, match) for match in _VALUE.finditer(text)))
        # What is masked already, as in a cut of a cut, is no secret any more.
        return joined((start, end) for start, end in spans if text[start:end].strip("*\r\n"))

    def _secret_value(self, text: str, field: re.Match[str]) -> Span | None:
        """Return the span of a field's value; None if it is no secret."""
        depth, start = len(field["escape"]), field.end()
        escaped_name = text[max(field.start() - _LONGEST_NAME, 0) : field.start()].rpartition('"')[2]
        name = escaped_name.rstrip("\\")
        # In a text of JSON within JSON, a quotation mark has 1, 3 or 7 backslashes in front.
        if depth not in (0, 1, 3, 7) or len(escaped_name) - len(name) != depth:
            return None
        is_rule = _normal(name) in self._fields
        quotes = _QUOTE.finditer(text, start, start + _LONGEST_VALUE)
        # Twice as many backslashes and one more are a quotation mark within the value, pairs of them are backslashes.
        end = next((quote.end() - depth - 1 for quote in quotes if len(quote[1]) % (2 * depth + 2) == depth), None)
        if end is None:  # a body that was cut off ends within the value
            end = len(text) if len(text) <= start + _LONGEST_VALUE else start
        value = text[start:end]
        if value.lower() in _PLACEHOLDERS or value.startswith("REDACTED"):
            return None
        if is_rule or not self._masks_secrets:
            return (start, end) if is_rule else None
        if name.lower() == "value":
            begin = field.start() - len(escaped_name)
            variable = _NAMED_BEFORE.search(text, max(begin - _LONGEST_PAIR, 0), begin)
            variable = variable or _NAMED_AFTER.match(text, end, end + 2 * _LONGEST_PAIR)
            return (start, end) if variable and _is_secret_variable(variable["name"], value) else None
        is_strong, is_weak = _judged(name)
        return (start, end) if is_strong or (is_weak and _KEY_LIKE.fullmatch(value)) else None


_REFERENCED: Final = re.compile(_REFERENCE)


def _is_secret_variable(name: str, value: str) -> bool:
    """Return True if the value of a variable is a secret: labels of forms and translations have name and value, too."""
    is_strong, is_weak = _judged(name)
    if (is_strong or is_weak) and _KEY_LIKE.fullmatch(value):
        return True
    if not (is_strong or (is_weak and name.isupper() and len(value) >= 12)):
        return False
    is_example = _EXAMPLE.match(value) or _REFERENCED.match(value) or value.lower() in _PLACEHOLDERS
    return not is_example and " " not in value and (name.isupper() or any(map(str.isdigit, value)))


_NAME_BEFORE: Final = re.compile(r"(?:\\(?:u[0-9a-fA-F]{4}|[bfnrt]))?(?P<name>[\w.-]{0,64})$", re.ASCII)
_IDENTIFIER: Final = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*\.?", re.ASCII)


def _assigned(text: str, pair: re.Match[str]) -> Span | None:
    """Return the span of a value that a text gives to a name; None if it is no secret, or code that computes one."""
    beginning = max(pair.start() - _LONGEST_NAME, 0)
    prefix = _NAME_BEFORE.search(text, beginning, pair.start())
    name = (prefix["name"] if prefix else "").rpartition(".")[2] + pair["stem"]
    sign, value, start = pair["sign"].strip(" \t"), pair["secret"], pair.end("stem") - len(name)
    is_strong, is_weak = _judged(name)
    if pair["end"] and not pair["quote"] and "\n" not in sign:  # a number of JSON
        return None
    if _KEY_LIKE.fullmatch(value):
        return pair.span("secret") if is_strong or is_weak else None
    if not is_strong or not (sign or name.startswith("--")) or _EXAMPLE.match(value):
        return None
    if text[start - 1 : start] in ("?", "&") or pair["next"] == "&" or "\n" in sign:  # of a form
        return pair.span("secret")
    is_code = pair["next"] != "" or (not pair["quote"] and "." in value and _IDENTIFIER.fullmatch(value))
    is_variable = name.isupper() and pair["sign"] == "="  # of an environment
    return pair.span("secret") if not is_code and (is_variable or any(map(str.isdigit, value))) else None


_FILLER: Final = re.compile(rb"[^\r\n]")


def masked(data: bytes, spans: Sequence[Span]) -> bytes:
    """Return data with the bytes of spans replaced; line ends stay."""
    parts, position = list[bytes](), 0
    for start, end in spans:
        parts += [data[position:start], _FILLER.sub(b"*", data[start:end])]
        position = end
    return b"".join([*parts, data[position:]]) if spans else data


def joined(spans: Iterable[Span]) -> list[Span]:
    """Return spans in order, those that overlap as one."""
    merged = list[Span]()
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged


def _in_bytes(text: str, spans: Sequence[Span]) -> Iterator[Span]:
    """Yield spans of characters, ascending, as spans of bytes."""
    borders = [0, *(border for span in spans for border in span)]
    offset, offsets = 0, list[int]()
    for start, end in pairwise(borders):
        offset += len(text[start:end].encode("utf-8", "surrogateescape"))
        offsets.append(offset)
    return zip(offsets[::2], offsets[1::2], strict=True)


_WEAK_NAME: Final = re.compile(r"(?:.*-)?(?:token|key|auth|pass|pat|jwt|bearer|sig)")
_NAME: Final = re.compile(
    r"(?:.*-)?(?:api-?key|(?:access|private|secret|signing|subscription|account|master|service|encryption)-?key"
    r"|(?:access|refresh|id|auth|authorization|bearer|security|session|api|bot|sas)-?token|secret|client-?secret|[a-z]*passw(?:or)?d"
    r"|passphrase|pwd|passcode|secret-key-base|(?:proxy-)?authorization|credentials?|connection-?string|(?:set-)?cookie)"
)
_NOT_WEAK: Final = re.compile(
    r"(?:^|-)(?:page|continuation|sync|next|prev|previous|cursor|cache|idempotency|partition|sort|primary|foreign|public"
    r"|prompt|resume|stop|start|end|sample|sampled|image|file|object|row)(?:-|$)"
)


@functools.lru_cache(4096)
def _judged(name: str) -> tuple[bool, bool]:
    """Return whether a name is that of a credential, and whether it may be."""
    plain = _normal(name)
    is_weak = _WEAK_NAME.fullmatch(plain) is not None and _NOT_WEAK.search(plain) is None
    return _NAME.fullmatch(plain) is not None, is_weak


_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def _normal(name: str) -> str:
    return _CAMEL.sub("-", name).lower().replace("_", "-")
