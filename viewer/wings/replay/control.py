"""Controls answers while they are sent: by requests below `/@control`, and by calls from other threads.

Requests are numbered from 1. A verb for requests to come is an entry in a list. A request takes the oldest hold that
fits, and the oldest cut, reset or failure, so that one test may queue two failures for two attempts. All of this runs
in the server's loop; `ControlHandle` calls it from any other thread.
"""

import asyncio
import contextlib
import hmac
import math
import re
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated, Any, Final
from urllib.parse import parse_qsl, unquote

import msgspec

from wiretape.recorder.children import CONTROL_TOKEN
from wiretape.recorder.decode.operation import model_in_path
from wiretape.recorder.relay.client import Client
from wiretape.recorder.relay.guard import Refusal
from wiretape.recorder.relay.request import Request
from wiretape.recorder.relay.responder import Responder
from wiretape.recorder.tape.redact import Redactor
from wiretape.viewer.query.values import number
from wiretape.viewer.wings.replay import positions
from wiretape.viewer.wings.replay.faults import Fault
from wiretape.viewer.wings.replay.planning import AnswerPlan, failure, served_headers
from wiretape.viewer.wings.replay.serve import CONTROL_PATH, Answering, Entries, Replay, answer_error
from wiretape.viewer.wings.replay.streams import ControlError, StreamState

_STREAMS: Final = 1000
"""Limit of requests that are listed; older ones are forgotten."""
_BODY_BYTES: Final = 1 << 20
_STATUS: Final = {"bad_request": 400, "unknown_stream": 404, "unknown_path": 404, "wrong_method": 405}
"""By the code of an error; any other is a conflict with the state of a stream, 409."""
_PATHS: Final = {
    "streams(/[^/]+)?": ("GET",),
    "next": ("GET", "DELETE"),
    "(streams/[^/]+/)?(hold|cut|reset|fail|speed)|streams/[^/]+/(step|release)": ("POST",),
}
"""The methods of the paths that match."""
_REFERENCE: Final = re.compile(r"@(?:-(\d{1,9}))?|([1-9]\d{0,8})")
_STATES: Final = {state.label: state for state in StreamState}
_REDACTOR: Final = Redactor(None)

_Caller = Callable[[Coroutine[Any, Any, tuple[int, Any]], float], tuple[int, Any]]
"""Runs a coroutine in the server's loop from another thread; the number is its own timeout, in seconds."""


class _Arguments(msgspec.Struct):
    """The arguments of all verbs; `_read` says which ones a verb has."""

    at: str | None = None
    times: Annotated[int, msgspec.Meta(ge=0)] = 1
    path: str | None = None
    model: str | None = None
    status: Annotated[int, msgspec.Meta(ge=400, le=599)] | None = None
    headers: dict[str, str] = {}
    body: Any = msgspec.UNSET
    events: Annotated[int, msgspec.Meta(ge=1)] = 1
    speed: float | None = None


class _Model(msgspec.Struct):
    """The model in the body of a request."""

    model: str | None = None


@dataclass(slots=True)
class _Entry:
    """A verb for requests to come: for `times` of them (0: for all), with patterns of their path's end and model."""

    verb: str
    effect: Fault | AnswerPlan
    fields: dict[str, Any]
    """The entry as JSON lists it."""

    def fits(self, path: str, model: str | None) -> bool:
        """Return True for a request with this path and model."""
        path_pattern, model_pattern = self.fields.get("path") or "", self.fields.get("model") or "*"
        return fnmatchcase(path, f"*{path_pattern}") and fnmatchcase(model or "", model_pattern)


class Control:
    """The control of one server's answers; used by its loop."""

    def __init__(self, app: Replay, token: str) -> None:
        self._app, self.token = app, token
        self._streams: dict[int, Answering] = {}
        self._count = 0
        self._entries: list[_Entry] = []
        self._change = asyncio.Event()
        """Set, and replaced, when a stream is added or changes its state."""

    # serve.Director

    def add(self, answering: Answering) -> None:
        """Note a new request."""
        self._count += 1
        answering.no = self._count
        self._streams[answering.no] = answering
        while len(self._streams) > _STREAMS:
            del self._streams[next(iter(self._streams))]
        answering.stream.on_change = self._wake
        self._wake()

    def take(self, answering: Answering, target: bytes, body: bytes | None) -> Entries:
        """Return the faults, and the error, that are to strike a request; `body`: None for a WebSocket."""
        path = target.decode("latin-1").partition("?")[0]
        try:
            model = msgspec.json.decode(body or b"{}", type=_Model).model
        except (msgspec.DecodeError, UnicodeDecodeError):
            model = None
        model = answering.model = model or model_in_path(path)
        entries: dict[bool, _Entry] = {}
        for entry in list(self._entries):
            if (is_hold := entry.verb == "hold") not in entries and entry.fits(path, model):
                entries[is_hold] = entry
                if entry.fields["times"] == 1:
                    self._entries.remove(entry)
                entry.fields["times"] = max(entry.fields["times"] - 1, 0)
        effects = [entry.effect for entry in entries.values()]
        faults = [effect for effect in effects if isinstance(effect, Fault)]
        return faults, next((effect for effect in effects if isinstance(effect, AnswerPlan)), None)

    def _wake(self) -> None:
        self._change.set()
        self._change = asyncio.Event()

    def serve(self, client: Client, request: Request) -> Responder | None:
        """Answer a request below the path of control."""
        headers = dict(request.headers)
        scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
        if b"origin" in headers:
            answer_error(client, 403, "a web page may not control answers: call from the test", "refused")
        elif scheme.lower() != b"bearer" or not hmac.compare_digest(token.strip(), self.token.encode()):
            message = f"send Authorization: Bearer TOKEN, with the token of {CONTROL_TOKEN}"
            answer_error(client, 401, message, "wrong_token", [(b"www-authenticate", b"Bearer")])
        else:
            call = _Call(self, client, request, self._app.on_trouble)
            call.body_came()
            return call
        return None

    # requests

    async def handle(self, method: str, path: str, query: str = "", body: bytes = b"") -> tuple[int, Any]:
        """Return the status of the answer to a request, and its value as JSON has it. Raises `ControlError`."""
        allowed = _allowed(path)
        if not allowed:
            message = f"there is no {CONTROL_PATH.decode()}/{path}: see 'wiretape help replay'"
            raise ControlError("unknown_path", message)
        if method not in allowed:
            raise ControlError("wrong_method", f"{path} takes {' and '.join(allowed)} only")
        match path.split("/"):
            case ["streams"]:
                return 200, {
                    "streams": [await self._described(answering) for answering in list(self._streams.values())]
                }
            case ["streams", reference]:
                return 200, await self._waited(reference, query)
            case ["streams", reference, verb]:
                answering = self._find(reference)
                await self._read_places(answering)
                self._direct(answering, verb, _read(verb, body))
                return 200, await self._described(answering)
            case ["speed"]:
                speed = _speed(_read("speed", body))
                await self._app.planned(lambda planner: planner.set_speed(speed))
                for answering in list(self._app.live):
                    answering.play(speed)
                return 200, {"speed": 0.0 if speed == math.inf else speed}
            case ["next"]:
                if method == "DELETE":
                    self._entries.clear()
                return 200, {"next": [{**entry.fields} for entry in self._entries]}
        self._entries.append(entry := _entry(path, _read(path, body, is_entry=True)))
        return 201, {**entry.fields}

    def _direct(self, answering: Answering, verb: str, arguments: _Arguments) -> None:
        """Apply a verb to a stream. Raises `ControlError`."""
        match verb:
            case "release":
                answering.release()
            case "step":
                answering.step(arguments.events)
            case "fail":
                answering.fail(_failure(arguments))
            case "speed":
                answering.play(_speed(arguments))
            case _:
                answering.strike(_fault(verb, arguments.at))

    def _number(self, reference: str) -> int:
        """Return the number that a reference has now. Raises `ControlError`."""
        match = _REFERENCE.fullmatch(reference)
        if match is None:
            raise ControlError("unknown_stream", f"{reference} is no stream: use its number, @ or @-1")
        return int(match[2]) if match[2] else self._count - int(match[1] or 0)

    def _find(self, reference: str) -> Answering:
        """Return a stream. Raises `ControlError`."""
        answering = self._streams.get(self._number(reference))
        if answering is None:
            raise ControlError("unknown_stream", f"there is no stream {reference}: {self._count} requests came")
        return answering

    async def _waited(self, reference: str, query: str) -> dict[str, object]:
        """Return a stream, once it is in one of the states that the query names. Raises `ControlError`."""
        fields = dict(parse_qsl(query, keep_blank_values=True))
        until, seconds = fields.pop("until", None), _read_seconds(fields.pop("timeout", "5s"))
        states = {_STATES.get(name) for name in (until or "").split(",")}
        if fields or (until is not None and None in states):
            hint = f"use until=STATE,… and timeout=5s; states: {', '.join(_STATES)}"
            raise ControlError("bad_request", f"{query}: {hint}")
        if until is None:
            return await self._described(self._find(reference))
        answering = None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while True:
                    change, answering = self._change, self._streams.get(self._number(reference))
                    if answering is not None and answering.stream.state in states:
                        return await self._described(answering)
                    # Which stream @ is may change: another one may reach the state.
                    if answering is not None and answering.stream.is_over and not reference.startswith("@"):
                        break
                    await change.wait()
        reached = "no such request came" if answering is None else f"it is {answering.stream.state.label}"
        raise ControlError("not_reached", f"stream {reference} did not reach {until}: {reached}")

    async def _read_places(self, answering: Answering) -> None:
        """Count the events of a stream in the planner's thread: that takes milliseconds."""
        if (places := answering.places) is not None:
            await self._app.planned(lambda _: places.spans)

    async def _described(self, answering: Answering) -> dict[str, object]:
        await self._read_places(answering)
        served, stream, places = answering.served, answering.stream, answering.places
        held_ns = None if stream.held_ns is None else stream.held_ns - served.requested
        return {
            "stream": answering.no,
            "state": stream.state.label,
            "method": served.method,
            "path": _REDACTOR.path(served.path),
            "model": answering.model or (served.head.model if served.head else None),
            "exchange": served.head.id if served.head else None,
            "match": served.match.step if served.match else None,
            "form": ",".join(served.choice.names) or None,
            "faults": list(served.faults),
            "status": served.status,
            "event": None if places is None else places.event(stream.place),
            "events": None if places is None else len(places.spans),
            "size": sum(served.sizes),
            "asked_ms": (served.requested - self._app.began_ns) / 1e6,
            "held_ms": None if held_ns is None else held_ns / 1e6,
            "ended_ms": None if served.ended_ns is None else served.ended_ns / 1e6,
            "ended": served.ending or None,
        }


def _allowed(path: str) -> Sequence[str]:
    """Return the methods of a path; none for one that there is not."""
    return next((methods for pattern, methods in _PATHS.items() if re.fullmatch(pattern, path)), ())


def _read(verb: str, body: bytes, *, is_entry: bool = False) -> _Arguments:
    """Return the arguments of a verb. Raises `ControlError`."""
    names = {"step": ["events"], "release": [], "speed": ["speed"], "fail": ["status", "headers", "body"]}
    valid_names = [*names.get(verb, ["at"]), *(["times", "path", "model"] if is_entry else [])]
    try:
        fields = msgspec.json.decode(body.strip() or b"{}", type=dict[str, Any])
        arguments = msgspec.convert(fields, _Arguments)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ControlError("bad_request", f"the body: {error}") from error
    if unknown := [name for name in fields if name not in valid_names]:
        raise ControlError("bad_request", f"{verb} has no field {unknown[0]}, but {', '.join(valid_names) or 'none'}")
    return arguments


def _speed(arguments: _Arguments) -> float:
    """Return a factor of the recorded speed; infinite: without waits. Raises `ControlError`."""
    speed = arguments.speed
    if speed is None or (speed and not 1e-6 <= speed <= 1e6):
        raise ControlError("bad_request", f"speed {speed}: use 0, or 1e-06 to 1e+06")
    return speed or math.inf


def _read_seconds(text: str) -> float:
    try:
        return float(text) if text.replace(".", "", 1).isdecimal() else number(text, "duration") / 1e9
    except ValueError as error:
        raise ControlError("bad_request", f"timeout={text}: use 5s or 500ms") from error


def _fault(verb: str, at: str | None) -> Fault:
    try:
        position = None if at is None else positions.parse(at)
    except ValueError as error:
        raise ControlError("bad_request", f"at: {error}") from error
    return Fault(verb if at is None else f"{verb}@{at}", verb, position=position, is_limited=True)


def _failure(arguments: _Arguments) -> AnswerPlan:
    if arguments.status is None:
        raise ControlError("bad_request", "fail needs a status from 400 to 599")
    pairs = [(name.lower().encode("latin-1", "replace"), value.encode("latin-1", "replace"))
             for name, value in arguments.headers.items()]  # fmt: skip
    if refused := [name.decode("latin-1") for name, value in pairs if not served_headers([(name, value)])]:
        raise ControlError("bad_request", f"headers: {refused[0]} cannot be set")
    if arguments.body is msgspec.UNSET:
        body = None
    elif isinstance(arguments.body, str):
        body = arguments.body.encode()
        if not any(name == b"content-type" for name, _ in pairs):
            pairs.append((b"content-type", b"text/plain; charset=utf-8"))
    else:
        body = msgspec.json.encode(arguments.body)
    return failure(arguments.status, f"status:{arguments.status}", pairs, body)


def _entry(verb: str, arguments: _Arguments) -> _Entry:
    if verb == "fail":
        effect: Fault | AnswerPlan = _failure(arguments)
        body = None if arguments.body is msgspec.UNSET else arguments.body
        fields = {"status": arguments.status, "headers": arguments.headers, "body": body}
    else:
        at = "head" if arguments.at is None else arguments.at
        effect, fields = _fault(verb, at), {"at": at}
    choice = {"times": arguments.times, "path": arguments.path, "model": arguments.model}
    return _Entry(verb, effect, {"verb": verb, **fields, **choice})


class _Call(Responder):
    """A request to control."""

    def __init__(self, control: Control, client: Client, request: Request, on_trouble: Callable[[str], None]) -> None:
        self._control, self._client, self._request, self._on_trouble = control, client, request, on_trouble
        self._body = b""
        self._task: asyncio.Task[None] | None = None

    def body_came(self) -> None:
        """Read the body, and handle the request once it is whole."""
        self._body += self._request.take()
        if len(self._body) > _BODY_BYTES:
            self.request_failed(Refusal(413, f"the body is larger than {_BODY_BYTES >> 20} MiB"))
        elif self._request.complete and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        target = self._request.target[len(CONTROL_PATH) :].decode("latin-1")
        path, _, query = target.partition("?")
        path = unquote(path.strip("/"))  # some clients write @ as %40
        try:
            status, value = await self._control.handle(self._request.method, path, query, self._body)
            self._client.answer(status, msgspec.json.encode(value), "application/json")
        except ControlError as error:
            allow = [(b"allow", ", ".join(_allowed(path)).encode())] if error.code == "wrong_method" else []
            answer_error(self._client, _STATUS.get(error.code, 409), str(error), error.code, allow)
        except Exception as error:  # noqa: BLE001 - any failure is reported to the client and the user
            self._client.failed(error)

    def request_failed(self, refusal: Refusal) -> None:
        answer_error(self._client, refusal.status, refusal.message, "bad_request")

    def client_left(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def taker_failed(self, error: Exception) -> None:
        self._on_trouble(f"control failed by a fault of wiretape's own: {error!r}")


class _Verbs:
    """The verbs that requests to come and a single stream have in common."""

    def __init__(self, control: Control, call: _Caller, path: str = "") -> None:
        self._control, self._call, self._path = control, call, path

    def _send(self, verb: str, **fields: Any) -> Any:
        return self._request("POST", f"{self._path}{verb}", msgspec.json.encode(fields))

    def _request(self, method: str, path: str, body: bytes = b"", query: str = "", seconds: float = 0.0) -> Any:
        return self._call(self._control.handle(method, path, query, body), seconds)[1]

    def hold(self, at: str | None = None, **choice: Any) -> None:
        """Hold at a position such as `#3`; without one, before the head, and a stream before its next write."""
        self._send("hold", at=at, **choice)

    def cut(self, at: str | None = None, **choice: Any) -> None:
        """Close the connection at a position; without one, before the head, and a stream at once."""
        self._send("cut", at=at, **choice)

    def reset(self, at: str | None = None, **choice: Any) -> None:
        """Reset the connection at a position; without one, before the head, and a stream at once."""
        self._send("reset", at=at, **choice)

    def fail(self, status: int, **more: Any) -> None:
        """Answer by an error, with `headers` and a `body` if they are given."""
        self._send("fail", status=status, **more)

    def speed(self, speed: float) -> None:
        """Go on at a factor of the recorded speed; 0: without waits."""
        self._send("speed", speed=speed)


class ControlledStream(_Verbs):
    """A request to the test's server, by its number or as `@`; fields are read when they are used.

    They are those of a stream in `wiretape help replay`: `state`, `event`, `size`, `exchange`, `ended` and others.
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        fields = self._request("GET", self._path.rstrip("/"))
        if name not in fields:
            raise AttributeError(f"a stream has no field {name!r}, but {', '.join(fields)}")
        return fields[name]

    def step(self, events: int = 1) -> None:
        """Write some events whole, and hold again; behind the last, the end is written."""
        self._send("step", events=events)

    def release(self) -> None:
        """Go on from a hold."""
        self._send("release")

    def wait(self, *states: str, timeout: float = 5.0) -> "ControlledStream":
        """Wait until it is in one of the states, also if it is still to come; return it."""
        query = f"until={','.join(states)}&timeout={timeout:f}"
        self._request("GET", self._path.rstrip("/"), query=query, seconds=timeout)
        return self


class ControlHandle(_Verbs):
    """Control of the answers of a test's server, from any thread; `url` and `token` are for other processes.

    The verbs are for the requests to come: `times` says how many (0: all), `path` and `model` which ones.
    """

    def __init__(self, control: Control, url: str, call: _Caller) -> None:
        super().__init__(control, call)
        self.url, self.token = url, control.token

    def next(self) -> list[dict[str, Any]]:
        """Return the entries for requests to come."""
        entries: list[dict[str, Any]] = self._request("GET", "next")["next"]
        return entries

    def forget(self) -> None:
        """Drop the entries for requests to come."""
        self._request("DELETE", "next")

    def streams(self) -> list[ControlledStream]:
        """Return all requests, oldest first."""
        return [self.stream(row["stream"]) for row in self._request("GET", "streams")["streams"]]

    def stream(self, reference: int | str = "@") -> ControlledStream:
        """Return a request by its number from 1, or as `@` (the newest at each call) or `@-1`."""
        return ControlledStream(self._control, self._call, f"streams/{reference}/")
