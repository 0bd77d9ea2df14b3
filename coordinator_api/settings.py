"""The service's settings, with their descriptions for the documentation. The names of the settings have dots, like the
names of a broker's settings.

`settings_sources` reads the settings. Each field is one setting. A setting's name has three spellings:
`group.initial.rebalance.delay.ms` in the file, `ASSIGNOR_GROUP_INITIAL_REBALANCE_DELAY_MS` in the environment, and
`--group-initial-rebalance-delay-ms` as a flag. Source of the `group.*` names and defaults: `GroupCoordinatorConfig`. If
a default differs from Kafka's, the description of the setting says so.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from assignor.errors import InputError
from assignor.types import JAVA_INT_MAX, JAVA_LONG_MAX
from coordinator_client.access.tls import ServerTls, server_tls
from coordinator_client.addresses import is_host

ENVIRONMENT_PREFIX = "ASSIGNOR_"

_HOST_AND_PORT = r"(\[[^\]]+\]|[^\s:,;\[\]/]+):\d{1,5}"
_BROKER = re.compile(_HOST_AND_PORT)
ANY_ADDRESS = "*"
"""The value of forwarded.allow.ips that stands for every proxy."""

_ROOT_PATH = re.compile(r"(?!/(?:ui|v1)(?:/|\Z))(?:/(?!\.{1,2}(?:/|\Z))[A-Za-z0-9._~-]+){0,16}", re.ASCII)
_LONGEST_ROOT_PATH = 200
_ADVERTISED = re.compile(r"https?://(\[[0-9A-Fa-f:.]+\]|[^\s:,;\[\]/@?#]+)(:\d{1,5})?")
_WITH_USER = re.compile(r"@[^/@]*:\d{1,5}\s*(,|;|\Z)")
_BROKERS = re.compile(rf"([a-z]+:)?{_HOST_AND_PORT}(,{_HOST_AND_PORT})*")

REMOVED: Mapping[str, str] = {
    "max_connections": "the process's limit of open files (LimitNOFILE= of its unit), or worker_connections of nginx",
    "max_connections_per_ip": "limit_conn of nginx",
    "request_headers_timeout_ms": "client_header_timeout of nginx",
}
"""The removed settings of earlier releases, by field name, each with its present replacement. deploy/nginx.conf shows
all replacements.
"""


class SettingsError(InputError):
    """A setting cannot be used. The message has one or more lines, which name the necessary changes."""


def clusters_in(text: str) -> tuple[str, ...]:
    """The addresses of clusters in a comma-separated list.

    As in Kafka, successive addresses of the form `host:port` are the brokers of one cluster. An address with a prefix
    (`kafka:`, `embedded:`) begins another cluster. If `text` contains a semicolon, semicolons separate the brokers of a
    cluster, and commas separate the clusters.
    """
    clusters: list[str] = []
    for part in (each.strip() for each in text.split(",")):
        if part and ";" not in text and clusters and _BROKER.fullmatch(part) and _BROKERS.fullmatch(clusters[-1]):
            clusters[-1] += f",{part}"
        elif part:
            clusters.append(part)
    return tuple(clusters)


def _split_into_clusters(value: object) -> object:
    return clusters_in(value) if isinstance(value, str) else value


def _check_without_passwords(value: tuple[str, ...]) -> tuple[str, ...]:
    if any(_WITH_USER.search(address) for address in value):
        raise ValueError("must be host:port, without a user or a password: everybody who sees a group sees it")
    return value


def _check_host(value: str) -> str:
    if not is_host(value):
        raise ValueError("must be the name or the address of this machine: a part has at most 63 characters")
    return value


def _check_advertised(value: str | None) -> str | None:
    if value is not None and not _ADVERTISED.fullmatch(value):
        raise ValueError("must be http://host:port or https://host:port, without a user and without a path")
    return value


def _check_root_path(value: str) -> str:
    path = value.rstrip("/")
    if not is_root_path(path):
        raise ValueError("must be a path such as /assignor, and begin with neither /ui nor /v1")
    return path


def _check_proxies(value: tuple[str, ...]) -> tuple[str, ...]:
    try:
        for each in value:
            if each != ANY_ADDRESS:
                ip_network(each, strict=False)
    except ValueError:
        raise ValueError("must be addresses such as 127.0.0.1, networks such as 10.0.0.0/8, or *") from None
    return value


def _split_at_commas(value: object) -> object:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


Natural = Annotated[int, Field(ge=0, le=JAVA_INT_MAX)]
Positive = Annotated[int, Field(ge=1, le=JAVA_INT_MAX)]
Bytes = Annotated[int, Field(ge=1_024, le=JAVA_INT_MAX)]
Text = Annotated[str, Field(min_length=1)]
OptionalText = Annotated[str | None, Field(min_length=1)]
Secret = Annotated[str | None, Field(min_length=1, repr=False)]
Names = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split_at_commas)]
Clusters = Annotated[
    tuple[str, ...], NoDecode, BeforeValidator(_split_into_clusters), AfterValidator(_check_without_passwords)
]


class Settings(BaseSettings):
    """The settings of `assignor serve`. Times are in milliseconds, sizes in bytes.

    The string below a setting describes it in the documentation and in `assignor serve --help`.
    """

    model_config = SettingsConfigDict(
        env_prefix=ENVIRONMENT_PREFIX, env_ignore_empty=True, extra="forbid", frozen=True, use_attribute_docstrings=True
    )

    database_url: Text = "sqlite:///assignor.sqlite3"
    """Database of the groups: `sqlite:///file` or `postgresql://...`."""
    host: Annotated[Text, AfterValidator(_check_host)] = "127.0.0.1"
    """Address to listen on. If other machines can reach the address, the service needs at least one token."""
    port: Annotated[int, Field(ge=0, le=65_535)] = 8080
    """Port to listen on. With 0, the service takes a free port and prints it."""
    root_path: Annotated[str, AfterValidator(_check_root_path)] = ""
    """Path below which a proxy shows this service, such as `/assignor`. This setting is not needed if the proxy sends
    `X-Forwarded-Prefix`.
    """
    forwarded_allow_ips: Annotated[Names, AfterValidator(_check_proxies)] = ("127.0.0.1", "::1")
    """Addresses and networks of trusted proxies, separated by commas; `*` for all. Only trusted proxies may set
    `X-Forwarded-Prefix`, `X-Forwarded-Host` and `X-Forwarded-Proto`.
    """
    advertised_url: Annotated[OptionalText, AfterValidator(_check_advertised)] = None
    """On PostgreSQL: URL at which callers and other coordinators of the database reach this coordinator, such as
    `https://coordinator-1:8080`. The default is the address on which the coordinator listens.
    """
    lease_timeout_ms: Annotated[int, Field(ge=600, le=JAVA_INT_MAX)] = 1_200
    """On PostgreSQL: longest time until other coordinators of the database serve the groups of a killed coordinator.
    All coordinators of a database need the same value.
    """
    database_statement_timeout_ms: Annotated[int, Field(ge=100, le=JAVA_INT_MAX)] = 3_000
    """On PostgreSQL: time limit for a statement that reads or writes a group. The limit also applies to the wait for a
    connection. A renewal of the lease may take up to a third of `lease.timeout.ms`.
    """

    group_initial_rebalance_delay_ms: Natural = 3_000
    """Time for which the first rebalance of an empty group waits for more members."""
    group_min_session_timeout_ms: Positive = 500
    """Lowest session timeout that a member may have (Kafka: 6000; the low default allows failover within a second)."""
    group_max_session_timeout_ms: Positive = 1_800_000
    """Highest session timeout that a member may have."""
    group_max_size: Positive = 10_000
    """Largest number of members of one group (Kafka has no limit). A further join gets status 429."""
    group_disconnect_grace_ms: Natural = 100
    """After its connection breaks, a process has to send another request within this time. If the process sends no
    request, the coordinator removes the process's members that joined with `leave_on_disconnect`.
    """
    group_max_partitions: Positive = 200_000
    """Largest total number of partitions of all topics, and largest number of tasks, in one definition or recording. A
    larger document gets status 422.
    """
    group_max_subtopologies: Positive = 1_000
    """Largest number of subtopologies in one definition or recording. A larger document gets status 422."""
    group_max_count: Positive = 1_000
    """Largest number of groups of this service. The declaration of a further group gets status 429."""

    request_max_bytes: Bytes = 33_554_432
    """Largest body of a request that sends a document. A larger body gets status 413."""
    heartbeat_max_bytes: Bytes = 65_536
    """Largest heartbeat of one member. A larger heartbeat gets status 413."""
    process_heartbeat_max_bytes: Bytes = 1_048_576
    """Largest heartbeat of a process with all its members. A larger heartbeat gets status 413."""
    subscription_max_bytes: Bytes = 1_048_576
    """Largest body of a join, which POSTs a subscription. A larger body gets status 413."""
    request_timeout_ms: Positive = 30_000
    """Time limit for the arrival of a request body. A slower request gets status 408."""
    longpoll_max_count: Positive = 10_000
    """Largest number of requests (GETs and heartbeats) that are held at one time. Above this limit, a GET gets status
    429, and a heartbeat is answered at once.
    """
    longpoll_max_wait_ms: Natural = 60_000
    """Longest time for which one GET or heartbeat is held. A larger `wait_ms` is reduced to this value."""
    page_events_max_count: Natural = 1_000
    """Largest number of open web pages that are updated at one time. A further page shows a message and tries again.
    """
    page_store_queries: Literal["off", "on"] = "off"
    """If `on`, operators may query a store by key on the web page. To answer a query, the service calls the addresses
    of members.
    """
    page_store_token_file: Path | None = None
    """File with the service's token for instances. The service sends the token when an operator queries a store on the
    web page.
    """
    computation_max_count: Annotated[int, Field(ge=1, le=1_000)] = 4
    """Largest number of computations at one time: calls of POST /v1/assign and POST /v1/simulate, and explanations of
    rebalances. A further call gets status 429.
    """
    tenant_max_groups: Natural = JAVA_INT_MAX
    """Largest number of groups of one tenant, which is a prefix of group ids. The declaration of a further group gets
    status 429.
    """
    tenant_max_members: Natural = JAVA_INT_MAX
    """Largest number of members of one tenant's groups. A further join gets status 429."""
    tenant_max_bytes: Annotated[int, Field(ge=0, le=JAVA_LONG_MAX)] = JAVA_LONG_MAX
    """Largest size of the logs and recorded rebalances of one tenant's groups in the store. Above this size, the
    service refuses definitions, new members and reported rebalances with 429.
    """
    tenant_max_computations: Natural = JAVA_INT_MAX
    """Largest number of computations of one tenant at one time: calls of POST /v1/assign and POST /v1/simulate, and
    explanations of rebalances. A further call gets status 429.
    """
    shutdown_timeout_ms: Natural = 4_000
    """Time for which a stopping service waits for requests in progress. A stopping service refuses at once each request
    whose body is still arriving. The process ends at most a second after this time, even if the store does not answer.
    """

    rebalances_retained_count: Positive = 1_000
    """Number of recorded rebalances that are kept for each group. The oldest rebalances are deleted first."""
    records_compaction_bytes: Annotated[int, Field(ge=1_024, le=JAVA_LONG_MAX)] = 524_288
    """Size at which a group's log is rewritten as one snapshot. The log must also have at least twice the size of its
    last snapshot. A coordinator has to read the whole log before it can lead the group.
    """
    sqlite_synchronous: Literal["FULL", "EXTRA", "NORMAL"] = "FULL"
    """SQLite's durability. With FULL, commits survive a power loss; with NORMAL, they survive only a crash of the
    process.
    """
    sqlite_busy_timeout_ms: Natural = 5_000
    """Longest time for which a write waits while another process has locked the SQLite file."""

    auth_token: Secret = None
    """Bearer token with the right admin for all groups."""
    auth_token_file: Path | None = None
    """File with a bearer token that has the right admin for all groups. A changed file is read again."""
    auth_tokens: Secret = None
    """Hashes of tokens, in the format of `assignor tokens create --file`. Each token has a name, a right and a prefix
    of group ids. Each token is on its own line, or semicolons separate the tokens on one line.
    """
    auth_tokens_file: Path | None = None
    """File with tokens in the format of auth.tokens. A changed file is read again."""
    ssl_certfile: Path | None = None
    """PEM file with the service's certificate and its chain. If this setting is set, the service accepts only TLS
    connections.
    """
    ssl_keyfile: Path | None = None
    """PEM file with the private key. This setting is not needed if the file of ssl.certfile contains the key."""
    ssl_keyfile_password: Secret = None
    """Password of an encrypted private key."""
    ssl_ca_certs: Path | None = None
    """PEM file with the certificate authorities that sign the certificates of callers."""
    ssl_cert_reqs: Literal["none", "optional", "required"] = "none"
    """The rule for client certificates. `none`: callers are not asked for a certificate. `required`: a caller without a
    certificate cannot connect. `optional`: a certificate that a caller sends has to be valid.
    """
    sasl_oauthbearer_jwks_endpoint_url: OptionalText = None
    """URL of the keys of an OIDC issuer (http, https or file). Tokens that this issuer has signed are accepted, too.
    Requires `assignor[oidc]`.
    """
    sasl_oauthbearer_expected_issuer: OptionalText = None
    """The issuer (`iss`) that a signed token must name."""
    sasl_oauthbearer_expected_audience: Names = ()
    """The audience (`aud`) that a signed token must name. If the setting has several audiences, separated by commas,
    the token must name at least one of them.
    """
    sasl_oauthbearer_sub_claim_name: Text = "sub"
    """Name of the claim that contains the caller's name in a signed token."""
    sasl_oauthbearer_scope_claim_name: Text = "scope"
    """Name of the claim that contains the right and the groups in a signed token, such as
    `assignor:member:payments-*`.
    """
    sasl_oauthbearer_clock_skew_seconds: Annotated[int, Field(ge=0, le=3_600)] = 30
    """Allowed difference between the issuer's clock and this machine's clock."""
    sasl_oauthbearer_jwks_endpoint_refresh_ms: Annotated[int, Field(ge=1_000, le=JAVA_INT_MAX)] = 3_600_000
    """Interval at which the issuer's keys are fetched again. If a token is signed with an unknown key, the issuer's
    keys are fetched within a minute.
    """
    task_assignor_classes: Names = ()
    """`module:Class` assignors that groups may name, separated by commas. Other classes are refused."""
    task_assignor_timeout_ms: Positive = 60_000
    """Time limit for computing a rebalance with an assignor of task.assignor.classes. After this time the rebalance
    fails.
    """
    cluster_bootstrap_servers: Clusters = ()
    """Clusters that groups may name in `cluster`, such as `broker-1:9092,broker-2:9092` for Kafka or
    `embedded:/var/lib/streams`. Other clusters are refused. In the settings file, several clusters are written as a
    list. In a flag or the environment, commas separate the clusters, and `kafka:` begins each Kafka cluster.
    """

    cluster_metadata_max_age_ms: Annotated[int, Field(ge=100, le=JAVA_INT_MAX)] = 30_000
    """Interval at which the coordinator checks a group's cluster for changed topics (Kafka's metadata.max.age.ms:
    300000). The interval is at most 5 s while a topic is missing.
    """
    cluster_request_timeout_ms: Annotated[int, Field(ge=100, le=JAVA_INT_MAX)] = 30_000
    """Time limit for one poll of a cluster. After this time the cluster counts as out of reach."""

    metrics_group_max_count: Annotated[int, Field(ge=0, le=10_000)] = 0
    """Number of groups that have their own lines in GET /metrics. The groups with the first ids are chosen. With 0, no
    label names a group.
    """
    audit_log_file: Path | None = None
    """File for the audit log. The audit log has a line for each call that changes something, even if the call was
    refused. By default, the lines of the audit log go to the service's log.
    """
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """Lowest level of the lines that are logged."""
    log_format: Literal["json", "console"] = "console"
    """Format of the service's log lines. `json`: one JSON object a line. `console`: readable text."""

    @model_validator(mode="after")
    def _agree(self) -> Settings:
        if self.group_min_session_timeout_ms > self.group_max_session_timeout_ms:
            raise ValueError("group.min.session.timeout.ms must not be above group.max.session.timeout.ms")
        return self

    @property
    def tls(self) -> ServerTls | None:
        """The TLS settings; None if the service serves plain HTTP. Raises InputError for TLS settings that contradict
        each other.
        """
        return server_tls(
            self.ssl_certfile, self.ssl_keyfile, self.ssl_keyfile_password, self.ssl_ca_certs, self.ssl_cert_reqs
        )

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], init_settings: PydanticBaseSettingsSource, *_: object, **_others: object
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Makes `Settings` use only the values of its arguments, because `settings_sources.load` has merged all sources
        before.
        """
        return (init_settings,)


def is_root_path(path: str) -> bool:
    """Returns True if a proxy may serve the pages of this service below this path. Pages contain this path, so it must
    not contain characters of HTML syntax.
    """
    return len(path) <= _LONGEST_ROOT_PATH and _ROOT_PATH.fullmatch(path) is not None


def dotted(field_name: str) -> str:
    """Converts a field name to the setting's name: `group_max_size` -> `group.max.size`."""
    return field_name.replace("_", ".")


def flag(field_name: str) -> str:
    """Converts a field name to the command line option: `group_max_size` -> `--group-max-size`."""
    return "--" + field_name.replace("_", "-")


def environment_name(field_name: str) -> str:
    """Converts a field name to the environment variable: `group_max_size` -> `ASSIGNOR_GROUP_MAX_SIZE`."""
    return ENVIRONMENT_PREFIX + field_name.upper()


def is_secret(field_name: str) -> bool:
    """Returns whether the setting is secret. A secret setting has no flag, and no error shows its value."""
    field = Settings.model_fields.get(field_name)
    return field is not None and not field.repr


class SettingRow(NamedTuple):
    """One line of the table of settings in the documentation. `flag`: the command-line option; None for a secret, which
    must not be in a command line.
    """

    name: str
    flag: str | None
    environment: str
    default: str
    description: str


def setting_rows() -> list[SettingRow]:
    """Returns every setting, for `--help` and for the table in the documentation."""
    rows = []
    for field_name, field in Settings.model_fields.items():
        default = ", ".join(field.default) if isinstance(field.default, tuple) else field.default
        rows.append(
            SettingRow(
                dotted(field_name),
                None if is_secret(field_name) else flag(field_name),
                environment_name(field_name),
                "none" if default in (None, "") else str(default),
                " ".join((field.description or "").split()),
            )
        )
    return rows
