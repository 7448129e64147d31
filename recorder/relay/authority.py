"""A certificate authority for one run of a recorder, and the TLS contexts that stand in for API servers.

No key is ever a file: the authority's is in memory only, and the one key that all its servers share reaches OpenSSL,
which takes keys from files, through pipes. Each host costs one signature, once.
"""

import contextlib
import functools
import ipaddress
import os
import secrets
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, cast

from wiretape.recorder import paths
from wiretape.recorder.clock import SYSTEM
from wiretape.recorder.errors import WiretapeError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey, EllipticCurvePublicKey


@dataclass(frozen=True, slots=True)
class Authority:
    """An authority: its certificate and its key, both as PEM."""

    certificate: str
    key: str = field(repr=False)


def make() -> Authority:
    """Return a new authority, which nothing trusts yet."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, "wiretape"),
        x509.NameAttribute(NameOID.COMMON_NAME, f"wiretape, one run's own authority {secrets.token_hex(4)}"),
    ])  # fmt: skip
    builder = (
        _builder(name, name, key.public_key(), key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
    )
    certificate = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    return Authority(certificate.decode(), _pem(key).decode())


class Certificates:
    """The servers' side of TLS for any host, certified by an authority."""

    def __init__(self, authority: Authority) -> None:
        from cryptography import x509
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        self._issuer = x509.load_pem_x509_certificate(authority.certificate.encode()).subject
        issuer_key = serialization.load_pem_private_key(authority.key.encode(), None)
        self._issuer_key = cast("EllipticCurvePrivateKey", issuer_key)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._key_pem = _pem(self._key)
        self.context = functools.lru_cache(256)(self._context)

    def _context(self, host: str, protocol: str | None) -> ssl.SSLContext:
        """Return the TLS context of a server for `host`, a name or an address, that agrees on one protocol or none."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        if protocol is not None:
            context.set_alpn_protocols([protocol])
        with _piped(self._certificate(host)) as certificate, _piped(self._key_pem) as key:
            context.load_cert_chain(certificate, key)
        return context

    def _certificate(self, host: str) -> bytes:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "wiretape, in place of the server")])
        builder = (
            _builder(name, self._issuer, self._key.public_key(), self._issuer_key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(x509.SubjectAlternativeName([_alternative(host)]), critical=False)
        )
        return builder.sign(self._issuer_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _pem(key: "EllipticCurvePrivateKey") -> bytes:
    from cryptography.hazmat.primitives import serialization

    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _builder(
    subject: "x509.Name", issuer: "x509.Name", key: "EllipticCurvePublicKey", issuer_key: "EllipticCurvePublicKey"
) -> "x509.CertificateBuilder":
    from cryptography import x509

    now = datetime.fromtimestamp(SYSTEM.wall_ns() / 1e9, UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=30))  # a recorder that runs longer has to be restarted
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key), critical=False)
    )


def _usage(*, signs_certificates: bool) -> "x509.KeyUsage":
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _alternative(host: str) -> "x509.GeneralName":
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


@contextlib.contextmanager
def _piped(data: bytes) -> Iterator[str]:
    """Yield the path of a pipe that holds `data`, and nothing else."""
    reading, writing = os.pipe()
    try:
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(data)  # all of it: a pipe takes at least 4 KiB at once
        if not paths.exists(path := f"/dev/fd/{reading}"):
            raise WiretapeError("interception needs /dev/fd, by which a key is handed over that is no file: mount it")
        yield path
    finally:
        os.close(reading)
