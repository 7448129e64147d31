"""Certificates that programs trust, in DER: of PEM files, directories of such files, and Java's stores.

Each path is read once: it may be a pipe, which a shell has made of a command's output.
"""

import base64
import binascii
import contextlib
import functools
import hashlib
import io
import re
import ssl
import warnings
from collections.abc import Iterable
from pathlib import Path

from wiretape.recorder import paths

_JDK = b"[jdk]"
"""End of the names of the roots that Java comes with."""


_PEM = re.compile(r"-----BEGIN (?:X509 |TRUSTED )?CERTIFICATE-----\s(.*?)-----END ", re.DOTALL)


def parse(text: str) -> list[bytes]:
    """Return the certificates in PEM."""
    certificates = []
    for body in _PEM.findall(text):
        with contextlib.suppress(binascii.Error):
            data = base64.b64decode("".join(body.split()))
            # A trusted certificate, as OpenSSL has it, goes on with its purposes behind two bytes of length.
            certificates.append(data[: 4 + int.from_bytes(data[2:4])] if data[:2] == b"\x30\x82" else data)
    return certificates


def pem(certificates: Iterable[bytes]) -> str:
    """Return each certificate once, in PEM."""
    return "".join(map(ssl.DER_cert_to_PEM_cert, dict.fromkeys(certificates)))


@functools.cache
def read(path: str) -> tuple[bytes, ...]:
    """Return the certificates of a file, or of all files of a directory. Raise `OSError` if there are none."""
    certificates = []
    if paths.is_directory(path):
        for file in filter(paths.is_file, sorted(Path(path).iterdir())):
            with contextlib.suppress(OSError):  # programs pass over it, too
                certificates += parse(file.read_text("ascii", "replace"))
    else:
        certificates += parse(Path(path).read_text("ascii", "replace"))
    if not certificates:
        raise OSError(0, "no certificates in PEM")
    return tuple(certificates)


_JKS = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
_DIGEST_BYTES = 20
"""Size of the digest that ends JKS: SHA-1 of the password, a fixed text and all before."""
_PASSWORD = b"changeit"
"""Password of the stores that Java comes with."""


@functools.cache
def read_store(path: str, password: str) -> tuple[tuple[bytes, bool], ...]:
    """Return the certificates of a Java store, with True for those that Java came with. Raises `OSError`."""
    data = Path(path).read_bytes()
    if data.startswith(_JKS):
        salted = password.encode("utf-16-be") + b"Mighty Aphrodite" + data[:-_DIGEST_BYTES]
        if password and hashlib.sha1(salted, usedforsecurity=False).digest() != data[-_DIGEST_BYTES:]:
            raise OSError(0, "its password is another, or it is damaged")
        return tuple(_jks(io.BytesIO(data)))
    from cryptography.hazmat.primitives.serialization import Encoding, pkcs12

    for candidate in (password.encode(),) if password else (_PASSWORD, None):
        with warnings.catch_warnings(action="ignore"), contextlib.suppress(ValueError):  # some roots break RFC 5280
            store = pkcs12.load_pkcs12(data, candidate)
            entries = [*store.additional_certs, *filter(None, [store.cert])]
            return tuple(
                (entry.certificate.public_bytes(Encoding.DER), (entry.friendly_name or b"").endswith(_JDK))
                for entry in entries
            )
    raise OSError(0, "neither JKS nor PKCS #12 with this password")


_KEY, _CERTIFICATE = 1, 2
"""Kinds of entries of JKS."""


def _jks(stream: io.BytesIO) -> Iterable[tuple[bytes, bool]]:
    """Yield the certificates of JKS: of each key the first, as Java trusts that, too."""

    def number(size: int) -> int:
        return int.from_bytes(stream.read(size))

    stream.seek(4)
    version, count = number(4), number(4)
    for _ in range(count):
        kind, name, _ = number(4), stream.read(number(2)), stream.read(8)
        if kind not in (_KEY, _CERTIFICATE):
            raise OSError(0, "an entry of a kind that wiretape does not read")
        if kind == _KEY:
            stream.read(number(4))
        for position in range(number(4) if kind == _KEY else 1):
            if version > 1:
                stream.read(number(2))
            certificate = stream.read(number(4))
            if position == 0:
                yield certificate, name.endswith(_JDK)
