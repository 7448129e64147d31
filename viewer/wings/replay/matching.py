"""Pure: the choice of the recording that answers a request.

A request and a recorded one are compared by method, path and body. The rules:

- A path counts from below the upstream's URL, as the recorder routes it: with or without the provider's mount, with or
  without a version that is a part of the base URL. Neither the order of a query's fields nor the way in which a
  character is percent-encoded matters.
- A value redacted on the tape equals any credential, a secret masked in a body any secret: who replays has other keys.
- A body of JSON is compared by its values: neither the order of keys nor white space matters. Fields that change no
  answer are left out (`_HINTS`), and so is what a user ignores, and the boundary of multipart forms.
- Recordings that match equally well take turns; they are counted by the oldest of them, so that one that is recorded
  meanwhile comes last. In a `sequence` only the path counts, and it ends with its last recording.
- If nothing matches, the miss names the recording with the fewest differences.
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
from itertools import chain, islice, takewhile, zip_longest
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import quote, unquote_to_bytes

import msgspec

from wiretape.recorder.decode import encoding
from wiretape.recorder.decode.operation import model_in_path
from wiretape.recorder.relay import apis, providers
from wiretape.recorder.relay.providers import Upstream
from wiretape.recorder.tape.masking import SECRETS, Masker, Rules, masked
from wiretape.recorder.tape.redact import Redactor
from wiretape.viewer.source.replayed import ExchangeHead

Mode = Literal["request", "model", "sequence", "random", "id"]
MODES: Final[tuple[Mode, ...]] = ("request", "model", "sequence", "random", "id")

_REDACTION_MARK = re.compile(r"REDACTED:sha256:[0-9a-f]{8}")
_ID_IN_PATH = re.compile(rb"/@([0-9A-Za-z-]{1,64})(/.*|$)", re.DOTALL)
_MOUNT = re.compile(rb"/([a-z0-9][a-z0-9_-]*)(?=[/?])")
_PLAIN_IN_FIELD = "!$'()*,;:@~/?"
_COUNTED_DIFFERENCES = 200
"""Limit of differences counted: two long conversations that differ from the start have thousands."""
_STARS: Final = re.compile(rb"\*{4,}")
_SHOWN_CHARACTERS = 48
_CANDIDATES = 50
"""Limit of recordings compared in detail to find the nearest: each body is read and parsed for it."""
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


class ComparedBody(NamedTuple):
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


class _Difference(NamedTuple):
    """A place that differs from the recording, such as `messages[0].content`, and its values there."""

    name: str
    text: str


def read_target(target: bytes, header: bytes | None) -> tuple[bytes, str | None]:
    """Return a request's target and the id that it names: by the header, or by a path that begins with `/@ID/`."""
    if match := _ID_IN_PATH.match(target):
        target = match[2] or b"/"
        return target, match[1].decode()
    return target, header.decode("latin-1").strip() if header else None


def uncoded(headers: Sequence[tuple[bytes, bytes]], body: bytes) -> bytes:
    """Return a request's body without its content coding, where that is understood."""
    return encoding.uncoded([(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers], body)


def read_body(data: bytes, ignored: Sequence[str] = ()) -> ComparedBody:
    """Return a body as it is compared, without the fields that are `ignored`: `user`, `metadata.session`."""
    if not data:
        return ComparedBody(None, b"")
    try:
        value, encoded = _value_of(data.removeprefix(b"\xef\xbb\xbf"))
        # This one routes a request and changes no answer; OpenAI's Agents SDK, for one, writes another one each run.
        for name in ("prompt_cache_key", *ignored):
            _remove(value, name.split("."))
        canonical = encoded(value)
    except (ValueError, RecursionError, OverflowError):
        # Programs draw the boundary of a multipart body by lot for each request.
        boundary = data.partition(b"\r\n")[0] if data.startswith(b"--") else b""
        is_multipart = len(boundary) > len(b"--") and data.rstrip(b"\r\n").endswith(boundary + b"--")
        return ComparedBody(data, hashlib.sha256(data.replace(boundary, b"--") if is_multipart else data).digest())
    return ComparedBody(value, hashlib.sha256(canonical).digest())


def _value_of(data: bytes) -> tuple[Any, Callable[[Any], bytes]]:
    """Return the value of JSON, and its encoder to one canonical form. Raise ValueError or RecursionError.

    The fast decoder comes first: parsing holds up the streams being served.
    """
    try:
        return _JSON.decode(data), _SORTED.encode
    except (msgspec.DecodeError, ValueError, RecursionError):
        # Python's parser takes what msgspec refuses and programs send: lone surrogates, NaN.
        encoder = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        value = json.loads(data, parse_float=_number)
        return value, lambda value: encoder.encode(value).encode("utf-8", "surrogatepass")


def _number(text: str) -> float | int:
    """Return a number as it is compared: 1.0 and 1e0 are 1."""
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text} is too large")
    # Up to 2⁵³, each integer is a float of its own.
    return int(value) if value.is_integer() and abs(value) < 1 << 53 else value


_JSON: Final = msgspec.json.Decoder(float_hook=_number)
_SORTED: Final = msgspec.json.Encoder(order="sorted")
_SHOWING: Final = json.JSONEncoder(ensure_ascii=False)


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
        # A request is looked at several times: for a match, for its turn, and for the nearest recording.
        self._body_of = functools.lru_cache(4)(self._comparable_body)
        self._mode, self._bodies_of, self._ignored, self._needs_answer = mode, bodies_of, ignored, needs_answer
        self._random, self._kind = random.Random(seed), kind
        self.heads: list[ExchangeHead] = []
        self._by_id: dict[str, ExchangeHead] = {}
        self._by_path: dict[tuple[str, str, str], list[ExchangeHead]] = {}
        self._upstreams: dict[str, list[Upstream]] = {}
        self._digests: dict[int, bytes | None] = {}
        self._turns: dict[int, int] = {}
        self.answered_earlier: set[str] = set()
        """The ids of exchanges that no sequence goes on with: they answered one of its requests already."""

    def add(self, heads: Sequence[ExchangeHead]) -> None:
        """Add recordings, which are looked up by their id and by their path."""
        for head in heads:
            self.heads.append(head)
            self._by_id[head.id] = head
            if self._mode == "sequence" and head.id in self.answered_earlier:
                continue
            if head.upstream not in self._upstreams:
                self._upstreams[head.upstream] = mounts(head.upstream)
            siblings = self._by_path.setdefault((head.method, head.upstream, _comparable(head.path)), [])
            if siblings and siblings[-1].no > head.no:  # it has ended after a later one
                bisect.insort(siblings, head, key=lambda sibling: sibling.no)
            else:
                siblings.append(head)

    def find(self, request: ReplayRequest) -> ExchangeHead | Miss:
        """Return the recording that answers a request, or why there is none."""
        if request.id is not None:  # whatever it asks for
            return self._with_id(request.id)
        if self._mode == "id":
            return Miss(
                "no exchange is named: send its id in the header X-Wiretape-Exchange, or begin the path by /@ID/"
            )
        candidates = self._at(request)  # in the order of their numbers, which is that of the recorded requests
        if self._mode == "sequence":
            if not candidates:
                return self._missed(request, [])
            if self._turns.get(candidates[0].no, 0) < len(candidates):
                return candidates[self._turn(candidates)]
            return Miss(f"the sequence is over: {len(candidates)} recorded for {_line(request)}, and this is one more")
        matches: Sequence[ExchangeHead] = ()
        if self._mode == "request":  # the same bytes need no body of a recording to be read
            digest = hashlib.sha256(request.body).hexdigest()
            matches = self._answered([head for head in candidates if head.request_sha256 == digest])
        matches = matches or self._matches(request, self._body_of(request.body), candidates)
        answered = self._answered(matches)
        if answered:
            return self._random.choice(answered) if self._mode == "random" else self._in_turn(answered)
        if not matches:
            return self._missed(request, candidates)
        head = matches[-1]
        message = f"no recording answers {_line(request)}: {head.id} holds no answer ({head.outcome})"
        return Miss(message, head.id, ("answer",), is_unanswered=True)

    def _answered(self, heads: Sequence[ExchangeHead]) -> Sequence[ExchangeHead]:
        return [head for head in heads if head.is_answered] if self._needs_answer else heads

    def _matches(
        self, request: ReplayRequest, body: ComparedBody, candidates: Sequence[ExchangeHead]
    ) -> Sequence[ExchangeHead]:
        match self._mode:
            case "random":
                return candidates
            case "model":
                return [head for head in candidates if head.model == _model(request, body)]
        return self._with_same_body(candidates, body)

    def key(self, request: ReplayRequest) -> Hashable | None:
        """Return the key shared by requests that the same recordings answer; None if each request has its own."""
        if self._mode == "sequence":
            return None
        body = self._body_of(request.body)
        distinction = {"random": None, "model": _model(request, body)}.get(self._mode, body.digest)
        return request.method, _comparable(request.target.decode("latin-1")), distinction

    def replaced(self, request: ReplayRequest, until: int) -> Sequence[ExchangeHead]:
        """Return the recordings, with numbers up to `until`, that a new one of a request is to replace.

        They are those that answer it, but of a sequence the next one, and at random those of the same body.
        """
        candidates = [head for head in self._at(request) if head.no <= until]
        if self._mode == "sequence":
            turn = self._turn(candidates) if candidates else 0
            return candidates[turn : turn + 1]
        body = self._body_of(request.body)
        matches = self._matches(request, body, candidates)
        return self._with_same_body(matches, body) if self._mode == "random" else matches

    def near(self, request: ReplayRequest) -> Sequence[ExchangeHead] | Miss:
        """Return the recordings that may answer a request whose body is still to come, oldest first."""
        if request.id is not None or self._mode == "id":
            match = self.find(request)
            return match if isinstance(match, Miss) else [match]
        return self._at(request) or self._missed(request, [])

    def meet(self, request: ReplayRequest) -> ExchangeHead | Miss:
        """Return the recording that answers a request whose body comes too late to choose by it."""
        if request.id is not None or self._mode in ("id", "sequence", "random"):
            return self.find(request)
        candidates = self._at(request)
        return self._in_turn(candidates) if candidates else self._missed(request, [])

    def differing(self, head: ExchangeHead, label: str, recorded_message: bytes, message: bytes) -> Miss | None:
        """Return the difference of a later message from the recorded one; None if there is none that counts."""
        recorded_body, body = self._body_of(recorded_message), self._body_of(message)
        if self._mode != "request" or recorded_body.digest == body.digest:
            return None
        differences = _described(_differing("", recorded_body.value, body.value))
        return Miss(
            f"{label} is not that of {head.id}: it differs in {_summary(differences)}",
            head.id,
            tuple(difference.name for difference in differences),
        )

    def _with_id(self, id: str) -> ExchangeHead | Miss:
        if id in self._by_id:
            return self._by_id[id]
        matches = [head for head in self.heads if head.id.startswith(id.lower())] if len(id) >= 4 else []
        if len(matches) == 1:
            return matches[0]
        which = "several recordings begin" if matches else "no recording that has ended begins"
        return Miss(f"{which} with the id {_short(id)}")

    def _at(self, request: ReplayRequest) -> list[ExchangeHead]:
        # An upstream that the path names comes first: another one may have a path that begins with that name.
        for is_mounted in (True, False):
            keys = dict.fromkeys(self._keys(request, is_mounted=is_mounted))
            groups = [self._by_path[key] for key in keys if key in self._by_path]
            if groups:
                return groups[0] if len(groups) == 1 else sorted(chain.from_iterable(groups), key=lambda head: head.no)
        return []

    def _keys(self, request: ReplayRequest, *, is_mounted: bool) -> Iterator[tuple[str, str, str]]:
        """Yield the keys of a target: those of the upstreams that its first segment names, else of any."""
        mount = _MOUNT.match(request.target)
        is_api = mount is not None and mount[1].decode() in apis.BY_NAME
        targets = [request.target, *([request.target[len(mount[0]) :]] if mount and is_api else [])]
        for url, upstreams in self._upstreams.items():
            chosen = [upstream for upstream in upstreams if bool(upstream.name) == is_mounted]
            for target in targets:
                if (route := providers.route(chosen, target)) is not None:
                    yield request.method, url, _comparable(_REDACTOR.path(route[1].decode("latin-1")))

    def _with_same_body(self, heads: Sequence[ExchangeHead], body: ComparedBody) -> Sequence[ExchangeHead]:
        """Return those whose body is the same; each is read once."""
        unknown = [head for head in heads if head.no not in self._digests]
        for head, recorded in self._with_bodies(unknown):
            self._digests[head.no] = None if recorded is None else recorded.digest
        return [head for head in heads if self._digests[head.no] == body.digest]

    def _with_bodies(self, heads: Sequence[ExchangeHead]) -> Iterator[tuple[ExchangeHead, ComparedBody | None]]:
        for head, data in zip(heads, self._bodies_of(heads), strict=True):
            yield head, None if data is None else self._comparable_body(data)

    def _comparable_body(self, data: bytes) -> ComparedBody:
        """Return a body as it is compared: with one mask for all secrets, as a test's key may have another length."""
        plain = masked(data, self._mask.spans(data))
        return read_body(_STARS.sub(b"****", plain) if b"****" in plain else plain, self._ignored)

    def _in_turn(self, matches: Sequence[ExchangeHead]) -> ExchangeHead:
        return matches[self._turn(matches) % len(matches)]

    def _turn(self, matches: Sequence[ExchangeHead]) -> int:
        """Return the number of times that one of these was served before; later recordings are behind them."""
        turn = self._turns.get(matches[0].no, 0)
        self._turns[matches[0].no] = turn + 1
        return turn

    def _missed(self, request: ReplayRequest, candidates: Sequence[ExchangeHead]) -> Miss:
        """Describe the nearest recording and its differences."""
        if not self.heads:
            return Miss(f"no {self._kind} is recorded yet, so that nothing answers {_line(request)}")
        if not candidates:
            nearest = max(self.heads[-_CANDIDATES:], key=lambda head: _likeness(head, request))
            differs = "method" if nearest.path.encode() == request.target else "path"
            return Miss(
                f"no recording answers {_line(request)}: the nearest is {nearest.id}, which differs in its {differs}:"
                f" {_short(nearest.method)} {_short(nearest.path)}",
                nearest.id,
                (differs,),
            )
        body = self._body_of(request.body)
        newest = self._with_bodies(candidates[-_CANDIDATES:])
        compared = [(_differences(head, recorded, body), head) for head, recorded in newest]
        differences, head = min(compared, key=lambda pair: len(pair[0]))
        message = (
            f"no recording answers {_line(request)}: the nearest is {head.id}, which differs in {_summary(differences)}"
        )
        return Miss(message, head.id, tuple(difference.name for difference in differences))


def _differences(head: ExchangeHead, recorded: ComparedBody | None, body: ComparedBody) -> list[_Difference]:
    if recorded is None:
        return [_Difference("body", "body: that of the recorded request is not on the tape as a whole")]
    if recorded.digest == body.digest:  # the model decides, and is in the path
        return [_Difference("model", f"model: {_short(head.model)} recorded")]
    return _described(_differing("", recorded.value, body.value))


def mounts(url: str) -> list[Upstream]:
    """Return an upstream as it is served at the root, and below the name of its API."""
    try:
        root = providers.make("", _REDACTION_MARK.sub("redacted", url))
    except ValueError:
        root = providers.make("", "http://unknown.invalid")
    by_name = [providers.make(root.api, root.url)] if root.api else []
    return [root, *by_name]


def _comparable(path: str) -> str:
    """Return a path as it is compared: with one percent-encoding and one mark of any key, its query in one order.

    Programs, cassettes and proxies write the same request differently: `%3a`, `%3A` or `:`; fields sorted or not.
    """
    head, _, query = (_REDACTION_MARK.sub("REDACTED", path) if "REDACTED" in path else path).partition("?")
    fields = [field.replace("+", " ").partition("=") for field in query.split("&") if field]
    pairs = [(_recoded(name, _PLAIN_IN_FIELD), mark + _recoded(value, _PLAIN_IN_FIELD)) for name, mark, value in fields]
    pairs.sort(key=lambda field: field[0])  # fields of one name are a list, whose order counts
    # Characters that stand for themselves in a segment of a path (RFC 3986, 3.3).
    plain_signs = "!$&'()*+,;=:@~"
    segments = "/".join(_recoded(segment, plain_signs) for segment in head.split("/"))
    return "?".join([segments, *filter(None, ["&".join(name + value for name, value in pairs)])])


def _recoded(text: str, plain: str) -> str:
    return text if text.isalnum() and text.isascii() else quote(unquote_to_bytes(text), safe=plain)


def _model(request: ReplayRequest, body: ComparedBody) -> str | None:
    return body.model or model_in_path(request.target.decode("latin-1"))


def _likeness(head: ExchangeHead, request: ReplayRequest) -> tuple[int, bool, int]:
    recorded_segments, asked_segments = head.path.split("/"), request.target.decode("latin-1").split("/")
    pairs = zip(reversed(recorded_segments), reversed(asked_segments), strict=False)
    tail = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return tail, head.method == request.method, head.no


def _differing(name: str, mine: object, theirs: object) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(mine, dict) and isinstance(theirs, dict):
        for key in [*mine, *(key for key in theirs if key not in mine)]:
            path = f"{name}.{key}" if name else str(key)
            yield from _differing(path, mine.get(key, _ABSENT), theirs.get(key, _ABSENT))
    elif isinstance(mine, list) and isinstance(theirs, list):
        for place, (mine_item, theirs_item) in enumerate(zip_longest(mine, theirs, fillvalue=_ABSENT)):
            yield from _differing(f"{name}[{place}]", mine_item, theirs_item)
    elif mine is _ABSENT or theirs is _ABSENT or type(mine) is not type(theirs) or mine != theirs:
        yield name or "body", mine, theirs


def _described(differing: Iterator[tuple[str, object, object]]) -> list[_Difference]:
    """Return the first places that differ, as text that UTF-8 has bytes for."""
    clean = encoding.Cleaner().text
    return [
        _Difference(clean(name), clean(f"{name}: {_value(mine)} recorded, {_value(theirs)} asked"))
        for name, mine, theirs in islice(differing, _COUNTED_DIFFERENCES)
    ]


def _summary(differences: Sequence[_Difference]) -> str:
    quoted = differences[:3]  # a message of one line
    more = len(differences) - len(quoted)
    text = "; ".join(difference.text for difference in quoted)
    counted = "many" if len(differences) == _COUNTED_DIFFERENCES else more
    return f"{text} and {counted} more" if more > 0 else text


def _value(value: object) -> str:
    if value is _ABSENT:
        return "nothing"
    if isinstance(value, bytes):
        return f"{len(value)} bytes"
    text, value = "", value[:_SHOWN_CHARACTERS] if isinstance(value, str) else value
    for part in _SHOWING.iterencode(value):  # of a large value, only its beginning is written
        text += part
        if len(text) > _SHOWN_CHARACTERS:
            break
    return _short(text)


def _short(text: str | None) -> str:
    text = text or "none"
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 1]}…"


def _line(request: ReplayRequest) -> str:
    path = _REDACTOR.path(request.target.partition(b"?")[0].decode("latin-1"))
    return f"{request.method} {_short(path)}"
