"""An instance's endpoint over TLS: whom it answers, and how it takes new files without a restart."""

import socket
import ssl
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from assignor.errors import InputError
from coordinator_client.access.tls import server_tls
from streams_runtime.configs import StreamsConfig
from streams_runtime.queries.client import QueryFailed, StateStoreClient
from streams_runtime.queries.server import QueryServer
from tests.coordinator_api.http.hostile_callers import wait_for
from tests.streams_runtime.queries.fake_instance import STORE, FakeInstance
from tests.tls_certificates import Authority, serial_in, serial_number

CONFIGS = {"application.id": "app", "bootstrap.servers": "memory:tls"}
PREFIX = "application.server.ssl."


def test_should_answer_a_client_certificate_and_take_new_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Authority(tmp_path, "authority")
    certfile = authority.issue("instance", for_servers=True)
    configs = StreamsConfig.from_dotted(
        {
            **CONFIGS,
            f"{PREFIX}certfile": str(certfile),
            f"{PREFIX}ca.certs": str(authority.file),
            f"{PREFIX}cert.reqs": "required",
        }
    )
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    with closing(QueryServer("127.0.0.1:0", tls=configs.endpoint_tls)) as server:
        server.start(FakeInstance())
        address = str(server.endpoint)

        def serial() -> int:
            context = ssl.create_default_context(cafile=authority.file)
            plain = socket.create_connection(("127.0.0.1", server.endpoint.port), timeout=60)
            with context.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
                return serial_number(connection.getpeercert(binary_form=True))

        with StateStoreClient([address], timeout_s=5, https=True) as stores, pytest.raises(QueryFailed) as refused:
            stores.copies(address, STORE)
        assert "it asks for a client certificate" in str(refused.value)

        monkeypatch.setenv("ASSIGNOR_CLIENT_CERTFILE", str(authority.issue("client")))
        with StateStoreClient([address], timeout_s=20, https=True) as stores:
            assert isinstance(stores.copies(address, STORE), list)
            authority.issue("instance", for_servers=True, to=certfile)
            wait_for(lambda: serial() == serial_in(certfile))
            assert isinstance(stores.copies(address, STORE), list)


def test_should_not_show_the_password_of_the_key_in_the_configs() -> None:
    configs = StreamsConfig.from_dotted(
        {**CONFIGS, f"{PREFIX}certfile": "a.pem", f"{PREFIX}keyfile.password": "key-secret"}
    )

    assert "key-secret" not in repr(configs)
    assert "key-secret" not in repr(configs.endpoint_tls)


@pytest.mark.parametrize(
    "configs, message",
    [
        ({"keyfile": "a.pem"}, "application.server.ssl.keyfile: needs application.server.ssl.certfile"),
        ({"cert.reqs": "required"}, "application.server.ssl.cert.reqs: needs application.server.ssl.certfile"),
        ({"certfile": "a.pem", "cert.reqs": "required"}, "required needs application.server.ssl.ca.certs"),
        ({"cert.reqs": "sometimes"}, "must be one of none, optional, required"),
        ({"keyfile.password": 12345}, "application.server.ssl.keyfile.password must be text"),
    ],
)
def test_should_say_which_configs_do_not_go_together(configs: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as refused:
        StreamsConfig.from_dotted({**CONFIGS, **{f"{PREFIX}{key}": value for key, value in configs.items()}})

    assert message in str(refused.value)
    assert "12345" not in str(refused.value)


def test_should_not_start_with_a_certificate_that_ran_out(tmp_path: Path) -> None:
    late = Authority(tmp_path, "authority").issue("late", for_servers=True, ends=timedelta(hours=-1))

    with pytest.raises(InputError, match=r"application\.server\.ssl\.certfile: .* the certificate ran out"):
        QueryServer("127.0.0.1:0", tls=server_tls(late, None, None, None, "none", "application.server."))
