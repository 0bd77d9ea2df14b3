"""Makes a TLS context from Kafka's `ssl.*` properties.

Rules: key stores and trust stores must be PEM (`ssl.truststore.type=PEM`). A key store or trust store is either a file
or the PEM text in a property. Two properties name files: `ssl.truststore.location` and `ssl.keystore.location`. The
file `ssl.keystore.location` contains the key and its certificates. Three properties contain PEM texts:
`ssl.truststore.certificates`, `ssl.keystore.key` and `ssl.keystore.certificate.chain`. If no trust store is given, the
system's certificates are trusted. The broker's host name is verified if `ssl.endpoint.identification.algorithm` is not
empty. Source: `SslConfigs`, `DefaultSslEngineFactory`.
"""

import re
import ssl
import tempfile
from collections.abc import Mapping
from pathlib import Path

from assignor.errors import InputError

TRUSTSTORE_LOCATION = "ssl.truststore.location"
TRUSTSTORE_CERTIFICATES = "ssl.truststore.certificates"
KEYSTORE_LOCATION = "ssl.keystore.location"
KEYSTORE_KEY = "ssl.keystore.key"
KEYSTORE_CHAIN = "ssl.keystore.certificate.chain"
KEY_PASSWORD = "ssl.key.password"  # The value is the name of a property. # noqa: S105
ENDPOINT_IDENTIFICATION = "ssl.endpoint.identification.algorithm"
ENABLED_PROTOCOLS = "ssl.enabled.protocols"
PROTOCOL = "ssl.protocol"
TLS_KEYS = frozenset(
    {
        TRUSTSTORE_LOCATION,
        TRUSTSTORE_CERTIFICATES,
        "ssl.truststore.type",
        KEYSTORE_LOCATION,
        "ssl.keystore.type",
        KEYSTORE_KEY,
        KEYSTORE_CHAIN,
        KEY_PASSWORD,
        ENDPOINT_IDENTIFICATION,
        ENABLED_PROTOCOLS,
        PROTOCOL,
        # the password properties are in this list so that the error can explain that PEM stores have no password
        "ssl.truststore.password",
        "ssl.keystore.password",
    }
)

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_PEM_BLOCK = re.compile(r"(?P<begin>-----BEGIN (?P<what>[A-Z ]+)-----)(?P<body>[^-]*)(?P<end>-----END (?P=what)-----)")
_CERTIFICATE = "-----BEGIN CERTIFICATE-----"
_CONVERSION = {
    "ssl.truststore": "keytool -exportcert -rfc -alias <alias> -keystore <store> > ca.pem",
    "ssl.keystore": "openssl pkcs12 -in <store.p12> -out client.pem (a JKS store: keytool -importkeystore first)",
}


def ssl_context(properties: Mapping[str, str]) -> ssl.SSLContext:
    """Returns the TLS context for the given properties. Raises InputError if a property cannot be used; the message
    names the property and the fault.
    """
    for store in ("ssl.truststore", "ssl.keystore"):
        _check_type(properties, store)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    versions = _versions(properties)
    context.minimum_version, context.maximum_version = versions[0], versions[-1]
    algorithm = properties.get(ENDPOINT_IDENTIFICATION, "https")
    if algorithm.lower() not in ("", "https"):
        raise InputError(f"must be https, or empty to accept any name, not {algorithm!r}", ENDPOINT_IDENTIFICATION)
    context.check_hostname = algorithm != ""
    _trust(context, properties)
    _identify(context, properties)
    return context


def _check_type(properties: Mapping[str, str], store: str) -> None:
    kind = properties.get(f"{store}.type", "PEM")
    if kind != "PEM":
        raise InputError(
            f"{kind!r} cannot be read here, only PEM; convert the store: {_CONVERSION[store]}", f"{store}.type"
        )
    if f"{store}.password" in properties:
        raise InputError(
            f"a PEM store has no password; leave it out (a private key's is {KEY_PASSWORD})", f"{store}.password"
        )


def _versions(properties: Mapping[str, str]) -> list[ssl.TLSVersion]:
    key = ENABLED_PROTOCOLS if ENABLED_PROTOCOLS in properties else PROTOCOL
    names = [name.strip() for name in properties.get(key, "TLSv1.2,TLSv1.3").split(",")]
    for name in names:
        if name not in _VERSIONS:
            raise InputError(f"must be one or more of {', '.join(_VERSIONS)}, not {name!r}", key)
    if key == PROTOCOL:
        # `ssl.protocol` names the newest allowed version; TLSv1.2 is always allowed
        names = ["TLSv1.2", *names]
    return sorted(_VERSIONS[name] for name in names)


def _trust(context: ssl.SSLContext, properties: Mapping[str, str]) -> None:
    location, certificates = properties.get(TRUSTSTORE_LOCATION), properties.get(TRUSTSTORE_CERTIFICATES)
    if location and certificates:
        raise InputError(f"cannot be set together with {TRUSTSTORE_LOCATION}; leave one out", TRUSTSTORE_CERTIFICATES)
    if not location and not certificates:
        context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        return
    where = TRUSTSTORE_LOCATION if location else TRUSTSTORE_CERTIFICATES
    text = _text(location, TRUSTSTORE_LOCATION) if location else _pem(certificates or "")
    if _CERTIFICATE not in text:
        raise InputError(
            f"has no line {_CERTIFICATE!r}: only PEM can be read; convert the store: {_CONVERSION['ssl.truststore']}",
            where,
        )
    try:
        context.load_verify_locations(cadata=text)
    except ssl.SSLError as error:
        raise InputError(f"is not a PEM certificate: {error.reason or error}", where) from None


def _identify(context: ssl.SSLContext, properties: Mapping[str, str]) -> None:
    location, key, chain = (properties.get(name) for name in (KEYSTORE_LOCATION, KEYSTORE_KEY, KEYSTORE_CHAIN))
    if location and (key or chain):
        raise InputError(
            f"cannot be set together with {KEYSTORE_LOCATION}; leave one out", KEYSTORE_KEY if key else KEYSTORE_CHAIN
        )
    if bool(key) != bool(chain):
        raise InputError("is missing", KEYSTORE_CHAIN if key else KEYSTORE_KEY)
    if location:
        _load(context, Path(location), properties, KEYSTORE_LOCATION, _text(location, KEYSTORE_LOCATION))
    elif key and chain:
        text = _pem(key) + _pem(chain)
        # The TLS library can load a key only from a file. This temporary file has mode 600 and is deleted after
        # loading.
        with tempfile.NamedTemporaryFile("w", prefix="assignor-", suffix=".pem") as file:
            file.write(text)
            file.flush()
            _load(context, Path(file.name), properties, KEYSTORE_KEY, text)


def _load(context: ssl.SSLContext, path: Path, properties: Mapping[str, str], where: str, text: str) -> None:
    if _CERTIFICATE not in text or "PRIVATE KEY-----" not in text:
        raise InputError(
            "must hold a private key and its certificates in PEM; convert the store: " + _CONVERSION["ssl.keystore"],
            where,
        )
    try:
        # without a password argument, the TLS library would prompt on the terminal; an empty password prevents the
        # prompt
        context.load_cert_chain(path, password=properties.get(KEY_PASSWORD, ""))
    except (ssl.SSLError, ValueError) as error:
        reason = error.reason if isinstance(error, ssl.SSLError) else str(error)
        raise InputError(f"cannot be used: {reason or error}; check {KEY_PASSWORD} and the file", where) from None


def _text(location: str, where: str) -> str:
    try:
        # a file may contain any text around its PEM blocks
        return Path(location).read_bytes().decode("ascii", "ignore")
    except OSError as error:
        raise InputError(f"cannot read {location}: {error.strerror}", where) from None


def _pem(value: str) -> str:
    """Returns the PEM blocks of a property, with line breaks in them. In a properties file, a PEM block is often a
    single line.
    """

    def block(match: re.Match[str]) -> str:
        body = "".join(match["body"].split())
        return "\n".join([match["begin"], *[body[at : at + 64] for at in range(0, len(body), 64)], match["end"], ""])

    return "".join(block(match) for match in _PEM_BLOCK.finditer(value))
