"""Environment variables that send a program through an intercepting recorder: proxy and certificates.

The certificate of the run's authority lies in a private directory of the user's cache, which stays for as long as a
program that was given it runs: a bundle has all that programs need after the run. Programs read different variables
for it. One adds to a program's own roots; all others replace them, so that they name a bundle with the system's roots,
with those of bundles that were set before, and with ours. What programs trust so, wiretape trusts for them: it is the
one that meets the servers.

A variable whose bundle cannot be read stays, where its programs fail without wiretape, too.
"""

import contextlib
import itertools
import json
import os
import re
import shlex
import shutil
import ssl
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from urllib.parse import urlsplit

from wiretape.recorder import paths, private, process
from wiretape.recorder.errors import WiretapeError
from wiretape.recorder.relay import bundles, local, outward, sockets
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
    "CARGO_HTTP_CAINFO": "Cargo",
    "WEBSOCKET_CLIENT_CA_BUNDLE": "websocket-client",
}
"""The variables that name certificates, and the programs that read them."""
_DIRECTORIES = ("SSL_CERT_DIR", "GIT_SSL_CAPATH")
"""Variables of directories, which programs read besides; they stay."""
_OPTIONAL = (ADDING, "SSL_CERT_FILE", "NIX_SSL_CERT_FILE", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", *_DIRECTORIES)
"""Variables whose programs go on without a bundle that they cannot read."""
NODE = "NODE_OPTIONS"
"""Variable of options for every Node process."""
JAVA = "JAVA_TOOL_OPTIONS"
"""Variable of options for every Java virtual machine, which prints them: no password may be in it."""
_NODE_PROXY = os.path.realpath(Path(__file__).with_name("node_proxy.cjs"))  # a permission is for no symbolic link
_NODE_READS = f"--allow-fs-read={_NODE_PROXY}"
_ASKS_PERMISSION = re.compile(
    r"(?<![\w.-])node(js)?(?=(\s+((--allow-fs-(read|write)|--require|--import|--conditions|-[rC])\s+[^-\s]\S*|-\S+))*?"
    r"\s+--(experimental-)?permission(?![\w-]))"
)
"""Node before options of its own that have it ask for permissions."""
_STORE = "truststore.p12"


_PERMISSION = re.compile(r"(?<!\S)--(experimental-)?permission(?![\w-])")


def proxied(
    environ: Mapping[str, str],
    proxy_url: str,
    certificates: Mapping[str, str],
    command: Sequence[str] = ("",),
    excluded: Sequence[str] = (),
) -> dict[str, str]:
    """Return a program's environment, in which it asks no proxy for the `excluded` hosts.

    Node's own `fetch` goes by the proxy only if `NODE_USE_ENV_PROXY` says so, and before Node 24 not even then: a file
    that `NODE_OPTIONS` names makes it. That file is not in the private directory: every later Node finds it.
    Java takes the last of options with one name. It keeps a proxy of its own.
    """
    variables = {name: value for name, value in environ.items() if name not in (*BYPASSES, outward.OUTWARD)}
    node_options = environ.get(NODE, "")
    reads = node_option(_NODE_READS) if _PERMISSION.search(node_options) else ""
    hook = "" if asks_in_shell(command) else node_option(f"--require={_NODE_PROXY}")
    options = " ".join(filter(None, (node_options, hook, reads)))
    added = java_options(proxy_url, certificates, environ.get(JAVA, ""), asks_for_loopback=not excluded)
    java = " ".join(filter(None, (environ.get(JAVA), added)))
    past = dict.fromkeys(BYPASSES, ",".join(excluded)) if excluded else {}
    settings = {"NODE_USE_ENV_PROXY": "1", NODE: options, **({JAVA: java} if java else {})}
    return {**variables, **past, **dict.fromkeys(PROXIES, proxy_url), **settings, **certificates}


def has_java_proxy(options: str) -> bool:
    """Return True if options for Java name a proxy."""
    return "proxyHost=" in options


def java_options(
    proxy_url: str, certificates: Mapping[str, str], node_options: str = "", *, asks_for_loopback: bool = True
) -> str:
    """Return the options by which Java trusts the certificates and goes by the proxy, beside those that were given.

    It has no option for a password. Where the recorder cannot find out whose a connection is, the proxy is left out: it
    would only refuse. By default Java asks no proxy for this machine: unless it `asks_for_loopback`.
    """
    store = str(Path(certificates["SSL_CERT_FILE"]).with_name(_STORE))
    options = []
    if paths.exists(store):
        quoted = f'"{store}"' if " " in store else store
        settings = {"": quoted, "Type": "PKCS12", "Password": ""}  # it has none, in place of another store's
        options = [f"-Djavax.net.ssl.trustStore{name}={value}" for name, value in settings.items()]
    host, _, port = urlsplit(proxy_url).netloc.rpartition("@")[2].rpartition(":")
    if process.HAS_PROC and ":" not in host and not has_java_proxy(node_options):
        options += [
            f"-D{scheme}.proxy{name}" for scheme in ("https", "http") for name in (f"Host={host}", f"Port={port}")
        ]
        options += ["-Dhttp.nonProxyHosts="] * asks_for_loopback
    return " ".join(options)


def node_option(option: str) -> str:
    """Return an option as `NODE_OPTIONS` has it; Node knows no escapes such as those of JSON for letters."""
    name, _, value = option.partition("=")
    return f"{name}={json.dumps(value, ensure_ascii=False) if ' ' in value else value}"


def with_read_permission(command: Sequence[str]) -> list[str]:
    """Return a command whose Node may read the file that `NODE_OPTIONS` names, if it has to ask for permission.

    Without the option, Node before 24 does not start; with it, one without its permission model does not, so that
    `NODE_OPTIONS` cannot have it.
    """
    for position, word in enumerate(command, 1):
        if PurePath(word).name in ("node", "nodejs") and _ASKS_PERMISSION.match(
            " ".join(("node", *command[position:]))
        ):
            return [*command[:position], _NODE_READS, *command[position:]]
    return list(command)


_SHELL = re.compile(r"(ba|da|k|z)?sh")


def asks_in_shell(command: Sequence[str]) -> bool:
    """Return True if a command is a shell's line that has Node ask for permission; no text of it can be changed."""
    return bool(_SHELL.fullmatch(PurePath(command[0]).name)) and any(map(_ASKS_PERMISSION.search, command[1:]))


def exports(proxy_url: str, certificates: Mapping[str, str]) -> list[str]:
    """Return shell lines that apply these changes to an environment; the shell replaces a `$NAME` in the URL."""
    proxy, *other_proxies = PROXIES
    adding, bundle, *same_bundles = certificates
    added_file, bundle_file = shlex.quote(certificates[adding]), shlex.quote(certificates[bundle])
    return [
        f'export {proxy}="{proxy_url}" NODE_USE_ENV_PROXY=1 {adding}={added_file} {bundle}={bundle_file}',
        "export " + " ".join(f"{name}=${proxy}" for name in other_proxies),
        "export " + " ".join(f'{name}="${bundle}"' for name in same_bundles),
        'export NODE_OPTIONS="${NODE_OPTIONS:+$NODE_OPTIONS }"' + shlex.quote(node_option(f"--require={_NODE_PROXY}")),
        f'export {JAVA}="${{{JAVA}:+${JAVA} }}"' + shlex.quote(java_options(proxy_url, certificates)),
        f"unset {' '.join(BYPASSES)}",
    ]


_NODE_MORE = f"of later ones fetch and https only. To record all: wiretape run -- node {_NODE_READS} --permission …"


def remarks(environ: Mapping[str, str], command: Sequence[str] = ("",)) -> list[str]:
    """Return the notices to the user about variables that are replaced."""
    notices = []
    if excluded := next((environ[name].strip() for name in BYPASSES if environ.get(name, "").strip()), ""):
        consequence = "everything would go past wiretape" if excluded == "*" else "hosts in it go by wiretape, too"
        notices.append(f"NO_PROXY={excluded} is cleared for the command: {consequence}")
    for name, reason in _preset(environ)[1].items():
        effect = "it adds nothing" if name in _OPTIONAL else f"it stays, and {READERS[name]} fails as without wiretape"
        notices.append(f"{name} names no certificates that can be read ({reason}): {effect}")
    if asks_in_shell(command):
        notices.append(f"Node asks for permission in this command: of Node before 24 nothing is recorded, {_NODE_MORE}")
    if reason := _java_certificates(environ, command)[1]:
        notices.append(f"Java's certificates cannot be read ({reason}): Java trusts them only, and is not recorded")
    return notices


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


def advice(host: str, agent: str, reason: str) -> str:
    """Return the advice for a program that does not trust our certificate; `agent` is its User-Agent, or empty."""
    agents = _AGENTS.items()
    variable = next((name for pattern, name in agents if re.search(pattern, agent, re.IGNORECASE)), None)
    # Node ends the handshake before it looks at the certificate, and sends no alert.
    likely, *others = [name for name in READERS if name != ADDING or "alert" not in reason][:5]
    reads = f"It {'reads' if variable else 'probably reads'} {variable or likely} ({READERS[variable or likely]})"
    alternatives = "" if variable else f"; others read {', '.join(f'{name} ({READERS[name]})' for name in others)}"
    program = clipped(agent.split(" ")[0], 60) or "a program"
    trusts = f"{'does not' if 'alert' in reason else 'seems not to'} trust"
    return (
        f"{program} {trusts} wiretape's certificate for {host} ({reason}). {reads}{alternatives}: that must name"
        " wiretape's certificates in its environment; if it does, the program brings its own"
    )


@contextlib.contextmanager
def certificate_files(
    certificate: str, environ: Mapping[str, str], ca_file: Path | None, command: Sequence[str] = ()
) -> Iterator[dict[str, str]]:
    """Write a certificate (PEM) and the bundles; yield the variables that name them. Raises `WiretapeError`.

    `ca_file` holds further certificates. The files are removed at the end, unless a process goes on with the variables.
    """
    added = bundles.parse(certificate)
    with contextlib.suppress(OSError):  # the recorder reports it
        added += bundles.read(str(ca_file)) if ca_file else ()
    preset, reasons = _preset(environ)
    bundle = [*added, *_system_roots(), *itertools.chain(*preset.values())]
    java, reason = _java_certificates(environ, command)
    with private.directory("wiretape-ca-", "wiretape's certificate", _cache(environ)) as directory:
        names = [name for name in READERS if name in _OPTIONAL or name not in reasons]
        files = {name: directory / ("wiretape.pem" if name == ADDING else "bundle.pem") for name in names}
        try:
            files[ADDING].write_text(bundles.pem([*added, *preset.get(ADDING, ())]), "ascii")
            files["SSL_CERT_FILE"].write_text(bundles.pem(bundle), "ascii")
            if not reason:
                (directory / _STORE).write_bytes(_trust_store([*bundle, *java]))
        except OSError as error:
            cause = paths.shortage(directory / "bundle.pem") or local.cause(error)
            raise WiretapeError(f"wiretape's certificate cannot be written: {cause}") from error
        yield {name: str(path) for name, path in files.items()}


def tls_context(ca_file: Path | None, client_cert: Path | None, environ: Mapping[str, str]) -> ssl.SSLContext:
    """Return the settings of TLS to API servers. Raises `WiretapeError` if a file cannot be used."""

    def added() -> Iterator[bytes]:  # after the system's certificates, which OpenSSL reads beside Python's threads
        yield from authorities(environ)

    return sockets.tls_context(ca_file, client_cert, added())


def authorities(environ: Mapping[str, str]) -> set[bytes]:
    """Return the certificates that programs trust besides the system's; of Java's, those that it did not come with."""
    java, _ = _java_certificates(environ)
    trusted = {certificate for certificate, is_javas in java.items() if not is_javas}
    trusted = trusted.union(*_preset(environ)[0].values())
    return trusted and trusted.difference(_system_roots())


def _preset(environ: Mapping[str, str]) -> tuple[dict[str, list[bytes]], dict[str, str]]:
    """Return the certificates that variables name, and for each variable that names none the reason."""
    certificates: dict[str, list[bytes]] = {}
    reasons: dict[str, str] = {}
    for name in (*READERS, *_DIRECTORIES):
        value = environ.get(name, "")
        for path in filter(None, value.split(os.pathsep) if name in _DIRECTORIES else [value]):
            try:
                certificates.setdefault(name, []).extend(bundles.read(path))
            except OSError as error:
                reasons[name] = f"{path}: {error.strerror}"
    return certificates, {name: reason for name, reason in reasons.items() if not certificates.get(name)}


_JAVA_TRUST = re.compile(r"""-Djavax\.net\.ssl\.trustStore(Password|Type|)=("[^"]*"|'[^']*'|\S*)""")
_JAVA_STORES = tuple(f"{place}lib/security/{name}" for place in ("", "jre/") for name in ("jssecacerts", "cacerts"))
"""Places of the store of a Java virtual machine below its directory: it reads the first that exists."""


def _java_certificates(environ: Mapping[str, str], command: Sequence[str] = ()) -> tuple[dict[bytes, bool], str]:
    """Return what Java trusts, with True for what it came with; or the reason why its store cannot be read.

    The store is the one that Java's options name, or those of the virtual machines that programs find.
    """
    options = {name: value.strip("\"'") for name, value in _JAVA_TRUST.findall(environ.get(JAVA, ""))}
    programs = [f"{environ['JAVA_HOME']}/bin/java"] if environ.get("JAVA_HOME") else []
    programs += filter(None, (shutil.which(name, path=environ.get("PATH")) for name in ("java", *command[:1])))
    homes = {Path(os.path.realpath(program)).parent.parent for program in programs if PurePath(program).name == "java"}
    stores = [next(filter(paths.is_file, (f"{home}/{place}" for place in _JAVA_STORES)), "") for home in homes]
    if options.keys() & {"", "Type"}:
        stores = [options.get("", f"the store {options.get('Type')}")]
    certificates: dict[bytes, bool] = {}
    for store in filter(None, stores):
        try:
            certificates.update(bundles.read_store(store, options.get("Password", "")))
        except OSError as error:
            return {}, f"{store}: {error.strerror}"
    return certificates, ""


def _cache(environ: Mapping[str, str]) -> Path | None:
    """Return the user's cache directory for wiretape; None if there is no place for it."""
    home = environ.get("XDG_CACHE_HOME") or (environ.get("HOME") and f"{environ['HOME']}/.cache")
    if not home or not os.path.isabs(home):
        return None
    place = Path(home) / "wiretape"
    with contextlib.suppress(OSError):  # it may be a file, or a link to nowhere
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    return place if paths.is_directory(place) and os.access(place, os.W_OK | os.X_OK) else None


def _trust_store(bundle: Iterable[bytes]) -> bytes:
    """Return certificates as PKCS #12 without a password, as Java reads them."""
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import NoEncryption, pkcs12

    entries = []
    for number, der in enumerate(dict.fromkeys(bundle)):
        with warnings.catch_warnings(action="ignore"), contextlib.suppress(ValueError):  # some roots break RFC 5280
            entries.append(pkcs12.PKCS12Certificate(x509.load_der_x509_certificate(der), b"%d" % number))
    return pkcs12.serialize_java_truststore(entries, NoEncryption())


_SYSTEM_BUNDLES = (
    "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/ca-bundle.pem",
    "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem", "/usr/local/etc/ssl/cert.pem",
)  # fmt: skip


def _system_roots() -> Sequence[bytes]:
    """Return the roots that the system trusts; where it has no file of them, certifi's, which most programs bring."""
    for path in (ssl.get_default_verify_paths().openssl_cafile, *_SYSTEM_BUNDLES):
        with contextlib.suppress(OSError):
            return bundles.read(path)
    import certifi

    return bundles.parse(certifi.contents())
