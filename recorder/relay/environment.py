"""Environment variables that send a program through an intercepting recorder: proxy and certificates.

The certificate of the run's authority lies in a private directory of the user's cache, which stays for as long as a
program that was given it runs: a bundle has all that programs need after the run. Programs read different variables
for it. One adds to a program's own roots; all others replace them, so that they name a bundle with the system's roots,
with those of bundles that were set before, and with ours.
"""

import contextlib
import json
import os
import re
import shlex
import ssl
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from wiretape.recorder import paths, private, process
from wiretape.recorder.errors import WiretapeError
from wiretape.recorder.relay import local
from wiretape.recorder.sanitize import clipped

PROXIES = ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "https_proxy", "http_proxy", "all_proxy")
BYPASSES = ("NO_PROXY", "no_proxy")
ADDING = "NODE_EXTRA_CA_CERTS"
"""Variable of certificates that a program trusts in addition to its own."""
READERS = {
    ADDING: "Node, Bun",
    "SSL_CERT_FILE": "OpenSSL, Python, Go, Rust, Ruby",
    "CODEX_CA_CERTIFICATE": "Codex",
    "REQUESTS_CA_BUNDLE": "requests",
    "CURL_CA_BUNDLE": "curl",
    "AWS_CA_BUNDLE": "the AWS SDKs",
    "DENO_CERT": "Deno",
    "GIT_SSL_CAINFO": "Git",
    "HTTPLIB2_CA_CERTS": "httplib2",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH": "gRPC",
    "NIX_SSL_CERT_FILE": "programs of Nix",
    "PIP_CERT": "pip",
    "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE": "gcloud",
}
"""The variables that name certificates, and the programs that read them."""
_AGENTS = {
    r"curl/": "CURL_CA_BUNDLE",
    r"python-requests|litellm": "REQUESTS_CA_BUNDLE",
    r"boto|aws-(cli|sdk)": "AWS_CA_BUNDLE",
    r"git/": "GIT_SSL_CAINFO",
    r"deno": "DENO_CERT",
    r"codex": "CODEX_CA_CERTIFICATE",
    r"node|undici|bun/|axios|claude|/js": ADDING,
    r"python|httpx|aiohttp|go-http|reqwest|ruby": "SSL_CERT_FILE",
}
NODE = "NODE_OPTIONS"
"""Variable of options for every Node process."""
JAVA = "JAVA_TOOL_OPTIONS"
"""Variable of options for every Java virtual machine, which prints them: no password may be in it."""
_NODE_PROXY = str(Path(__file__).with_name("node_proxy.cjs"))
_NAMED = 5
_AGENT_CHARACTERS = 60
_SYSTEM_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem", "/usr/local/etc/ssl/cert.pem",
)  # fmt: skip
_CERTIFICATE = re.compile(r"-----BEGIN CERTIFICATE-----\s.*?-----END CERTIFICATE-----", re.DOTALL)
_PREFIX = "wiretape-ca-"
_STORE = "truststore.p12"


def proxied(environ: Mapping[str, str], proxy_url: str, certificates: Mapping[str, str]) -> dict[str, str]:
    """Return a program's environment.

    Node's own `fetch` goes by the proxy only if `NODE_USE_ENV_PROXY` says so, and before Node 24 not even then: a file
    that `NODE_OPTIONS` names makes it. That file is not in the private directory: every later Node finds it.
    Java gets options, unless the user has set some.
    """
    kept = {name: value for name, value in environ.items() if name not in BYPASSES}
    options = " ".join(filter(None, (environ.get(NODE), node_option(_NODE_PROXY))))
    others = {"NODE_USE_ENV_PROXY": "1", NODE: options}
    if not environ.get(JAVA):
        others[JAVA] = java_options(proxy_url, certificates)
    return {**kept, **dict.fromkeys(PROXIES, proxy_url), **others, **certificates}


def java_options(proxy_url: str, certificates: Mapping[str, str]) -> str:
    """Return the options by which Java trusts the certificates and goes by the proxy.

    It has no option for a password. Where the recorder cannot find out whose a connection is, the proxy is left out: it
    would only refuse. By default Java asks no proxy for this machine: that is cleared, as `NO_PROXY` is.
    """
    store = str(Path(certificates["SSL_CERT_FILE"]).with_name(_STORE))
    options = [f"-Djavax.net.ssl.trustStore={_quoted(store)}", "-Djavax.net.ssl.trustStoreType=PKCS12"]
    host, _, port = urlsplit(proxy_url).netloc.rpartition("@")[2].rpartition(":")
    if process.HAS_PROC and ":" not in host:
        options += [
            f"-D{scheme}.proxy{name}" for scheme in ("https", "http") for name in (f"Host={host}", f"Port={port}")
        ]
        options.append("-Dhttp.nonProxyHosts=")
    return " ".join(options)


def _quoted(text: str) -> str:
    return f'"{text}"' if " " in text else text


def node_option(script: str) -> str:
    """Return the option by which Node runs a script first; Node knows no escapes such as those of JSON for letters."""
    return f"--require={json.dumps(script, ensure_ascii=False) if ' ' in script else script}"


def exports(proxy_url: str, certificates: Mapping[str, str]) -> list[str]:
    """Return shell lines that apply these changes to an environment; the shell replaces a `$NAME` in the URL."""
    first, *others = PROXIES
    adding, bundle, *same = certificates
    own, system = shlex.quote(certificates[adding]), shlex.quote(certificates[bundle])
    return [
        f'export {first}="{proxy_url}" NODE_USE_ENV_PROXY=1 {adding}={own} {bundle}={system}',
        "export " + " ".join(f"{name}=${first}" for name in others),
        "export " + " ".join(f'{name}="${bundle}"' for name in same),
        'export NODE_OPTIONS="${NODE_OPTIONS:+$NODE_OPTIONS }"' + shlex.quote(node_option(_NODE_PROXY)),
        f'[ -n "${JAVA}" ] || export {JAVA}={shlex.quote(java_options(proxy_url, certificates))}',
        f"unset {' '.join(BYPASSES)}",
    ]


def remarks(environ: Mapping[str, str]) -> list[str]:
    """Return the notices to the user about variables that are replaced."""
    notices = []
    if excluded := next((environ[name].strip() for name in BYPASSES if environ.get(name, "").strip()), ""):
        what = "everything would have gone past wiretape" if excluded == "*" else "hosts in it are recorded, too"
        notices.append(f"NO_PROXY={excluded} is cleared for the command: {what}")
    if preset := [name for name in PROXIES if environ.get(name)]:
        notices.append(f"{preset[0]} is replaced: wiretape itself connects to hosts directly, not through that proxy")
    return notices


def advice(host: str, agent: str, why: str) -> str:
    """Return the advice for a program that does not trust our certificate; `agent` is its User-Agent, or empty."""
    known = next((name for pattern, name in _AGENTS.items() if re.search(pattern, agent, re.IGNORECASE)), None)
    # Node ends the handshake before it looks at the certificate, and sends no alert.
    likely, *others = [name for name in READERS if name != ADDING or "alert" not in why][:_NAMED]
    reads = f"It {'reads' if known else 'probably reads'} {known or likely} ({READERS[known or likely]})"
    rest = "" if known else f"; others read {', '.join(f'{name} ({READERS[name]})' for name in others)}"
    program = clipped(agent.split(" ")[0], _AGENT_CHARACTERS) or "a program"
    trusts = f"{'does not' if 'alert' in why else 'seems not to'} trust"
    return (
        f"{program} {trusts} wiretape's certificate for {host} ({why}). {reads}{rest}: that must name wiretape's "
        "certificates in its environment; if it does, the program brings its own"
    )


@contextlib.contextmanager
def certificate_files(own: str, environ: Mapping[str, str], ca_file: Path | None) -> Iterator[dict[str, str]]:
    """Write `own`, a certificate as PEM, and the bundles; yield the variables that name them. Raises `WiretapeError`.

    `ca_file` holds further certificates. The files are removed at the end, unless a process goes on with the variables.
    """
    adding = _certificates([own, *_contents([environ.get(ADDING)]), *_contents([ca_file])])
    preset = _contents(environ.get(name) for name in READERS)
    bundle = _certificates([own, _system_roots(), *preset, *_contents([ca_file])])
    with private.directory(_PREFIX, "wiretape's certificate", _cache(environ)) as directory:
        paths = {name: directory / ("wiretape.pem" if name == ADDING else "bundle.pem") for name in READERS}
        try:
            paths[ADDING].write_text(adding, "ascii")
            paths["SSL_CERT_FILE"].write_text(bundle, "ascii")
            (directory / _STORE).write_bytes(_trust_store(bundle))
        except OSError as error:
            raise WiretapeError(f"wiretape's certificate cannot be written: {local.cause(error)}") from error
        yield {name: str(path) for name, path in paths.items()}


def _cache(environ: Mapping[str, str]) -> Path | None:
    """Return the user's cache directory for wiretape; None if there is no place for it."""
    home = environ.get("XDG_CACHE_HOME") or (environ.get("HOME") and f"{environ['HOME']}/.cache")
    if not home or not os.path.isabs(home):
        return None
    place = Path(home) / "wiretape"
    with contextlib.suppress(OSError):  # it may be a file, or a link to nowhere
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    return place if paths.is_directory(place) and os.access(place, os.W_OK | os.X_OK) else None


def _trust_store(bundle: str) -> bytes:
    """Return certificates as PKCS #12 without a password, as Java reads them."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import NoEncryption, pkcs12

    found = []
    for number, text in enumerate(_CERTIFICATE.findall(bundle)):
        with warnings.catch_warnings(action="ignore"), contextlib.suppress(ValueError):  # some roots break RFC 5280
            certificate = x509.load_pem_x509_certificate(text.encode())
            found.append(pkcs12.PKCS12Certificate(certificate, b"%d" % number))
    return pkcs12.serialize_java_truststore(found, NoEncryption())


def _certificates(texts: Iterable[str]) -> str:
    """Return each certificate in PEM files once."""
    found = dict.fromkeys(one for text in texts for one in _CERTIFICATE.findall(text))
    return "".join(f"{one}\n" for one in found)


def _contents(paths: Iterable[str | Path | None]) -> list[str]:
    """Read files; one that cannot be read was of no use to the program either."""
    texts = []
    for path in {str(path) for path in paths if path}:
        with contextlib.suppress(OSError):  # the program could not read it, either
            texts.append(Path(path).read_text("ascii", "replace"))
    return texts


def _system_roots() -> str:
    """Return the roots that the system trusts; where it has no file of them, certifi's, which most programs bring."""
    own = ssl.get_default_verify_paths().openssl_cafile
    for path in (own, *_SYSTEM_BUNDLES):
        if any("BEGIN CERTIFICATE" in text for text in _contents([path])):
            return "".join(_contents([path]))
    import certifi

    return certifi.contents()
