"""`bootstrap.servers` says which log it is."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from assignor.errors import InputError
from streams_runtime.logs.embedded import EmbeddedLog
from streams_runtime.logs.in_memory import InMemoryLog
from streams_runtime.logs.opening import cluster_provider_name, open_log


def test_should_open_a_directory(tmp_path: Path) -> None:
    log = open_log(f"embedded:{tmp_path}/new:dir/log")
    assert isinstance(log, EmbeddedLog)
    assert (tmp_path / "new:dir" / "log" / "log.sqlite").is_file()
    log.close()


def test_should_share_a_log_in_memory_by_its_name() -> None:
    name = uuid.uuid4().hex
    log = open_log(f"memory:{name}")
    assert isinstance(log, InMemoryLog)
    log.close()
    assert open_log(f"memory:{name}") is log
    assert open_log(f"memory:{name}2") is not log


@pytest.mark.parametrize("address", ["localhost:9092", "embedded:", "memory:", "embedded", "", "kafka:x"])
def test_should_say_what_is_allowed_when_it_is_anything_else(address: str) -> None:
    with pytest.raises(InputError, match=r"bootstrap\.servers: must be 'embedded:<directory>'") as raised:
        open_log(address)
    assert f"not {address!r}" in str(raised.value)
    assert "Kafka itself comes in a later release" in str(raised.value)


def test_should_name_the_provider_by_which_a_coordinator_looks_at_the_log(tmp_path: Path) -> None:
    assert cluster_provider_name(f"embedded:{tmp_path}") == "embedded"


@pytest.mark.parametrize("address", ["embedded:log", "embedded:./log", "memory:log", "localhost:9092", "embedded:"])
def test_should_refuse_a_log_that_other_processes_cannot_find(address: str) -> None:
    with pytest.raises(InputError, match=r"bootstrap\.servers: "):
        cluster_provider_name(address)


def test_should_say_what_a_relative_directory_would_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=f"is relative.*'embedded:{tmp_path}/my/log'"):
        cluster_provider_name("embedded:my/log")
