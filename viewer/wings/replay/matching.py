"""Pure: the choice of the recording that answers a request.

A request and a recorded one are compared by method, path and body. A path counts from below the upstream's URL, as the
recorder routes it: with or without the provider's mount, with or without a version that is a part of the base URL. A
value redacted on the tape equals any credential, a secret masked in a body any secret; neither the order of a query's
fields nor the way in which a character is percent-encoded matters. A body of JSON is compared by its values: neither
the order of keys nor white space matters.
"""

import bisect
import functools
import hashlib
import json
import math
import random
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import quote, unquote_to_bytes

import msgspec

from wiretape.recorder.decode import encoding
from wiretape.recorder.decode.operation import model_in_path
from wiretape.recorder.relay import apis, providers
from wiretape.recorder.relay.providers import Upstream
from wiretape.recorder.tape.masking import SECRETS, Masker, Rules, masked
from wiretape.recorder.tape.redact import Redactor
from wiretape.viewer.source.tape.replayed import ExchangeHead

Mode = Literal["request", "model", "sequence", "random", "id"]
MODES: Final[tuple[Mode, ...]] = ("request", "model", "sequence", "random", "id")

_MARK = re.compile(r"REDACTED:sha256:[0-9a-f]{8}")
_NAMED = re.compile(rb"/@([0-9A-Za-z-]{1,64})(/.*|$)", re.DOTALL)
_MOUNT = re.compile(rb"/([a-z0-9][a-z0-9_-]*)(?=[/?])")
_IN_FIELD = "!$'()*,;:@~/?"
_IN_SEGMENT = "!$&'()*+,;=:@~"
"""Characters that stand for themselves in a query's field, and in a segment of a path (RFC 3986, 3.3 and 3.4)."""
_LEAST_PREFIX = 4
_MOST_DIFFERENCES = 3
_COUNTED_DIFFERENCES = 200
_BODIES_READ: Final = 4
"""Bodies that are kept as they are compared: a request is looked at several times."""
_STARS: Final = re.compile(rb"\*{4,}")
_SHOWN = 48
_CANDIDATES = 50
"""Limit of recordings compared in detail to find the nearest."""
_EXACT = 1 << 53
"""Integers up to here are floats, too, each one its own."""
_ABSENT: Final = object()
_REDACTOR: Final = Redactor(None)


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """A request: its target without what names an exchange (`id`), its body without a content coding, its headers."""

    method: str
    target: bytes
    body: bytes
    id: str | None = None
    headers: Sequence[tuple[bytes, bytes]] = ()


class Body(NamedTuple):
    """A body as it is compared: its JSON value, or its bytes where it is not JSON, and the digest of either."""

    value: Any
    digest: bytes

    @property
    def model(self) -> str | None:
        model = self.value.get("model") if isinstance(self.value, dict) else None
        return model if isinstance(model, str) else None


@dataclass(frozen=True, slots=True)
class Miss:
    """The reason that no recording answers a request; `nearest` differs least, in the fields `differs`.

    `is_unanswered`: it was recorded, but no answer came.
    """

    message: str
    nearest: str | None = None
    differs: tuple[str, ...] = ()
    is_unanswered: bool = False


def named(target: bytes, header: bytes | None) -> tuple[bytes, str | None]:
    """Return a request's target and the id that it names: by the header, or by a path that begins with `/@ID/`."""
    if match := _NAMED.match(target):
        target = match[2] or b"/"
        return target, match[1].decode()
    return target, header.decode("latin-1").strip() if header else None


def uncoded(headers: Sequence[tuple[bytes, bytes]], body: bytes) -> bytes:
    """Return a request's body without its content coding, where that is understood."""
    return encoding.uncoded([(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers], body)


_HINTS: Final = ("prompt_cache_key",)
"""Fields that route a request and change no answer; programs such as OpenAI's Agents SDK write another one each run."""


def read_body(data: bytes, ignored: Sequence[str] = ()) -> Body:
    """Return a body as it is compared, without the fields that are `ignored`: `user`, `metadata.session`."""
    if not data:
        return Body(None, b"")
    try:
        value, encoded = _value_of(data.removeprefix(b"\xef\xbb\xbf"))
        for name in (*_HINTS, *ignored):
            _remove(value, name.split("."))
        canonical = encoded(value)
    except (ValueError, RecursionError, OverflowError):
        return Body(data, hashlib.sha256(_without_boundary(data)).digest())
    return Body(value, hashlib.sha256(canonical).digest())


def _value_of(data: bytes) -> tuple[Any, Callable[[Any], bytes]]:
    """Return the value of JSON, and its encoder to one canonical form. Raise ValueError or RecursionError.

    The fast decoder comes first: parsing holds up the streams being served.
    """
    try:
        return _JSON.decode(data), _SORTED.encode
    except (msgspec.DecodeError, ValueError, RecursionError):
        # Takes what msgspec refuses and programs send: lone surrogates, NaN.
        return json.loads(data, parse_float=_number), _sorted


def _sorted(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")


def _number(text: str) -> float | int:
    """Return a number as it is compared: 1.0 and 1e0 are 1."""
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text} is too large")
    return int(value) if value.is_integer() and abs(value) < _EXACT else value


_JSON: Final = msgspec.json.Decoder(float_hook=_number)
_SORTED: Final = msgspec.json.Encoder(order="sorted")
_SHOWING: Final = json.JSONEncoder(ensure_ascii=False)


def _without_boundary(data: bytes) -> bytes:
    """Return a multipart body without its boundary, which programs draw by lot for each request."""
    boundary = data.partition(b"\r\n")[0] if data.startswith(b"--") else b""
    is_multipart = len(boundary) > len(b"--") and data.rstrip(b"\r\n").endswith(boundary + b"--")
    return data.replace(boundary, b"--") if is_multipart else data


def _remove(value: object, path: Sequence[str]) -> None:
    if isinstance(value, list):
        for element in value:
            _remove(element, path)
    elif isinstance(value, dict):
        if len(path) == 1:
            value.pop(path[0], None)
        elif path[0] in value:
            _remove(value[path[0]], path[1:])


class Library:
    """The recordings, and their order; `bodies_of` reads the bodies of recorded requests.

    Recordings that match equally well take turns, except that a `sequence` ends with its last one. With
    `needs_answer`, recordings without an answer are skipped: upstream can answer the request. `kind` is their name in
    messages.
    """

    def __init__(
        self,
        mode: Mode,
        bodies_of: Callable[[Sequence[ExchangeHead]], Iterable[bytes | None]],
        ignored: Sequence[str] = (),
        seed: int = 0,
        *,
        needs_answer: bool = False,
        kind: str = "answer",
        redaction: Rules = SECRETS,
    ) -> None:
        self._mask = Masker(redaction)
        self._read = functools.lru_cache(_BODIES_READ)(self._comparable_body)
        self._mode, self._bodies_of, self._ignored, self._needs_answer = mode, bodies_of, ignored, needs_answer
        self._random, self._kind = random.Random(seed), kind
        self.heads: list[ExchangeHead] = []
        self._by_id: dict[str, ExchangeHead] = {}
        self._by_path: dict[tuple[str, str, str], list[ExchangeHead]] = {}
        self._upstreams: dict[str, list[Upstream]] = {}
        self._digests: dict[int, bytes | None] = {}
        self._turns: dict[int, int] = {}
        self.apart: set[str] = set()
        """The ids of exchanges that no sequence goes on with: they answered one of its requests already."""

    def add(self, heads: Sequence[ExchangeHead]) -> None:
        """Add recordings."""
        for head in heads:
            self.heads.append(head)
            self._by_id[head.id] = head
            if self._mode == "sequence" and head.id in self.apart:
                continue
            if head.upstream not in self._upstreams:
                self._upstreams[head.upstream] = mounts(head.upstream)
            same = self._by_path.setdefault((head.method, head.upstream, _comparable(head.path)), [])
            if same and same[-1].no > head.no:  # it has ended after a later one
                bisect.insort(same, head, key=lambda one: one.no)
            else:
                same.append(head)

    def find(self, asked: ReplayRequest) -> ExchangeHead | Miss:
        """Return the recording that answers a request, or why there is none."""
        if asked.id is not None:
            return self._with_id(asked.id)
        if self._mode == "id":
            return Miss(
                "no exchange is named: send its id in the header X-Wiretape-Exchange, or begin the path by /@ID/"
            )
        candidates = self._at(asked)
        if self._mode == "sequence":
            if not candidates:
                return self._missed(asked, [])
            if self._turns.get(candidates[0].no, 0) < len(candidates):
                return candidates[self._turn(candidates)]
            return Miss(f"the sequence is over: {len(candidates)} recorded for {_line(asked)}, and this is one more")
        fitting = self._exact(asked, candidates) or self._fitting(asked, self._read(asked.body), candidates)
        answered = self._answered(fitting)
        if answered:
            return self._random.choice(answered) if self._mode == "random" else self._in_turn(answered)
        return self._unanswered(asked, fitting[-1]) if fitting else self._missed(asked, candidates)

    def _answered(self, heads: Sequence[ExchangeHead]) -> Sequence[ExchangeHead]:
        return [head for head in heads if head.is_answered] if self._needs_answer else heads

    def _exact(self, asked: ReplayRequest, candidates: Sequence[ExchangeHead]) -> Sequence[ExchangeHead]:
        """Return the recordings of the same bytes, which no body needs to be read for."""
        if self._mode != "request":
            return ()
        digest = hashlib.sha256(asked.body).hexdigest()
        return self._answered([head for head in candidates if head.request_sha256 == digest])

    def _fitting(self, asked: ReplayRequest, body: Body, candidates: Sequence[ExchangeHead]) -> Sequence[ExchangeHead]:
        match self._mode:
            case "random":
                return candidates
            case "model":
                return [head for head in candidates if head.model == _model(asked, body)]
        return self._same(candidates, body)

    def key(self, asked: ReplayRequest) -> Hashable | None:
        """Return the key shared by requests that the same recordings answer; None if each request has its own."""
        if self._mode == "sequence":
            return None
        body = self._read(asked.body)
        what = {"random": None, "model": _model(asked, body)}.get(self._mode, body.digest)
        return asked.method, _comparable(asked.target.decode("latin-1")), what

    def before(self, asked: ReplayRequest, until: int) -> Sequence[ExchangeHead]:
        """Return the recordings, with numbers up to `until`, that a new one of a request is to replace.

        They are those that answer it, but of a sequence the next one, and at random those of the same body.
        """
        candidates = [head for head in self._at(asked) if head.no <= until]
        if self._mode == "sequence":
            turn = self._turn(candidates) if candidates else 0
            return candidates[turn : turn + 1]
        body = self._read(asked.body)
        fitting = self._fitting(asked, body, candidates)
        return self._same(fitting, body) if self._mode == "random" else fitting

    def near(self, asked: ReplayRequest) -> Sequence[ExchangeHead] | Miss:
        """Return the recordings that may answer a request whose body is still to come, oldest first."""
        if asked.id is not None or self._mode == "id":
            found = self.find(asked)
            return found if isinstance(found, Miss) else [found]
        return self._at(asked) or self._missed(asked, [])

    def meet(self, asked: ReplayRequest) -> ExchangeHead | Miss:
        """Return the recording that answers a request whose body comes too late to choose by it."""
        if asked.id is not None or self._mode in ("id", "sequence", "random"):
            return self.find(asked)
        found = self._at(asked)
        return self._in_turn(found) if found else self._missed(asked, [])

    def differing(self, head: ExchangeHead, what: str, recorded: bytes, asked: bytes) -> Miss | None:
        """Return the difference of a later message from the recorded one; None if there is none that counts."""
        own, body = self._read(recorded), self._read(asked)
        if self._mode != "request" or own.digest == body.digest:
            return None
        found = _told(_differing("", own.value, body.value))
        return Miss(f"{what} is not that of {head.id}: it differs in {_said(found)}", head.id, _names(found))

    def _with_id(self, id: str) -> ExchangeHead | Miss:
        if id in self._by_id:
            return self._by_id[id]
        fitting = [head for head in self.heads if head.id.startswith(id.lower())] if len(id) >= _LEAST_PREFIX else []
        if len(fitting) == 1:
            return fitting[0]
        which = "several recordings begin" if fitting else "no recording that has ended begins"
        return Miss(f"{which} with the id {_short(id)}")

    def _at(self, asked: ReplayRequest) -> list[ExchangeHead]:
        """Return the recordings of a request's method and path."""
        for mounted in (True, False):
            keys = dict.fromkeys(self._keys(asked, mounted))
            found = [self._by_path[key] for key in keys if key in self._by_path]
            if found:
                return found[0] if len(found) == 1 else sorted(chain.from_iterable(found), key=lambda head: head.no)
        return []

    def _keys(self, asked: ReplayRequest, mounted: bool) -> Iterator[tuple[str, str, str]]:
        """Yield the keys of a target: those of the upstreams that its first segment names, else of any."""
        mount = _MOUNT.match(asked.target)
        is_api = mount is not None and mount[1].decode() in apis.BY_NAME
        targets = [asked.target, *([asked.target[len(mount[0]) :]] if mount and is_api else [])]
        for url, upstreams in self._upstreams.items():
            chosen = [one for one in upstreams if one.name] if mounted else [one for one in upstreams if not one.name]
            for target in targets:
                if (route := providers.route(chosen, target)) is not None:
                    yield asked.method, url, _comparable(_REDACTOR.path(route[1].decode("latin-1")))

    def _same(self, heads: Sequence[ExchangeHead], body: Body) -> Sequence[ExchangeHead]:
        """Return those whose body is the same; each is read once."""
        unknown = [head for head in heads if head.no not in self._digests]
        for head, own in self._with_bodies(unknown):
            self._digests[head.no] = None if own is None else own.digest
        return [head for head in heads if self._digests[head.no] == body.digest]

    def _with_bodies(self, heads: Sequence[ExchangeHead]) -> Iterator[tuple[ExchangeHead, Body | None]]:
        for head, data in zip(heads, self._bodies_of(heads), strict=True):
            yield head, None if data is None else self._comparable_body(data)

    def _comparable_body(self, data: bytes) -> Body:
        """Return a body as it is compared: with one mask for all secrets, as a test's key may have another length."""
        plain = masked(data, self._mask.spans(data))
        return read_body(_STARS.sub(b"****", plain) if b"****" in plain else plain, self._ignored)

    def _in_turn(self, fitting: Sequence[ExchangeHead]) -> ExchangeHead:
        return fitting[self._turn(fitting) % len(fitting)]

    def _turn(self, fitting: Sequence[ExchangeHead]) -> int:
        """Return the number of times that one of these was served before; later recordings are behind them."""
        turn = self._turns.get(fitting[0].no, 0)
        self._turns[fitting[0].no] = turn + 1
        return turn

    def _unanswered(self, asked: ReplayRequest, head: ExchangeHead) -> Miss:
        message = f"no recording answers {_line(asked)}: {head.id} holds no answer ({head.outcome})"
        return Miss(message, head.id, ("answer",), is_unanswered=True)

    def _missed(self, asked: ReplayRequest, candidates: Sequence[ExchangeHead]) -> Miss:
        """Describe the nearest recording and its differences."""
        if not self.heads:
            return Miss(f"no {self._kind} is recorded yet, so that nothing answers {_line(asked)}")
        if not candidates:
            nearest = max(self.heads[-_CANDIDATES:], key=lambda head: _likeness(head, asked))
            differs = "method" if nearest.path.encode() == asked.target else "path"
            return Miss(
                f"no recording answers {_line(asked)}: the nearest is {nearest.id}, which differs in its {differs}:"
                f" {_short(nearest.method)} {_short(nearest.path)}",
                nearest.id,
                (differs,),
            )
        last, body = self._with_bodies(candidates[-_CANDIDATES:]), self._read(asked.body)
        compared = [(_differences(head, own, body), head) for head, own in last]
        found, head = min(compared, key=lambda pair: len(pair[0]))
        message = f"no recording answers {_line(asked)}: the nearest is {head.id}, which differs in {_said(found)}"
        return Miss(message, head.id, _names(found))


def _differences(head: ExchangeHead, own: Body | None, body: Body) -> list[tuple[str, str]]:
    if own is None:
        return [("body", "body: that of the recorded request is not on the tape as a whole")]
    if own.digest == body.digest:  # the model decides, and is in the path
        return [("model", f"model: {_short(head.model)} recorded")]
    return _told(_differing("", own.value, body.value))


def mounts(url: str) -> list[Upstream]:
    """Return an upstream as it is served at the root, and below the name of its API."""
    try:
        root = providers.make("", _MARK.sub("redacted", url))
    except ValueError:
        root = providers.make("", "http://unknown.invalid")
    named = [providers.make(root.api, root.url)] if root.api else []
    return [root, *named]


def _comparable(path: str) -> str:
    """Return a path as it is compared: with one percent-encoding and one mark of any key, its query in one order.

    Programs, cassettes and proxies write the same request differently: `%3a`, `%3A` or `:`; fields sorted or not.
    """
    head, _, query = (_MARK.sub("REDACTED", path) if "REDACTED" in path else path).partition("?")
    fields = [field.replace("+", " ").partition("=") for field in query.split("&") if field]
    named = [(_recoded(name, _IN_FIELD), mark + _recoded(value, _IN_FIELD)) for name, mark, value in fields]
    named.sort(key=lambda field: field[0])  # fields of one name are a list, whose order counts
    segments = "/".join(_recoded(segment, _IN_SEGMENT) for segment in head.split("/"))
    return "?".join([segments, *filter(None, ["&".join(name + value for name, value in named)])])


def _recoded(text: str, plain: str) -> str:
    return text if text.isalnum() and text.isascii() else quote(unquote_to_bytes(text), safe=plain)


def _model(asked: ReplayRequest, body: Body) -> str | None:
    return body.model or model_in_path(asked.target.decode("latin-1"))


def _likeness(head: ExchangeHead, asked: ReplayRequest) -> tuple[int, bool, int]:
    mine, theirs = head.path.split("/"), asked.target.decode("latin-1").split("/")
    tail = 0
    for one, other in zip(reversed(mine), reversed(theirs), strict=False):
        if one != other:
            break
        tail += 1
    return tail, head.method == asked.method, head.no


def _differing(name: str, mine: object, theirs: object) -> Iterator[tuple[str, Any, Any]]:
    """Yield the places where two JSON values differ."""
    if isinstance(mine, dict) and isinstance(theirs, dict):
        for key in [*mine, *(key for key in theirs if key not in mine)]:
            path = f"{name}.{key}" if name else str(key)
            yield from _differing(path, mine.get(key, _ABSENT), theirs.get(key, _ABSENT))
    elif isinstance(mine, list) and isinstance(theirs, list):
        for place, (one, other) in enumerate(zip_longest(mine, theirs, fillvalue=_ABSENT)):
            yield from _differing(f"{name}[{place}]", one, other)
    elif mine is _ABSENT or theirs is _ABSENT or type(mine) is not type(theirs) or mine != theirs:
        yield name or "body", mine, theirs


def _told(differing: Iterator[tuple[str, object, object]]) -> list[tuple[str, str]]:
    """Return the first places that differ, each with its description, as text that UTF-8 has bytes for."""
    clean = encoding.Cleaner().text
    return [
        (clean(name), clean(f"{name}: {_value(mine)} recorded, {_value(theirs)} asked"))
        for name, mine, theirs in islice(differing, _COUNTED_DIFFERENCES)
    ]


def _said(differences: Sequence[tuple[str, str]]) -> str:
    more = len(differences) - _MOST_DIFFERENCES
    said = "; ".join(difference for _, difference in differences[:_MOST_DIFFERENCES])
    counted = "many" if len(differences) == _COUNTED_DIFFERENCES else more
    return f"{said} and {counted} more" if more > 0 else said


def _names(differences: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    return tuple(name for name, _ in differences)


def _value(value: object) -> str:
    if value is _ABSENT:
        return "nothing"
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    text, value = "", value[:_SHOWN] if isinstance(value, str) else value
    for part in _SHOWING.iterencode(value):  # of a large value, only its beginning is written
        text += part
        if len(text) > _SHOWN:
            break
    return _short(text)


def _short(text: str | None) -> str:
    text = text or "none"
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def _line(asked: ReplayRequest) -> str:
    path = _REDACTOR.path(asked.target.partition(b"?")[0].decode("latin-1"))
    return f"{asked.method} {_short(path)}"
