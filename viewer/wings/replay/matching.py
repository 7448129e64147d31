"""Pure: the choice of the recording that answers a request.

A request and a recorded one are compared by method, path and body. The rules:

- A path counts from below the upstream's URL, as the recorder routes it: with or without the provider's mount, with or
  without a version that is a part of the base URL. Neither the order of a query's fields nor the way in which a
  character is percent-encoded matters.
- A value redacted on the tape equals any credential, a secret masked in a body any secret: who replays has other keys.
- A body is compared as `comparing` has it, and with `strict` whole.
- The steps: the exchange that is named by its id; equal bytes; an equal body; and, in the mode `last` only, an equal
  last message where the ones before it, the system prompt or the tools differ, but no parameter; or, of requests that
  are no generation and name no model, the same path.
- Recordings that match equally well take turns; they are counted by the oldest of them, so that one that is recorded
  meanwhile comes last. In a `sequence` only the path counts, and it ends with its last recording.
- If nothing matches, the miss names the recording with the longest equal beginning of messages; of several the one
  with an equal last message, else the one with the fewest differences.

Each body of a recording is read once for its digest, and once for its messages, into an index.
"""

import bisect
import functools
import hashlib
import json
import random
import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, takewhile, zip_longest
from typing import Any, Final, Literal, NamedTuple
from urllib.parse import quote, unquote, unquote_to_bytes

from wiretape.recorder.decode import encoding
from wiretape.recorder.decode.operation import GENERATIONS, api_at, model_in_path
from wiretape.recorder.relay import apis, providers
from wiretape.recorder.relay.providers import Upstream
from wiretape.recorder.tape.masking import SECRETS, Masker, Rules, masked
from wiretape.recorder.tape.redact import Redactor
from wiretape.viewer.source.replayed import ExchangeHead
from wiretape.viewer.wings.replay.comparing import ComparedBody, Conversation, read_body

Mode = Literal["request", "last", "model", "sequence", "random", "id"]
MODES: Final[tuple[Mode, ...]] = ("request", "last", "model", "sequence", "random", "id")

Step = Literal["named", "equal", "fields", "last", "path", "model", "sequence", "random"]
"""Why a recording answers: it is named, its bytes are equal, or all that counts, or the last message, or only the path;
or it is chosen by the mode."""

_REDACTION_MARK = re.compile(r"REDACTED:sha256:[0-9a-f]{8}")
_ID_IN_PATH = re.compile(rb"/@([0-9A-Za-z-]{1,64})(/.*|$)", re.DOTALL)
_MOUNT = re.compile(rb"/([a-z0-9][a-z0-9_-]*)(?=[/?])")
_PLAIN_IN_FIELD = "!$'()*,;:@~/?"
_COUNTED_DIFFERENCES = 200
"""Limit of differences counted: two long conversations that differ from the start have thousands."""
_STARS: Final = re.compile(rb"\*{4,}")
_SHOWN_CHARACTERS = 48
_NAMED = 3
"""Limit of places that a message of one line names."""
_CANDIDATES = 50
"""Limit of recordings compared in detail to find the nearest: each body is read and parsed for it."""
_CONVERSING: Final = (None, "unknown", "count_tokens", "realtime", *GENERATIONS)
"""Operations whose requests are conversations; None and unknown are those of streams that could not be measured."""
_ABSENT: Final = object()
_REDACTOR: Final = Redactor(None)
_SHOWING: Final = json.JSONEncoder(ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class ReplayRequest:
    """A request: its target without what names an exchange (`id`) and forms, its body without a content coding.

    `version` is that of its HTTP.
    """

    method: str
    target: bytes
    body: bytes
    id: str | None = None
    headers: Sequence[tuple[bytes, bytes]] = ()
    forms: tuple[str, ...] | None = None
    version: str = "1.1"


class Match(NamedTuple):
    """The recording that answers a request, and the step that chose it; of `last`, the places that differ."""

    head: ExchangeHead
    step: Step
    differs: tuple[str, ...] = ()

    @property
    def notice(self) -> str:
        """The message about an answer whose request differs; empty if nothing that counts does."""
        if self.step != "last":
            return ""
        more = f" and {len(self.differs) - _NAMED} more" if len(self.differs) > _NAMED else ""
        names = ", ".join(self.differs[:_NAMED])
        return f"answered by {self.head.id}, whose last message is equal; differs in {names}{more}"


@dataclass(frozen=True, slots=True)
class Miss:
    """The reason that no recording answers a request; `nearest` differs least, in the fields `differs`.

    `is_unanswered`: it was recorded, but no answer came. `is_generation`: of the request.
    """

    message: str
    nearest: str | None = None
    differs: tuple[str, ...] = ()
    is_unanswered: bool = False
    is_generation: bool = False


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


@dataclass(slots=True)
class _Place:
    """The recordings at one method, upstream and path, oldest first: all of them, and an index of them."""

    heads: list[ExchangeHead] = field(default_factory=list)
    index: dict[Hashable, list[ExchangeHead]] = field(default_factory=dict)
    unread: dict[tuple[bool, bool], list[ExchangeHead]] = field(
        default_factory=lambda: {(False, False): [], (False, True): [], (True, False): [], (True, True): []}
    )
    """Those whose bodies are not in the index yet, with their secrets masked (True) or not; and their conversations."""

    def add(self, head: ExchangeHead) -> None:
        _insert(self.heads, head)
        for heads in self.unread.values():
            heads.append(head)
        self.enter(head, ("bytes", head.request_sha256))
        self.enter(head, ("model", head.model))
        if head.operation in ("models", "other") and head.model is None:
            self.enter(head, "path")

    def enter(self, head: ExchangeHead, key: Hashable) -> None:
        _insert(self.index.setdefault(key, []), head)


def _insert(heads: list[ExchangeHead], head: ExchangeHead) -> None:
    if heads and heads[-1].no > head.no:  # it has ended after a later one
        bisect.insort(heads, head, key=lambda sibling: sibling.no)
    else:
        heads.append(head)


def _merged(groups: Sequence[list[ExchangeHead]]) -> Sequence[ExchangeHead]:
    return groups[0] if len(groups) == 1 else sorted(chain.from_iterable(groups), key=lambda head: head.no)


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
        strict: bool = False,
    ) -> None:
        self._masker = Masker(redaction)
        self._masks: dict[int, bytes | None] = {}
        """The parts of bodies with secrets in their place, and None for those without, by their hash."""
        # A request is looked at several times: for a match, for its turn, and for the nearest recording.
        self._body_of = functools.lru_cache(4)(self._comparable_body)
        self._mode, self._bodies_of, self._ignored, self._needs_answer = mode, bodies_of, ignored, needs_answer
        self._random, self._kind, self._is_strict = random.Random(seed), kind, strict
        self.heads: list[ExchangeHead] = []
        self._by_id: dict[str, ExchangeHead] = {}
        self._by_path: dict[tuple[str, str, str], _Place] = {}
        self._upstreams: dict[str, list[Upstream]] = {}
        self._conversations: dict[tuple[int, bool], Conversation | None] = {}
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
            self._by_path.setdefault((head.method, head.upstream, _comparable(head.path)), _Place()).add(head)

    def find(self, request: ReplayRequest) -> Match | Miss:
        """Return the recording that answers a request, or why there is none."""
        if request.id is not None:  # whatever it asks for
            head = self._with_id(request.id)
            return head if isinstance(head, Miss) else Match(head, "named")
        if self._mode == "id":
            return Miss(
                "no exchange is named: send its id in the header X-Wiretape-Exchange, or begin the path by /@ID/"
            )
        places = self._at(request)
        if self._mode == "sequence":
            candidates = _merged([place.heads for place in places])
            if not candidates:
                return self._missed(request, places)
            if self._turns.get(candidates[0].no, 0) < len(candidates):
                return Match(candidates[self._turn(candidates)], self._mode)
            return Miss(f"the sequence is over: {len(candidates)} recorded for {_line(request)}, and this is one more")
        unanswered: ExchangeHead | None = None
        for step, matches in self._steps(request, places):
            if unanswered is not None and step in ("last", "path"):
                break
            if answered := [head for head in matches if head.is_answered] if self._needs_answer else matches:
                head = self._random.choice(answered) if self._mode == "random" else self._in_turn(answered)
                return Match(head, step, self._names_differing(head, request) if step == "last" else ())
            unanswered = matches[-1] if matches else unanswered
        if unanswered is None:
            return self._missed(request, places)
        message = f"no recording answers {_line(request)}: {unanswered.id} holds no answer ({unanswered.outcome})"
        return Miss(message, unanswered.id, ("answer",), is_unanswered=True)

    def _steps(self, request: ReplayRequest, places: Sequence[_Place]) -> Iterator[tuple[Step, Sequence[ExchangeHead]]]:
        """Yield the recordings that each step finds, in the order of their numbers: that of the recorded requests."""

        def indexed(key: Hashable) -> Sequence[ExchangeHead]:
            return _merged([place.index.get(key, []) for place in places])

        if not places:
            return
        if self._mode == "random":
            yield self._mode, _merged([place.heads for place in places])
            return
        if self._mode == "model":
            yield self._mode, indexed(("model", _model(request, self._body(request))))
            return
        # The same bytes need no body of a recording to be read.
        yield "equal", indexed(("bytes", hashlib.sha256(request.body).hexdigest()))
        same: Step = "fields" if request.body else "equal"
        body = self._body(request, is_masked=False)
        self._read(places, is_masked=False)
        yield same, indexed((False, body.digest))
        if is_masked := self._has_secret(request):
            body = self._body(request)
            self._read(places, is_masked=True)
            yield same, indexed((True, body.digest))
        if self._mode != "last" or self._is_strict:
            return
        if conversation := body.conversation:
            self._read(places, is_masked=is_masked, conversations=True)
            matches = indexed((is_masked, conversation.question))
            as_long = [head for head in matches if self._length(head, is_masked) == len(conversation.hashes)]
            yield "last", as_long or matches
        if _model(request, body) is None:
            yield "path", indexed("path")

    def _length(self, head: ExchangeHead, is_masked: bool) -> int:
        conversation = self._conversations[head.no, is_masked]
        return len(conversation.hashes) if conversation else 0

    def _has_secret(self, request: ReplayRequest) -> bool:
        """Return True if a request is to be compared with its secrets masked.

        To find those of all recordings takes ten times as long as all else. One that differs from a request without
        any in its own secrets differs with a mask for them, too, unless the request has such a mask.
        """
        if self._masker.has_rules or b"****" in request.body:
            return True
        return self._body(request).digest != self._body(request, is_masked=False).digest

    def _names_differing(self, head: ExchangeHead, request: ReplayRequest) -> tuple[str, ...]:
        (pair,) = self._with_bodies([head])
        return tuple(difference.name for difference in _differences(*pair, self._body(request)))

    def key(self, request: ReplayRequest) -> Hashable | None:
        """Return the key shared by requests that the same recordings answer; None if each request has its own."""
        if self._mode == "sequence":
            return None
        body = self._body(request)
        distinction = {"random": None, "model": _model(request, body)}.get(self._mode, body.digest)
        return request.method, _comparable(request.target.decode("latin-1")), distinction

    def replaced(self, request: ReplayRequest, until: int) -> Sequence[ExchangeHead]:
        """Return the recordings, with numbers up to `until`, that a new one of a request is to replace.

        They are those that answer it, but of a sequence the next one, and at random those of the same body.
        """
        places = self._at(request)
        if self._mode == "sequence":
            candidates = _merged([place.heads for place in places])
            turn = self._turn(candidates) if candidates and candidates[0].no <= until else 0
            return [head for head in candidates[turn : turn + 1] if head.no <= until]
        is_masked = self._has_secret(request)
        body = self._body(request, is_masked=is_masked)
        self._read(places, is_masked=is_masked)
        key = ("model", _model(request, body)) if self._mode == "model" else (is_masked, body.digest)
        return [head for place in places for head in place.index.get(key, []) if head.no <= until]

    def near(self, request: ReplayRequest) -> Sequence[ExchangeHead] | Miss:
        """Return the recordings that may answer a request whose body is still to come, oldest first."""
        if request.id is not None or self._mode == "id":
            match = self.find(request)
            return match if isinstance(match, Miss) else [match.head]
        places = self._at(request)
        return _merged([place.heads for place in places]) if places else self._missed(request, [])

    def meet(self, request: ReplayRequest) -> Match | Miss:
        """Return the recording that answers a request whose body comes too late to choose by it."""
        if request.id is not None or self._mode in ("id", "sequence", "random"):
            return self.find(request)
        near = self.near(request)
        return near if isinstance(near, Miss) else Match(self._in_turn(near), "path")

    def differing(self, head: ExchangeHead, label: str, recorded_message: bytes, message: bytes) -> Miss | None:
        """Return the difference of a later message from the recorded one; None if there is none that counts."""
        recorded_body, body = (self._body_of(data, _api(head.path)) for data in (recorded_message, message))
        if self._mode not in ("request", "last") or recorded_body.digest == body.digest:
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

    def _at(self, request: ReplayRequest) -> list[_Place]:
        # An upstream that the path names comes first: another one may have a path that begins with that name.
        for is_mounted in (True, False):
            keys = dict.fromkeys(self._keys(request, is_mounted=is_mounted))
            if places := [self._by_path[key] for key in keys if key in self._by_path]:
                return places
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

    def _read(self, places: Sequence[_Place], *, is_masked: bool, conversations: bool = False) -> None:
        """Enter the bodies, or conversations, of the recordings at these places into their index; each is read once."""
        for place in places:
            heads, place.unread[is_masked, conversations] = place.unread[is_masked, conversations], []
            for head, body in self._with_bodies(heads, is_masked=is_masked):
                if not conversations:
                    place.enter(head, (is_masked, body.digest if body else None))
                    continue
                conversation = self._conversations[head.no, is_masked] = body.conversation if body else None
                # The inputs of an embedding, say, are no conversation: the last of them asks for no answer alone.
                if conversation and head.operation in _CONVERSING:
                    place.enter(head, (is_masked, conversation.question))

    def _with_bodies(
        self, heads: Sequence[ExchangeHead], *, is_masked: bool = True
    ) -> Iterator[tuple[ExchangeHead, ComparedBody | None]]:
        for head, data in zip(heads, self._bodies_of(heads), strict=True):
            api = _api(head.path)
            yield head, None if data is None else self._comparable_body(data, api, is_masked=is_masked)

    def _body(self, request: ReplayRequest, *, is_masked: bool = True) -> ComparedBody:
        return self._body_of(request.body, _api(request.target.decode("latin-1")), is_masked=is_masked)

    def _comparable_body(self, data: bytes, api: str | None, *, is_masked: bool = True) -> ComparedBody:
        """Return a body as it is compared: with one mask for all secrets, as a test's key may have another length."""
        if is_masked and self._masker.has_rules:  # which are for the text of a whole body
            return read_body(self._masked(data), self._ignored, api, strict=self._is_strict)
        return read_body(data, self._ignored, api, strict=self._is_strict, mask=self._masked if is_masked else None)

    def _masked(self, data: bytes) -> bytes:
        """Return data with one mask for each secret; the same object if there is none."""
        key = hash(data)
        if key not in self._masks:
            plain = masked(data, self._masker.spans(data))
            plain = _STARS.sub(b"****", plain) if b"****" in plain else plain
            self._masks[key] = None if plain == data else plain
        return self._masks[key] or data

    def _in_turn(self, matches: Sequence[ExchangeHead]) -> ExchangeHead:
        return matches[self._turn(matches) % len(matches)]

    def _turn(self, matches: Sequence[ExchangeHead]) -> int:
        """Return the number of times that one of these was served before; later recordings are behind them."""
        turn = self._turns.get(matches[0].no, 0)
        self._turns[matches[0].no] = turn + 1
        return turn

    def _missed(self, request: ReplayRequest, places: Sequence[_Place]) -> Miss:
        """Describe the nearest recording and its differences."""
        if not self.heads:
            return Miss(f"no {self._kind} is recorded yet, so that nothing answers {_line(request)}")
        if not places:
            nearest = max(self.heads[-_CANDIDATES:], key=lambda head: _likeness(head, request))
            differs = "method" if nearest.path.encode() == request.target else "path"
            return Miss(
                f"no recording answers {_line(request)}: the nearest is {nearest.id}, which differs in its {differs}:"
                f" {_short(nearest.method)} {_short(nearest.path)}",
                nearest.id,
                (differs,),
            )
        is_masked, body = self._has_secret(request), self._body(request)
        self._read(places, is_masked=is_masked, conversations=True)
        conversation, nearest_heads, most = body.conversation, list[ExchangeHead](), (-1, False)
        for head in _merged([place.heads for place in places]):
            nearness = _nearness(self._conversations[head.no, is_masked], conversation)
            if nearness >= most:
                nearest_heads = [*(nearest_heads if nearness == most else []), head]
                most = nearness
        compared = [
            (_differences(head, recorded, body), head)
            for head, recorded in self._with_bodies(nearest_heads[-_CANDIDATES:])
        ]
        differences, head = min(compared, key=lambda pair: len(pair[0]))
        message = (
            f"no recording answers {_line(request)}: the nearest is {head.id}, which differs in {_summary(differences)}"
        )
        return Miss(message, head.id, tuple(difference.name for difference in differences))


def _nearness(recorded: Conversation | None, asked: Conversation | None) -> tuple[int, bool]:
    """Return the count of equal messages at the beginning, and True if the last one is equal."""
    if recorded is None or asked is None:
        return 0, False
    # The hash of a message is of all before it, too.
    equal = bisect.bisect_left(
        range(min(len(recorded.hashes), len(asked.hashes))),
        True,
        key=lambda place: recorded.hashes[place] != asked.hashes[place],
    )
    return equal, recorded.question == asked.question


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


def _api(path: str) -> str | None:
    return api_at(unquote(path))


def _model(request: ReplayRequest, body: ComparedBody) -> str | None:
    return body.model or model_in_path(request.target.decode("latin-1"))


def _likeness(head: ExchangeHead, request: ReplayRequest) -> tuple[int, bool, int]:
    targets = head.path, request.target.decode("latin-1")
    recorded_segments, asked_segments = (target.partition("?")[0].split("/") for target in targets)
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
    quoted = differences[:_NAMED]
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
