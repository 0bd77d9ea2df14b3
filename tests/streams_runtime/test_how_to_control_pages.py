"""The code of the how-to pages about controlling an instance, on an instance."""

import importlib
import logging
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from streams_runtime.instance.streams_instance import StreamsInstance
from streams_runtime.membership.coordinator_client import CoordinatorClient
from tests.docs.pages import blocks
from tests.docs.python_blocks import file_name
from tests.streams_runtime.running_group import AT_LEAST_ONCE, Group, running_group
from tests.streams_runtime.word_counting import TIMEOUT_S


@pytest.fixture
def group(client: CoordinatorClient, tmp_path: Path) -> Iterator[Group]:
    with running_group("how-to-control", AT_LEAST_ONCE, client, tmp_path) as made:
        yield made


def code_of(page: str, directory: Path) -> ModuleType:
    """The one file of the page, imported."""
    (block,) = [block for block in blocks(f"docs/how-to/{page}") if block.language == "python"]
    name = file_name(block)
    assert name is not None
    (directory / name).write_text(block.code, encoding="utf-8")
    importlib.invalidate_caches()
    return importlib.import_module(name.removesuffix(".py"))


def test_should_pause_scale_and_listen_as_the_pages_say(
    group: Group, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    plain = group.application(num_stream_threads=1)
    application = code_of("listen-to-states.md", tmp_path).application(plain.topology, plain.configs)
    instance = StreamsInstance(application, group.client)
    group.instances.append(instance)
    with caplog.at_level(logging.INFO, "health"):
        instance.start()
        assert instance.wait_until_running(TIMEOUT_S)
        paused: list[bool] = []
        code_of("pause-and-resume.md", tmp_path).paused_during(instance, lambda: paused.append(instance.is_paused))
        scale = code_of("add-and-remove-threads.md", tmp_path).scale
        scale(instance, 3)
        assert len(instance.status().threads) == 3
        scale(instance, 1)
        assert len(instance.status().threads) == 1
        instance.close(TIMEOUT_S)

    told = [record.getMessage() for record in caplog.records if record.name == "health"]
    assert (paused, instance.is_paused) == ([True], False)
    assert told[0] == "created -> rebalancing: healthy"
    assert told[-1] == "pending-shutdown -> not-running: not running"
