"""Pure: the output of `curl -N --trace-time --trace FILE`: each sent or received piece, in hex, with its time.

curl's standard output may be in the same file (`--trace -`): the body's bytes after each piece are skipped. Older
releases of curl show raw HTTP chunks, newer ones only their content; both are read. A time has no date. T0 is when curl
began to connect, which is after it looked up the name; on a connection that was kept, when the request was sent.
Requests to a proxy for a tunnel are left out.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, time, timedelta
from functools import partial
from typing import Final

import httptools

from wiretape.recorder.decode.exchange import reset_code
from wiretape.viewer.importing.found import (
    Data,
    Found,
    Headers,
    ImportedFile,
    NotImportable,
    Unimportable,
    attempt,
    framing,
    header,
    protocol,
)

_MARK: Final = re.compile(
    rb"(?:(\d\d):(\d\d):(\d\d)\.(\d{6}) )?(?:\[([\dx]+-[\dx]+)\] )?"
    rb"(?:== Info: ([^\n]*)\n|(=> Send|<= Recv) (SSL data|header|data), (\d{1,12}) bytes \(0x[\da-f]+\)\n)"
)
_HEX: Final = re.compile(rb"[\da-f]{4,}: ((?:[\da-f]{2} ){1,16})[^\n]*\n")
_WIDTH: Final = 16
_REQUEST_LINE: Final = re.compile(rb"([!-~]+) ([!-~]+) (HTTP/[\d.]+)\r?\n")
_STATUS_LINE: Final = re.compile(rb"(HTTP/[\d.]+) (\d{3})")
_RESET: Final = re.compile(
    rb"HTTP/2 stream \d+ (?:was not closed cleanly: .*\(err (\d+)\)|reset by .*\(error 0x([\da-f]+)\b)"
)
"""The error of a reset stream: in decimal, by newer releases of curl in hex."""
_DAY_NS: Final = 86_400 * 10**9
_SLACK: Final = timedelta(minutes=1)
_CONNECTED: Final = (b"Connected to", b"Established connection", b"SSL connection using")
_FAILURES: Final = (
    (b"transfer closed with outstanding", "eof"), (b"transfer closed with", "length"), (b"Empty reply", "eof"),
    (b"Recv failure", "reset"), (b"Send failure", "reset"), (b"Connection died", "reset"),
    (b"Operation timed out", "client"), (b"Operation too slow", "client"), (b"SSL_read", "eof"),
    (b"OpenSSL SSL_read", "eof"), (b"Illegal or missing hexadecimal", "framing"), (b"Failed writing", "client"),
    (b"HTTP/2 stream", "reset"), (b"Failure writing output", "client"),
)  # fmt: skip
"""curl's messages about failed transfers, and the `ended_by` of each. A limit that curl was given is the client's."""
_OVER: Final = (b"left intact", b"Closing connection", b"closing connection", b"shutting down connection")


@dataclass(slots=True)
class _CurlBody:
    """The body of an answer; curl may show the chunks of HTTP."""

    is_chunked: bool
    is_complete: bool = False
    _brought: list[bytes] = field(default_factory=list)
    _parser: httptools.HttpResponseParser | None = None

    def __post_init__(self) -> None:
        if self.is_chunked:
            self._parser = httptools.HttpResponseParser(self)
            self._parser.feed_data(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")

    def on_body(self, data: bytes) -> None:
        self._brought.append(data)

    def on_message_complete(self) -> None:
        self.is_complete = True

    def take(self, piece: bytes) -> bytes:
        """Return the body's bytes in a piece."""
        if self._parser is None:
            return piece
        try:
            self._parser.feed_data(piece)
        except httptools.HttpParserError:
            if not self.is_complete:  # no chunks: curl has removed the framing
                self._parser, self._brought = None, []
                return piece
        brought, self._brought = b"".join(self._brought), []
        return brought


@dataclass(slots=True)
class _Connecting:
    """curl's messages before a request."""

    began_ns: int | None = None
    connected_ns: int | None = None
    is_reused: bool | None = None
    is_tls: bool = False


@dataclass(slots=True)
class _Transfer:
    """A request and its answer, complete or not; times are ns since the first midnight."""

    line: int
    connecting: _Connecting
    sent_ns: int | None
    first_ns: int | None
    head: bytes = b""
    request: list[bytes] = field(default_factory=list)
    answer: bytes = b""
    status: int | None = None
    is_answered: bool = False
    headers: Headers = field(default_factory=list)
    headers_ns: int | None = None
    body: _CurlBody | None = None
    pieces: list[bytes] = field(default_factory=list)
    at_ns: list[int] = field(default_factory=list)
    last_ns: int | None = None
    ended_by: str | None = None
    said: str | None = None
    reset_code: str | None = None
    end_ns: int | None = None
    trailers: bytes = b""

    @property
    def protocol(self) -> str | None:
        """The protocol of the answer, else of the request."""
        line = _STATUS_LINE.match(self.answer)
        version = line[1] if line else (match[3] if (match := _REQUEST_LINE.match(self.head)) else b"")
        return protocol(version.decode("ascii"))

    @property
    def method(self) -> bytes:
        """The method; empty while the request line has not come."""
        line = _REQUEST_LINE.match(self.head)
        return line[1] if line else b""

    @property
    def is_sent(self) -> bool:
        """True if the head of the request is whole."""
        return b"\r\n\r\n" in self.head

    def receive_head(self, data: bytes, at_ns: int | None) -> None:
        """Add a line of the answer's head, or of its trailers."""
        if self.is_answered:
            self.trailers += data
            return
        self.answer += data
        if not self.answer.endswith(b"\r\n\r\n"):
            return
        line = _STATUS_LINE.match(self.answer)
        status = int(line[2]) if line else None
        if status is not None and 100 <= status < 200 and status != 101:
            self.answer = b""  # it will be continued
            return
        self.status, self.headers, self.headers_ns = status, _headers(self.answer), at_ns
        self.is_answered = True
        self.body = _CurlBody((header(self.headers, "transfer-encoding") or "").lower().endswith("chunked"))

    def receive(self, data: bytes, at_ns: int | None) -> bytes:
        """Add a piece of the answer's body, and return the body's bytes in it."""
        self.last_ns = at_ns
        brought = data if self.body is None else self.body.take(data)
        if brought:
            self.pieces.append(brought)
            if at_ns is not None:
                self.at_ns.append(at_ns)
        return brought

    def hear(self, said: bytes, at_ns: int | None) -> None:
        """Process a message of curl about a running transfer."""
        failure = next((ended_by for begins, ended_by in _FAILURES if begins in said), None)
        if failure is not None and self.ended_by in (None, "over"):
            self.ended_by, self.end_ns, self.said = failure, at_ns, said.decode("utf-8", "replace").strip()
            if reset := _RESET.search(said):
                self.reset_code = reset_code("rst", int(reset[1]) if reset[1] else int(reset[2], 16))
        elif self.ended_by is None and any(word in said for word in _OVER):
            self.ended_by, self.end_ns = "over", at_ns

    def ending(self) -> tuple[str, int | None]:
        """Return the `ended_by` of the transfer, and its time."""
        stated = header(self.headers, "content-length")
        received = sum(map(len, self.pieces))
        is_bare = framing(self.method.decode("latin-1"), self.status or 0, self.headers) == "none"
        is_whole = is_bare or (stated is not None and stated.isdecimal() and received >= int(stated))
        if self.is_answered and (is_whole or (self.body is not None and self.body.is_complete)):
            return "end", self.last_ns if self.last_ns is not None else self.headers_ns
        if self.ended_by not in (None, "over"):
            return self.ended_by or "", self.end_ns
        if self.ended_by == "over":
            return "end" if self.is_answered else "eof", self.end_ns
        known = [at_ns for at_ns in (self.sent_ns, self.headers_ns, self.last_ns) if at_ns is not None]
        return "died", max(known, default=None)


def read(data: Data, source: ImportedFile) -> Iterator[Found | Unimportable]:
    """Yield the exchanges of a trace. Raises `NotImportable`."""
    trace = _Trace(data)
    transfers = [one for one in trace.transfers() if one.method not in (b"", b"CONNECT")]
    if trace.is_ascii:
        raise NotImportable("it is of curl --trace-ascii, in which bytes are lost: use --trace")
    if not transfers:
        yield from trace.faults
        raise NotImportable("no request is in it: curl may not have connected")
    try:
        midnight = _midnight(source, trace)
    except OverflowError as error:
        raise NotImportable("its times go back too often for one trace") from error
    yield from trace.faults
    yield from (attempt(f"line {one.line}", partial(_found, one, midnight, source)) for one in transfers)


class _Trace:
    """Reads a trace from its beginning to its end; `faults` are its unreadable parts."""

    def __init__(self, data: Data) -> None:
        self._data, self._at = data, 0
        self._counted = 0, 1
        """An offset, and the number of its line."""
        self._day_ns, self._before_ns = 0, 0
        self._open: dict[bytes, _Transfer] = {}
        self._connecting: dict[bytes, _Connecting] = {}
        self._tls = set[bytes]()
        self._is_ascii = self._has_hex = False
        self.faults = list[Unimportable]()
        self.last_ns: int | None = None

    @property
    def is_ascii(self) -> bool:
        """True if its dumps are all without hex."""
        return self._is_ascii and not self._has_hex

    def transfers(self) -> Iterator[_Transfer]:
        """Yield the transfers in the order in which they ended."""
        while (mark := _MARK.search(self._data, self._at)) is not None:
            self._at = mark.end()
            at_ns, id = self._time(mark), mark[5] or b""
            id = id.partition(b"-")[0]
            if mark[6] is not None:
                self._hear(id, mark[6], at_ns)
                continue
            piece = self._piece(mark)
            if piece is None:
                continue
            if mark[7] == b"=> Send":
                yield from self._send(id, mark, piece, at_ns)
            else:
                self._receive(id, mark, piece, at_ns)
        yield from self._open.values()

    def _time(self, mark: re.Match[bytes]) -> int | None:
        if mark[1] is None:
            return None
        hours, minutes, seconds, micros = (int(mark[place]) for place in range(1, 5))
        at_ns = ((hours * 60 + minutes) * 60 + seconds) * 10**9 + micros * 1000
        if at_ns < self._before_ns - _DAY_NS // 2:  # past midnight
            self._day_ns += _DAY_NS
        self._before_ns = at_ns
        self.last_ns = self._day_ns + at_ns
        return self.last_ns

    def _piece(self, mark: re.Match[bytes]) -> bytes | None:
        """Return the bytes of the dump below a mark; None for one that is damaged, or not needed."""
        size, parts, at = int(mark[9]), list[bytes](), self._at
        for _ in range(-(-size // _WIDTH)):
            line = _HEX.match(self._data, at)
            if line is None:
                break
            parts.append(line[1])
            at = line.end()
        piece = bytes.fromhex(b"".join(parts).decode("ascii"))[:size]
        if len(piece) == size:
            self._at, self._has_hex = at, True
            return None if mark[8] == b"SSL data" else piece
        self._is_ascii |= not parts and self._data[at : at + 6] == b"0000: "
        self.faults.append(
            Unimportable(f"line {self._line(mark.start())}", "its dump is cut off or damaged", is_note=True)
        )
        return None

    def _line(self, at: int) -> int:
        before, line = self._counted
        self._counted = at, line + self._data[before:at].count(b"\n")
        return self._counted[1]

    def _hear(self, id: bytes, said: bytes, at_ns: int | None) -> None:
        transfer = self._open.get(id)
        connecting = self._connecting.setdefault(id, _Connecting())
        if said.lstrip().startswith(b"Trying ") and connecting.began_ns is None:
            self._connecting[id] = _Connecting(at_ns, is_reused=False)
        elif b"e-using existing" in said or b"eusing existing" in said:
            connecting.is_reused = True
        elif any(word in said for word in _CONNECTED):
            connecting.connected_ns = at_ns
            connecting.is_tls |= b"SSL" in said
        if transfer is not None:
            transfer.hear(said, at_ns)

    def _send(self, id: bytes, mark: re.Match[bytes], piece: bytes, at_ns: int | None) -> Iterator[_Transfer]:
        transfer = self._open.get(id)
        if mark[8] == b"data":
            if transfer is not None and not transfer.is_answered:
                transfer.request.append(piece)
                transfer.sent_ns = at_ns
            return
        if transfer is None or transfer.is_sent:
            if transfer is not None:
                yield transfer
            connecting = self._connecting.pop(id, _Connecting())
            if transfer is not None and transfer.method == b"CONNECT":
                connecting = replace(transfer.connecting, is_tls=connecting.is_tls)
            line = self._line(mark.start())
            transfer = self._open[id] = _Transfer(line, connecting, at_ns, at_ns)
        transfer.head += piece
        transfer.sent_ns = at_ns
        if transfer.connecting.is_tls and transfer.is_sent:
            self._tls.add(_host(transfer.head))
        transfer.connecting.is_tls = _host(transfer.head) in self._tls

    def _receive(self, id: bytes, mark: re.Match[bytes], piece: bytes, at_ns: int | None) -> None:
        transfer = self._open.get(id)
        if transfer is None:
            self.faults.append(
                Unimportable(f"line {self._line(mark.start())}", "something was received before a request was sent")
            )
        elif mark[8] == b"header":
            transfer.receive_head(piece, at_ns)
        else:
            brought = transfer.receive(piece, at_ns)
            if brought and self._data[self._at : self._at + len(brought)] == brought:  # curl's standard output
                self._at += len(brought)


def _headers(head: bytes) -> Headers:
    lines = head.split(b"\r\n")[1:]
    pairs = (line.partition(b":") for line in lines if b":" in line)
    return [(name, value.strip()) for name, _, value in pairs]


def _host(head: bytes) -> bytes:
    return next((value for name, value in _headers(head) if name.lower() == b"host"), b"")


def _midnight(source: ImportedFile, trace: _Trace) -> datetime | None:
    """Return the midnight that times are counted from: of the day given, else so that the last is when it was written.

    None: there are no times.
    """
    if trace.last_ns is None:
        return None
    days, last_ns = divmod(trace.last_ns, _DAY_NS)
    if source.day is not None:
        return datetime.combine(source.day, time()).astimezone()
    written = source.modified.astimezone()
    midnight = datetime.combine(written.date() - timedelta(days=days), time())
    late = timedelta(days=days, microseconds=last_ns // 1000) + midnight > written.replace(tzinfo=None) + _SLACK
    return (midnight - timedelta(days=late)).astimezone()


def _found(one: _Transfer, midnight: datetime | None, source: ImportedFile) -> Found:
    began_ns = one.connecting.began_ns if one.connecting.began_ns is not None else one.first_ns
    ended_by, end_ns = one.ending()

    def since(at_ns: int | None) -> int | None:
        return None if at_ns is None or began_ns is None else at_ns - began_ns

    began = timedelta(microseconds=(began_ns or 0) // 1000)
    body = b"".join(one.pieces)
    sizes = [len(piece) for piece in one.pieces]
    is_timed = len(one.at_ns) == len(sizes)
    request = b"".join(one.request)
    is_chunked = (header(_headers(one.head), "transfer-encoding") or "").lower().endswith("chunked")
    return Found(
        place=f"line {one.line}",
        started=source.modified if midnight is None else midnight + began,
        stamp="" if midnight is None else str(began),
        method=one.method.decode("latin-1"),
        url=_url(one),
        request_headers=_headers(one.head),
        request=_CurlBody(is_chunked).take(request),
        status=one.status,
        response_headers=one.headers,
        response_trailers=_headers(b"\r\n" + one.trailers),
        protocol=one.protocol,
        framing=_framing(one),
        connected_ns=since(one.connecting.connected_ns),
        connection_reused=one.connecting.is_reused,
        sent_ns=since(one.sent_ns),
        headers_ns=since(one.headers_ns),
        end_ns=since(end_ns),
        body=body,
        at_ns=[at_ns - (began_ns or 0) for at_ns in one.at_ns] if is_timed else [],
        sizes=sizes if is_timed else [],
        ended_by=ended_by,
        ended_detail="the trace ends here" if ended_by == "died" else one.said if ended_by != "end" else None,
        reset_code=one.reset_code if ended_by == "reset" else None,
    )


def _url(one: _Transfer) -> str:
    line = _REQUEST_LINE.match(one.head)
    target = line[2].decode("latin-1") if line else ""
    if not target.startswith("/"):  # sent to a proxy
        return target
    scheme = "https" if one.connecting.is_tls else "http"
    return f"{scheme}://{_host(one.head).decode('latin-1')}{target}"


def _framing(one: _Transfer) -> str | None:
    if one.status is None:
        return None
    known = framing(one.method.decode("latin-1"), one.status, one.headers, one.protocol)
    is_one = b"HTTP/1" in one.answer[: len(b"HTTP/1")]
    return known or ("close" if is_one else None)
