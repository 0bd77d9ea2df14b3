"""The code of docs/how-to/use-avro-or-protobuf.md does what the page says, on a fake registry."""

from pathlib import Path

import pytest

from tests.docs.pages import blocks
from tests.docs.python_blocks import run
from tests.streams_runtime.serdes.fake_schema_registry import FakeSchemaRegistry

PAGE = "docs/how-to/use-avro-or-protobuf.md"


def test_should_run_the_page(registry: FakeSchemaRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCHEMA_REGISTRY_URL", registry.url)
    found = [block for block in blocks(PAGE) if block.language == "python"]

    assert run(found, tmp_path, {}) == len(found)
    assert "orders-value" in registry.subjects
