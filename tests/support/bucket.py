"""A minimal S3 server on loopback: buckets, objects, uploads in parts; it checks each signature (AWS, version 4).

An object appears, whole, when its upload is completed. `fault` is called for each request first: it may return a status
and a code for the answer, or `CUT` the connection.
"""

import hashlib
import hmac
import http.server
import io
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlsplit
from xml.sax.saxutils import escape

KEY, SECRET, REGION = "AKIATEST", "the secret of a test", "eu-test-1"
CUT = (0, "")

Fault = Callable[[str, str, dict[str, str]], tuple[int, str] | None]
"""Decides on a fault by the method, the path and the query of a request."""


@dataclass
class Bucket:
    """The objects of a bucket, and the requests to it."""

    endpoint: str = ""
    objects: dict[str, bytes] = field(default_factory=dict)
    uploads: dict[str, dict[int, bytes]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    fault: Fault = lambda *_: None

    @property
    def url(self) -> str:
        return f"s3://archive/of wiretape?region={REGION}&endpoint_override={self.endpoint}&scheme=http"


@contextmanager
def bucket() -> Iterator[Bucket]:
    """Serve a bucket named `archive`."""
    held = Bucket()

    class Handler(_Handler):
        bucket = held

    with _Server(("127.0.0.1", 0), Handler) as server:
        held.endpoint = f"127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield held
        finally:
            server.shutdown()
            thread.join()


class _Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing about a client that was killed."""


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    bucket: Bucket

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def refuse(self, status: int, code: str) -> None:
        self.answer(status, f"<Error><Code>{code}</Code><Message>{code} of a test</Message></Error>".encode())

    def handle_any(self) -> None:
        data = self.body()
        parts = urlsplit(self.path)
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        path = unquote(parts.path)
        self.bucket.requests.append(f"{self.command} {self.path}")
        fault = self.bucket.fault(self.command, path, query)
        if fault == CUT:
            self.close_connection = True
        elif fault is not None:
            self.refuse(*fault)
        elif (code := self.forgery(parts.path, query)) is not None:
            self.refuse(403, code)
        elif not path.startswith("/archive"):
            self.refuse(404, "NoSuchBucket")
        else:
            self.serve(path.removeprefix("/archive").removeprefix("/"), query, data)

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = handle_any

    def body(self) -> bytes:
        """Read a request's body: AWS's chunks within HTTP's chunks."""
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        body = io.BytesIO(b"".join(_chunks(self.rfile)))
        return b"".join(_chunks(body))

    def forgery(self, path: str, query: dict[str, str]) -> str | None:
        """Return the fault of a request's signature, checked with the known key."""
        given = re.fullmatch(
            r"AWS4-HMAC-SHA256 Credential=(\S+?)/(\d+/[^/]+/s3/aws4_request), *SignedHeaders=(\S+), *Signature=(\w+)",
            self.headers.get("Authorization", ""),
        )
        if given is None or given[1] != KEY:
            return "InvalidAccessKeyId" if given else "AccessDenied"
        scope, names = given[2], given[3].split(";")
        pairs = sorted((quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in query.items())
        canonical = "\n".join((
            self.command, quote(unquote(path), safe="/-_.~"), "&".join("=".join(pair) for pair in pairs),
            *(f"{name}:{' '.join(self.headers[name].split())}" for name in names), "",
            ";".join(names), self.headers["x-amz-content-sha256"],
        ))  # fmt: skip
        text = "\n".join((
            "AWS4-HMAC-SHA256", self.headers["x-amz-date"], scope, hashlib.sha256(canonical.encode()).hexdigest()
        ))  # fmt: skip
        key = f"AWS4{SECRET}".encode()
        for part in (*scope.split("/"), text):
            key = hmac.new(key, part.encode(), "sha256").digest()
        return None if hmac.compare_digest(key.hex(), given[4]) else "SignatureDoesNotMatch"

    def serve(self, key: str, query: dict[str, str], data: bytes) -> None:
        if "uploads" in query or "uploadId" in query:
            self.serve_upload(key, query, data)
        elif "list-type" in query:
            self.list(query.get("prefix", ""), query.get("delimiter", ""))
        elif self.command == "PUT":
            self.put(key, data)
        elif self.command == "DELETE":
            self.bucket.objects.pop(key, None)
            self.answer(204)
        elif key in self.bucket.objects:
            self.read(self.bucket.objects[key])
        else:
            self.refuse(404, "NoSuchKey")

    def serve_upload(self, key: str, query: dict[str, str], data: bytes) -> None:
        uploads = self.bucket.uploads
        match self.command, query:
            case "POST", {"uploads": _}:
                upload = f"upload-{len(self.bucket.requests)}"
                uploads[upload] = {}
                self.answer(200, _xml("InitiateMultipartUploadResult", Key=key, UploadId=upload))
            case "PUT", {"uploadId": upload, "partNumber": number}:
                uploads[upload][int(number)] = data
                self.answer(200, ETag=f'"{number}"')
            case "POST", {"uploadId": upload}:
                self.bucket.objects[key] = b"".join(part for _, part in sorted(uploads.pop(upload).items()))
                self.answer(200, _xml("CompleteMultipartUploadResult", Key=key, ETag='"whole"'))
            case _, {"uploadId": upload}:
                uploads.pop(upload, None)
                self.answer(204)

    def put(self, key: str, data: bytes) -> None:
        source = unquote(self.headers.get("x-amz-copy-source", "")).removeprefix("/").removeprefix("archive/")
        self.bucket.objects[key] = self.bucket.objects[source] if source else data
        self.answer(200, _xml("CopyObjectResult", ETag='"whole"') if source else b"", ETag='"whole"')

    def read(self, data: bytes) -> None:
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        if wanted is None:
            self.answer(200, data, ETag='"whole"')
        else:
            first, last = int(wanted[1]), min(int(wanted[2] or len(data)), len(data) - 1)
            content = data[first : last + 1]
            self.answer(206, content, ETag='"whole"', Content_Range=f"bytes {first}-{last}/{len(data)}")

    def list(self, prefix: str, delimiter: str) -> None:
        assert delimiter in ("", "/")
        found = {key: data for key, data in sorted(self.bucket.objects.items()) if key.startswith(prefix)}
        rest = {key: key.removeprefix(prefix) for key in found}
        folders = sorted({prefix + name.split("/")[0] + "/" for name in rest.values() if delimiter and "/" in name})
        contents = "".join(
            f"<Contents><Key>{escape(key)}</Key><Size>{len(data)}</Size>"
            "<LastModified>2026-03-01T00:00:00.000Z</LastModified></Contents>"
            for key, data in found.items()
            if not (delimiter and "/" in rest[key])
        )
        common = "".join(f"<CommonPrefixes><Prefix>{escape(name)}</Prefix></CommonPrefixes>" for name in folders)
        count = contents.count("<Key>") + len(folders)
        inner = f"<KeyCount>{count}</KeyCount><IsTruncated>false</IsTruncated>{contents}{common}"
        self.answer(200, f"<ListBucketResult>{inner}</ListBucketResult>".encode())


def _chunks(file: Any) -> Iterator[bytes]:
    """Yield the chunks of HTTP, or of AWS, up to the last one, which is empty."""
    while size := int(file.readline().split(b";")[0], 16):
        yield file.read(size)
        file.readline()
    file.readline()


def _xml(name: str, **values: str) -> bytes:
    inner = "".join(f"<{key}>{escape(value)}</{key}>" for key, value in values.items())
    return f"<{name}><Bucket>archive</Bucket>{inner}</{name}>".encode()
