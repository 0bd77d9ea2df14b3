from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.streams_runtime.serdes.fake_schema_registry import FakeSchemaRegistry, fake_schema_registry


@pytest.fixture
def registry() -> Iterator[FakeSchemaRegistry]:
    with fake_schema_registry() as running:
        yield running
