"""A proxy between wiretape and all hosts, as a company has it, that asks for a password; every host is this machine."""

import asyncio
import base64
from urllib.parse import quote, urlsplit

USER, PASSWORD = "user", "p@ss: /wörd"


class CompanyProxy:
    """A proxy that speaks HTTP and SOCKS 5; `heads` has what it was asked, `answer` is said instead of passing on."""

    def __init__(self, answer: bytes | None = None) -> None:
        self.heads: list[bytes] = []
        self._answer = answer
        self._tasks: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> "CompanyProxy":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def url(self, scheme: str = "http", password: str = PASSWORD) -> str:
        """Return the URL of the proxy, with the user and a password."""
        port = self._server.sockets[0].getsockname()[1]
        return f"{scheme}://{USER}:{quote(password, safe='')}@127.0.0.1:{port}"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            first_byte = await reader.readexactly(1)
            await (self._socks(reader, writer) if first_byte == b"\5" else self._http(first_byte, reader, writer))
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client has left
        finally:
            writer.close()

    async def _http(self, first: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = first + await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        if self._answer is not None:
            writer.write(self._answer)
        elif b"Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()) not in head:
            writer.write(b"HTTP/1.1 407 Who are you\r\nproxy-authenticate: Basic\r\ncontent-length: 0\r\n\r\n")
        elif head.startswith(b"CONNECT "):
            port = int(head.split()[1].rpartition(b":")[2])
            await self._pass_on(port, b"HTTP/1.1 200 Sure\r\nx-by: y\r\ncontent-length: 5\r\n\r\n", b"", reader, writer)
        else:  # the connection stays with one host, which is enough here
            url = head.split()[1]
            target = b"/" + url.split(b"/", 3)[3]
            await self._pass_on(urlsplit(url).port or 80, b"", head.replace(url, target, 1), reader, writer)

    async def _socks(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        methods = await reader.readexactly((await reader.readexactly(1))[0])
        writer.write(b"\5" + (b"\2" if b"\2" in methods else b"\xff"))
        user, password = [
            (await reader.readexactly((await reader.readexactly(2 - is_next))[-1])).decode() for is_next in (0, 1)
        ]
        writer.write(b"\1\0" if (user, password) == (USER, PASSWORD) else b"\1\1")
        kind = (await reader.readexactly(4))[3]
        size = {1: 4, 4: 16}.get(kind) or (await reader.readexactly(1))[0]
        host, port = await reader.readexactly(size), int.from_bytes(await reader.readexactly(2))
        self.heads.append(host)
        if self._answer is not None:
            writer.write(self._answer)
        else:
            await self._pass_on(port, b"\5\0\0\3\4name\0\1", b"", reader, writer)

    async def _pass_on(
        self, port: int, answer: bytes, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(answer)
        far_writer.write(head)
        copies = [asyncio.ensure_future(_copy(reader, far_writer)), asyncio.ensure_future(_copy(far_reader, writer))]
        try:
            await asyncio.wait(copies, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for copy in copies:
                copy.cancel()
            far_writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
