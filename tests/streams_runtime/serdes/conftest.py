import ssl
from collections.abc import Iterator

import pytest

from tests.streams_runtime.serdes.fake_schema_registry import FakeSchemaRegistry, fake_schema_registry

_UNUSED = ssl.create_default_context()


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeSchemaRegistry]:
    """One for each test. Its client reads all certificates of the machine when it is made; once is enough."""
    monkeypatch.setattr(ssl, "create_default_context", lambda **_options: _UNUSED)
    with fake_schema_registry() as running:
        yield running
