"""After a run that uses every kind of secret: nothing secret is in the process list, in logs, errors, metrics, answers,
recordings, copies of databases or any other file.

Secrets may be in the files that the test writes for them and in the environment of processes. All else that the run
leaves in its directory is searched, with what commands and the service answered, and every command line that a process
had. Each process has the level of logs that says most, and writes its stack when it is made to crash.
"""

import contextlib
import json
import logging
import re
import shutil
import signal
import ssl
import subprocess
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Self

import httpx
import pytest

from coordinator_api.http.auth import Access
from coordinator_api.settings import Settings
from coordinator_client.access.principals import Principal, Right
from coordinator_client.access.tokens import TokenEntry, digest_of, format_entry
from streams_runtime.instance.instance_resources import InstanceOptions
from streams_runtime.instance.streams_instance import StreamsInstance
from streams_runtime.logs.opening import open_log
from streams_runtime.membership.coordinator_client import CoordinatorClient
from streams_runtime.queries.client import StateStoreClient
from streams_runtime.serdes.schema_registry import AvroSerde
from tests import warm_program
from tests.acceptance.secret_search import CommandLines, Secrets, SecretSearch
from tests.coordinator_api.group_members import HttpMember, definition, settle
from tests.coordinator_api.http.oidc_issuer import AUDIENCE, ISSUER, KeyServer, signed
from tests.coordinator_api.http.test_signed_tokens import with_public_key_as_password
from tests.coordinator_api.service_process import clean_environment
from tests.coordinator_api.store.postgresql import Postgresql, programs
from tests.kafka_client.certificates import Certificates, make_certificates
from tests.kafka_client.refusing_broker import RefusingBroker
from tests.known import known
from tests.program import PROGRAM
from tests.running_program import RunningProgram
from tests.streams_runtime.running_group import EXACTLY_ONCE
from tests.streams_runtime.serdes.fake_schema_registry import fake_schema_registry
from tests.streams_runtime.word_counting import (
    LONG,
    STORE,
    TIMEOUT_S,
    counting_application,
    counting_definition,
    create_topics,
    wait_for,
    write_lines,
)
from tests.tls_certificates import Authority
from tests.told import Tell

ENDS_WITHIN_S = 120.0
JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCHEMA = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]}
QUICK_KAFKA = {"default.api.timeout.ms": "4000", "request.timeout.ms": "2000"}

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="no openssl on this machine"),
    pytest.mark.xdist_group("postgresql"),
]


@dataclass(slots=True)
class Run:
    """`directory`: is searched afterwards. `held`: the files of secrets, outside of it."""

    directory: Path
    held: Path
    certificates: Certificates
    secrets: Secrets = field(default_factory=Secrets)
    numbers: Iterator[int] = field(default_factory=count)

    def environment(self, **variables: str) -> dict[str, str]:
        for place in ("home", "scratch"):
            (self.directory / place).mkdir(parents=True, exist_ok=True)
        own = {"HOME": f"{self.directory}/home", "TMPDIR": f"{self.directory}/scratch", "PYTHONFAULTHANDLER": "1"}
        return clean_environment({**own, **variables})

    def keep(self, what: str, text: str) -> str:
        """What somebody saw, for the search."""
        place = self.directory / "seen" / f"{next(self.numbers):03}-{what}"
        place.parent.mkdir(exist_ok=True)
        place.write_text(text)
        return text

    def command(self, *arguments: str, code: int | None, **variables: str) -> str:
        """What it said, on both outputs. `code`: with which it has to end."""
        assert not any(secret in " ".join(arguments) for secret in self.secrets.values.values())
        ended = self.ended(*arguments, **variables)
        said = self.keep(f"{arguments[0]}.out", ended.stdout + ended.stderr)
        assert code is None or ended.returncode == code, (arguments, said)
        return said

    def ended(self, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = self.environment(**variables)
        return warm_program.run(arguments, cwd=self.directory, environment=environment, timeout_s=ENDS_WITHIN_S)

    def new_token(self, purpose: str, name: str, *arguments: str, **variables: str) -> str:
        """From `assignor tokens create`, whose output is the one place that has it."""
        ended = self.ended("tokens", "create", name, *arguments, **variables)
        assert ended.returncode == 0, ended.stderr
        self.keep("tokens.err", ended.stderr)
        assert re.fullmatch(r"\S+\n", ended.stdout), "the token, and nothing else"
        return self.secrets.know(purpose, ended.stdout.strip())

    def call(self, client: httpx.Client, method: str, path: str, status: int, **more: Any) -> httpx.Response:
        answer = client.request(method, path, **more)
        self.keep("answer", f"{answer.status_code}\n{answer.headers}\n{answer.text}")
        assert answer.status_code == status, (method, path, answer.text)
        return answer

    def fail(self, what: str, act: Callable[[], object]) -> None:
        """It has to raise; what is kept is what a user's own log would show."""
        with pytest.raises(Exception) as raised:  # noqa: PT011 (which one it is has no part in this)
            act()
        error = raised.value
        self.keep(what, "".join([repr(error), *traceback.format_exception(error)]))


class Coordinator(RunningProgram):
    """A process of its own, as a user starts it. Its log is in the directory of the run."""

    def __init__(self, run: Run, name: str, *arguments: str, **variables: str) -> None:
        command = [*PROGRAM, "serve", "--port", "0", "--log-level", "debug", *arguments]
        log, environment = run.directory / f"{name}.log", run.environment(**variables)
        super().__init__(command, log, cwd=run.directory, environment=environment, first=signal.SIGKILL)
        self.url = ""

    def __enter__(self) -> Self:
        self.url = self.wait_for(r"listens on (https?://[^\s\"]+)")
        return self

    def client(self, token: str | None = None) -> httpx.Client:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        return httpx.Client(base_url=self.url, timeout=60, headers=headers, trust_env=False)

    def crash(self) -> None:
        """As a fault in native code does it: the stacks of all threads are written."""
        self.signal(signal.SIGABRT)
        self.wait(ENDS_WITHIN_S)
        assert "Fatal Python error: Aborted" in self.log


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """The certificates are made before anybody watches."""
    secrets = Secrets()
    password = secrets.make("password of a client's key")
    certificates = make_certificates(tmp_path / "held" / "certificates", password)
    secrets.know("a line of a client's key", max(private_key(certificates.client).splitlines()[1:-1], key=len))
    (tmp_path / "run").mkdir()
    return Run(tmp_path / "run", tmp_path / "held", certificates, secrets)


def test_should_keep_every_secret_out_of_all_that_others_can_see(run: Run, tell: Tell) -> None:
    with CommandLines() as commands, logged_to(run.directory / "members.log"):
        schema_registry(run)
        with_keys_that_need_passwords(run)
        on_sqlite_with_a_token_from_the_environment(run)
        on_postgresql_with_a_token_from_a_file(run)
        kafka_clients(run)

    search = SecretSearch(run.secrets.values)
    search.in_directory(run.directory, run.secrets.files)
    commands.search(search)
    tell(
        f"{len(run.secrets.values)} secrets searched for in {search.files} files of {search.size:,} bytes, "
        f"{search.unpacked} packed parts, {search.values} values of databases and the command lines of "
        f"{commands.processes} processes"
    )
    assert sorted(search.found) == []
    assert search.unpacked > 0, "recorded rebalances are packed"
    assert any(b"serve" in command for _, command in commands.seen), "the coordinators were seen"


def on_sqlite_with_a_token_from_the_environment(run: Run) -> None:
    token = run.secrets.make("auth.token in the environment")
    wrong = run.secrets.make("a token that is nobody's")
    sasl = run.secrets.make("sasl.jaas.config of the coordinator")
    for_stores = run.secrets.make("page.store.token.file")
    with RefusingBroker() as broker, contextlib.closing(KeyServer()) as issuer:
        properties = run.secrets.write(run.held / "coordinator.properties", sasl_properties(sasl))
        variables = {
            "ASSIGNOR_AUTH_TOKEN": token,
            "ASSIGNOR_CLUSTER_BOOTSTRAP_SERVERS": f"kafka:{broker.bootstrap_servers}",
            "ASSIGNOR_KAFKA_CLIENT_CONFIG": str(properties),
            "ASSIGNOR_GROUP_INITIAL_REBALANCE_DELAY_MS": "50",
            "ASSIGNOR_SASL_OAUTHBEARER_JWKS_ENDPOINT_URL": issuer.url,
            "ASSIGNOR_SASL_OAUTHBEARER_EXPECTED_ISSUER": ISSUER,
            "ASSIGNOR_SASL_OAUTHBEARER_EXPECTED_AUDIENCE": AUDIENCE,
            "ASSIGNOR_AUDIT_LOG_FILE": "audit.log",  # the service on PostgreSQL writes it to its log
            "ASSIGNOR_PAGE_STORE_QUERIES": "on",
            "ASSIGNOR_PAGE_STORE_TOKEN_FILE": str(run.secrets.write(run.held / "of-the-page", for_stores)),
        }
        with Coordinator(run, "sqlite", "--log-format", "json", **variables) as coordinator:
            with coordinator.client(token) as client:
                run.call(client, "PUT", "/v1/groups/plain", 201, json=definition())
                member = HttpMember(client, "plain")
                member.subscribe()
                settle(member)
                on_kafka = definition(cluster={"provider": "kafka", "bootstrap.servers": broker.bootstrap_servers})
                for given_by_the_cluster in ("existing_internal_topics", "changelog_end_offsets", "committed_offsets"):
                    del on_kafka[given_by_the_cluster]
                run.call(client, "PUT", "/v1/groups/on-kafka", 201, json=on_kafka)
                HttpMember(client, "on-kafka").subscribe()
                assert broker.has_login.wait(TIMEOUT_S), "the coordinator logs in"
                wait_for(
                    lambda: "credentials" in client.get("/v1/groups/on-kafka").text,
                    lambda: client.get("/v1/groups/on-kafka").text,
                )
                members_that_serve_their_stores(run, coordinator.url, token, wrong)
                ask_everything(run, client)
            for headers in ({"Authorization": f"Bearer {wrong}"}, {"Authorization": f"Basic {wrong}"}, {}):
                with coordinator.client() as stranger:
                    run.call(stranger, "GET", "/v1/groups", 401, headers=headers)
                    run.call(stranger, "DELETE", "/v1/groups/plain?reason=mine", 401, headers=headers)
            signed_tokens(run, coordinator)
            recordings(run, coordinator.url, token)
            token_file = run.secrets.write(run.held / "token", f"{token}\n")
            wrong_file = run.secrets.write(run.held / "wrong", f"{wrong}\n")
            asked = ("groups", "describe", "plain", "--coordinator", coordinator.url)
            run.command(*asked, code=0, ASSIGNOR_AUTH_TOKEN=token)
            run.command(*asked, "-o", "json", "--token-file", str(token_file), code=0)
            run.command(*asked, code=2, ASSIGNOR_AUTH_TOKEN=wrong)
            run.command(*asked, "--token-file", str(wrong_file), code=2)
            at = ("--coordinator", coordinator.url)
            member_token = run.new_token(
                "token in the database", "payments", "--right", "member", *at, ASSIGNOR_AUTH_TOKEN=token
            )
            run.command("groups", "list", *at, code=0, ASSIGNOR_AUTH_TOKEN=member_token)
            run.command("tokens", "create", "more", "--right", "admin", *at, code=2, ASSIGNOR_AUTH_TOKEN=member_token)
            run.command("tokens", "list", *at, code=0, ASSIGNOR_AUTH_TOKEN=token)
            run.command("backup", "sqlite.backup", code=0)
            run.command("tokens", "revoke", "payments", *at, code=0, ASSIGNOR_AUTH_TOKEN=token)
            run.command("groups", "list", *at, code=2, ASSIGNOR_AUTH_TOKEN=member_token)
            coordinator.crash()
    audited = (run.directory / "audit.log").read_text()
    assert all(name in audited for name in ("payments", "signer", "reads", "no token", "unknown token")), audited
    run.command("explain", "assignor.sqlite3", code=0)


def with_keys_that_need_passwords(run: Run) -> None:
    """A coordinator that requires certificates, and has the hashes of its tokens from its environment."""
    authority = Authority(run.held, "authority")
    password, wrong = run.secrets.make("ssl.keyfile.password"), run.secrets.make("ssl.keyfile.password that is wrong")
    of_client = run.secrets.make("ASSIGNOR_CLIENT_KEYFILE_PASSWORD")
    token = run.new_token("token in auth.tokens", "ops", "--right", "admin", "--file", "tokens-of-environment")
    variables = {
        "ASSIGNOR_SSL_CERTFILE": str(authority.issue("service", for_servers=True, password=password)),
        "ASSIGNOR_SSL_KEYFILE_PASSWORD": password,
        "ASSIGNOR_SSL_CA_CERTS": str(authority.file),
        "ASSIGNOR_SSL_CERT_REQS": "required",
        "ASSIGNOR_AUTH_TOKENS": (run.directory / "tokens-of-environment").read_text().strip(),
        "ASSIGNOR_DATABASE_URL": "sqlite:///with-tls.sqlite3",
    }
    of_caller = {
        "SSL_CERT_FILE": str(authority.file),
        "ASSIGNOR_CLIENT_CERTFILE": str(authority.issue("client", password=of_client)),
        "ASSIGNOR_CLIENT_KEYFILE_PASSWORD": of_client,
        "ASSIGNOR_AUTH_TOKEN": token,
    }
    with Coordinator(run, "tls", **variables) as coordinator:
        assert coordinator.url.startswith("https://")
        context = ssl.create_default_context(cafile=authority.file)
        context.load_cert_chain(of_caller["ASSIGNOR_CLIENT_CERTFILE"], password=of_client)
        with httpx.Client(base_url=coordinator.url, timeout=60, trust_env=False, verify=context) as client:
            headers = {"Authorization": f"Bearer {token}"}
            run.call(client, "PUT", "/v1/groups/plain", 201, json=definition(), headers=headers)
            run.call(client, "GET", "/metrics", 200, headers=headers)
            run.call(client, "GET", "/v1/groups", 401, headers={"Authorization": f"Bearer {password}"})
        asked = ("groups", "list", "--coordinator", coordinator.url)
        assert "plain" in run.command(*asked, code=0, **of_caller)
        run.command(*asked, code=2, **{**of_caller, "ASSIGNOR_CLIENT_KEYFILE_PASSWORD": wrong})
        run.command(*asked, code=2, **{name: of_caller[name] for name in ("SSL_CERT_FILE", "ASSIGNOR_AUTH_TOKEN")})
        coordinator.crash()
    run.command("serve", "--port", "0", code=2, **{**variables, "ASSIGNOR_SSL_KEYFILE_PASSWORD": wrong})
    entry = variables["ASSIGNOR_AUTH_TOKENS"].split()
    run.command("serve", "--port", "0", code=2, ASSIGNOR_AUTH_TOKENS="  ".join([*entry[:3], token]))
    for text in (token, f"{token}  admin  *  {token}"):
        run.fail("tokens", lambda text=text: Access(Settings(auth_tokens=text)))  # type: ignore[misc]


def signed_tokens(run: Run, coordinator: Coordinator) -> None:
    """What remains when a signature is cut off lets nobody in: so it is the signatures that are searched for."""

    def know(purpose: str, token: str) -> str:
        run.secrets.know(f"signature of {purpose}", token.rpartition(".")[2])
        return token

    good = know("a signed token", signed(sub="signer"))
    reader = know("a signed token that may only read", signed("rsa", sub="reads", scope="assignor:reader:*"))
    refused = [
        know("an expired token", signed("ed", exp=1_000)),
        know("a token of another issuer", signed(iss="https://else.example")),
        know("a token by an unknown key", signed("later")),
        know("a token without a scope", signed(scope=None)),
        know("a forged token", with_public_key_as_password()),
    ]
    with coordinator.client(good) as client:
        run.call(client, "PUT", "/v1/groups/signed", 201, json=definition())
        run.call(client, "DELETE", "/v1/groups/signed", 204)
    with coordinator.client(reader) as client:
        run.call(client, "GET", "/v1/groups", 200)
        run.call(client, "DELETE", "/v1/groups/plain", 403)
    for token in refused:
        with coordinator.client(token) as stranger:
            run.call(stranger, "DELETE", "/v1/groups/plain", 401)
    at = ("--coordinator", coordinator.url)
    run.command("groups", "list", *at, code=0, ASSIGNOR_AUTH_TOKEN=good)
    run.command("groups", "list", *at, code=2, ASSIGNOR_AUTH_TOKEN=refused[0])


def recordings(run: Run, url: str, token: str) -> None:
    """What the coordinator has recorded of a group, as a file, told from there and from the service; and its log."""
    at: dict[str, Any] = {"code": 0, "ASSIGNOR_AUTH_TOKEN": token}
    of = ("--coordinator", url)
    run.command("rebalances", "list", "plain", *of, **at)
    run.command("rebalances", "show", "plain", "1", *of, **at)
    recorded = run.command("rebalances", "show", "plain", "1", *of, "-o", "json", **at)
    (run.directory / "recorded.jsonl").write_text(f"{json.dumps(json.loads(recorded))}\n")
    run.command("explain", "recorded.jsonl", code=0)
    run.command("explain", "--group", "plain", *of, **at)
    run.command("groups", "export", "plain", *of, "--output", "plain-log.json", **at)


def members_that_serve_their_stores(run: Run, url: str, token: str, wrong: str) -> None:
    """An instance with its query server, one of whose threads fails, and clients of its stores."""
    place = run.directory / "member"
    application = counting_application("counted", place / "log", place / "state", guarantee=EXACTLY_ONCE)
    with contextlib.ExitStack() as closing:
        client = closing.enter_context(CoordinatorClient(url, token=token))
        client.declare(application.id, counting_definition(application, standbys=0).body())
        log = closing.enter_context(contextlib.closing(open_log(f"embedded:{place / 'log'}")))
        create_topics(log, application.id)
        options = InstanceOptions(serve_at="127.0.0.1:0", token=token)
        instance = StreamsInstance(application, client, options)
        instance.start()
        endpoint = str(instance.endpoint)
        closing.callback(instance.close, TIMEOUT_S)
        write_lines(log, ["cat cat dog"])
        stores = closing.enter_context(StateStoreClient([endpoint], timeout_s=TIMEOUT_S, token=token))
        wait_for(lambda: stores.get(STORE, b"cat").value == LONG.serialize(2), instance.status)
        stranger = closing.enter_context(StateStoreClient([endpoint], timeout_s=TIMEOUT_S, token=wrong))
        run.fail("query", lambda: stranger.get(STORE, b"cat"))
        asking = closing.enter_context(httpx.Client(base_url=f"http://{endpoint}", timeout=60, trust_env=False))
        for path in ("/status", "/metrics", "/v1/metadata", "/openapi.json", f"/v1/stores/{STORE}/key?key=cat"):
            run.call(asking, "GET", path, 200, headers={"Authorization": f"Bearer {token}"})
            run.call(asking, "GET", path, 401, headers={"Authorization": f"Bearer {wrong}"})
        the_page(run, url, token, wrong, application.id)
        for each in (application, application.configs, options, client, stores, instance):
            run.keep("object", f"{each!r}\n{each}")
        write_lines(log, ["poison"])
        wait_for(lambda: bool(instance.errors), instance.status)
        run.keep("errors", "".join(line for error in instance.errors for line in traceback.format_exception(error)))


def the_page(run: Run, url: str, token: str, wrong: str, group_id: str) -> None:
    """A browser logs in, steers, and asks for a key of a store, where the page's own token is refused.

    Only the browser gets the cookie and the token of the forms: neither is kept of its answers.
    """
    shown: list[str] = []
    with (
        quiet("httpcore"),  # the log of the browser itself
        httpx.Client(base_url=url, timeout=60, trust_env=False, headers={"Accept": "text/html"}) as browser,
    ):

        def form(path: str, status: int, **fields: str) -> None:
            page = browser.get(path)
            shown.append(known(re.search(r'name="form_token" value="(\w+)"', page.text))[1])
            data, headers = {"form_token": shown[-1], **fields}, {"Sec-Fetch-Site": "same-origin"}
            keep(browser.post(path, data=data, headers=headers), status)

        def keep(answer: httpx.Response, status: int) -> None:
            text = re.sub(r'(name="form_token" value=)"\w+"', r"\1", answer.text)
            run.keep("page", f"{answer.status_code}\n{answer.headers.get('location')}\n{text}")
            assert answer.status_code == status, answer.text

        form("/ui/login", 401, token=wrong)
        form("/ui/login", 303, token=token)
        as_cookie = SecretSearch({"the token": token})
        as_cookie.in_bytes("the cookie", browser.cookies["assignor_session"].encode())
        assert as_cookie.found, "who searches for the token finds the cookie"
        for rest in ("", "/levers", "/time", "/topology", "/what-if", "/nonsense"):
            answer = browser.get(f"/ui/groups/{group_id}{rest}")
            keep(answer, 404 if rest == "/nonsense" else 200)
        form(f"/ui/groups/{group_id}/levers", 303, lever="promote", reason="to see it")
        form(f"/ui/groups/{group_id}/levers", 422, lever="hold", **{"hold-minutes": ""})
        asked = browser.get(f"/ui/groups/{group_id}/stores", params={"store": STORE, "key": "cat"})
        assert "bearer token" in asked.text, "the instance refuses the page's token"
        keep(asked, 502)
        keep(browser.get("/ui/groups"), 200)
        # it cannot be told from that of the same caller, which is left out above
        run.secrets.know("the token of the page's forms", shown[-1])


@contextlib.contextmanager
def quiet(name: str) -> Iterator[None]:
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(before)


def ask_everything(run: Run, client: httpx.Client) -> None:
    groups = [f"/v1/groups{rest}" for rest in ("", "/plain", "/on-kafka", "/counted", "/plain/rebalances")]
    for path in ("/livez", "/readyz", "/metrics", "/openapi.json", "/docs", *groups):
        run.call(client, "GET", path, 200)
    run.call(client, "GET", "/v1/groups/nobody", 404)
    run.call(client, "PUT", "/v1/groups/plain", 422, content=b"{")


def on_postgresql_with_a_token_from_a_file(run: Run) -> None:
    """Where there is no PostgreSQL, only the failing ways are tried."""
    token = run.secrets.make("auth.token.file")
    password = run.secrets.make("password of PostgreSQL")
    token_file = run.secrets.write(run.held / "auth.token", f"{token}\n")
    hashed = run.new_token("token in a file of hashes", "ops", "--right", "admin", "--file", "tokens")
    expired = run.secrets.make("token that has expired")
    with (run.directory / "tokens").open("a") as tokens:
        tokens.write(format_entry(TokenEntry(Principal("former", Right.READER), digest_of(expired.encode()), 1_000)))
    postgresql = programs()
    if postgresql is not None:
        with Postgresql(postgresql) as database:
            url = database.url.replace("coordinator@", f"coordinator:{password}@")
            variables = {"ASSIGNOR_DATABASE_URL": url, "ASSIGNOR_AUTH_TOKEN_FILE": str(token_file)}
            variables["ASSIGNOR_AUTH_TOKENS_FILE"] = str(run.directory / "tokens")
            with Coordinator(run, "postgresql", "--log-format", "console", **variables) as coordinator:
                with coordinator.client(token) as client:
                    run.call(client, "PUT", "/v1/groups/plain", 201, json=definition())
                    member = HttpMember(client, "plain")
                    member.subscribe()
                    settle(member)
                    run.command("migrate", code=0, **variables)  # beside the one that runs
                with coordinator.client(expired) as stranger:
                    run.call(stranger, "GET", "/v1/groups", 401)
                with coordinator.client(hashed) as client:
                    run.call(client, "GET", "/v1/groups", 200)
                    database.stop()
                    wait_for(lambda: client.get("/readyz").status_code == 503, lambda: client.get("/readyz").text)
                    run.call(client, "GET", "/readyz", 503)
                    run.keep("metrics", client.get("/metrics").text)
                coordinator.crash()
            database.start()
    for place in (
        f"postgresql://coordinator:{password}@127.0.0.1:1/groups",
        f"postgresql://coordinator:{password[:20]}@{password}@127.0.0.1:1/groups",
        f"postgresql://127.0.0.1:1/groups?user=coordinator&password={password}",
        f"postgresql://coordinator:{password}@127.0.0.1:port/groups",
        f"sqlite://coordinator:{password}@somewhere/groups",
        f"mysql://coordinator:{password}@somewhere/groups",
    ):
        run.command("migrate", code=2, ASSIGNOR_DATABASE_URL=place)


def sasl_properties(password: str) -> str:
    properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'{JAAS} required username="ann" password="{password}";',
        **QUICK_KAFKA,
    }
    return "".join(f"{key}={value}\n" for key, value in properties.items())


def kafka_clients(run: Run) -> None:
    """Commands and an application whose login is refused, and settings that cannot be used."""
    sasl = run.secrets.make("sasl.jaas.config of a client")
    key_password = run.secrets.values["password of a client's key"]
    with_login = run.secrets.write(run.held / "client.properties", sasl_properties(sasl))
    with_key = run.secrets.write(
        run.held / "tls.properties",
        f"security.protocol=SSL\nssl.keystore.location={run.certificates.client}\nssl.key.password={key_password}\n"
        f"ssl.truststore.location={run.certificates.authority}\ndefault.api.timeout.ms=3000\n",
    )
    with RefusingBroker() as broker:
        at = ("--bootstrap-server", broker.bootstrap_servers)
        for properties in (with_login, with_key):
            run.command("topics", "list", *at, "--command-config", str(properties), code=None)
        run.command("record", *at, "--group", "plain", "--once", "--command-config", str(with_login), code=None)
        assert any(sasl.encode() in login for login in broker.logins), "they log in"
        configs = dict(line.split("=", 1) for line in sasl_properties(sasl).splitlines())
        application = counting_application(
            "on-a-broker",
            run.directory / "none",
            run.directory / "on-a-broker",
            guarantee=EXACTLY_ONCE,
            **{"bootstrap.servers": broker.bootstrap_servers, **configs},
        )
        run.keep("application", repr(application))
        run.fail("instance", lambda: logs_of(application.configs.bootstrap_servers, application.configs.log_properties))
    key = private_key(run.certificates.client)
    for number, text in enumerate(
        (
            f"security.protocol=SSL\nssl.keystore.key={key}",  # its lines are not continued
            f"security.protocol=SSL\nssl.keystore.location={run.certificates.client}\nssl.key.password={sasl}",
            f'security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config={JAAS} required password="{sasl}',
            f"sasl.password={sasl}",
            f"security.protocol=SSL\nssl.truststore.password={sasl}\nssl.truststore.location=none",
        )
    ):
        file = run.secrets.write(run.held / f"wrong-{number}.properties", text)
        run.command("topics", "list", "--bootstrap-server", "127.0.0.1:1", "--command-config", str(file), code=2)


def private_key(file: Path) -> str:
    """The private key of a PEM file that holds its certificate, too."""
    return file.read_text().partition("-----BEGIN CERTIFICATE-----")[0]


def logs_of(servers: str, properties: Mapping[str, str]) -> None:
    with contextlib.closing(open_log(servers, properties)) as log:
        log.topics()


def schema_registry(run: Run) -> None:
    password = run.secrets.make("basic.auth.user.info")
    with fake_schema_registry(f"ann:{password}") as registry:
        quick = {"schema.registry.url": registry.url, "max.retries": 0}

        def written(**configs: object) -> bytes:
            settings = {**quick, **{key.replace("_", "."): value for key, value in configs.items()}}
            serde: AvroSerde[Any] = AvroSerde(SCHEMA, settings)
            run.keep("serde", repr(serde))
            # each time another subject, since what is registered is asked for once
            return serde.for_topic(f"orders-{next(run.numbers)}", is_key=False).serialize({"id": "a"})

        assert written(basic_auth_user_info=f"ann:{password}")
        registry.credentials = "ann:another"
        run.fail("registry", lambda: written(basic_auth_user_info=f"ann:{password}"))
        registry.failing = 500
        run.fail("registry", lambda: written(basic_auth_user_info=f"ann:{password}"))
    for url in (f"http://ann:{password}@127.0.0.1:1", f"ann:{password}@127.0.0.1:1"):
        run.fail("registry", lambda url=url: AvroSerde(SCHEMA, {"schema.registry.url": url}))  # type: ignore[misc]
    run.fail("registry", lambda: written(basic_auth_user_info=password))
    run.fail(
        "registry", lambda: written(basic_auth_user_info=f"ann:{password}", proxy=f"http://b:{password}@127.0.0.1:1")
    )


@contextlib.contextmanager
def logged_to(file: Path) -> Iterator[None]:
    """All that anybody logs in this process: what an application would log that wants to know everything."""
    handler = logging.FileHandler(file)
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        root.setLevel(before)
        root.removeHandler(handler)
        handler.close()
