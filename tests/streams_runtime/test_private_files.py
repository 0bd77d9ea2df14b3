"""Embedded logs and states belong to their owner alone, whatever the umask is, and no name leads out of them."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assignor.errors import InputError, TopologyError
from assignor.types import TaskId, TopicPartition
from streams_runtime import BYTES, NewTopic, StreamsConfig, Topology
from streams_runtime.common.clock import SystemClock
from streams_runtime.common.errors import ProcessorStateError
from streams_runtime.logs.embedded.embedded_log import EmbeddedLog
from streams_runtime.logs.log_errors import InvalidTopic
from streams_runtime.state_stores.builders import KeyValueStoreBuilder
from streams_runtime.state_stores.rocksdb import RocksDBStore
from streams_runtime.state_stores.state_store import StoreContext
from streams_runtime.tasks.checkpoint_file import CheckpointFile
from streams_runtime.tasks.state_directory import StateDirectory
from tests.hostile_names import HOSTILE_NAMES

CONFIGS = {"application.id": "app", "bootstrap.servers": "embedded:log"}


@pytest.fixture(params=(0o000, 0o077), ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    before = os.umask(request.param)
    yield
    os.umask(before)


def modes(directory: Path) -> dict[str, int]:
    return {
        str(path.relative_to(directory)): stat.S_IMODE(path.stat().st_mode) for path in sorted(directory.rglob("*"))
    }


@pytest.mark.usefixtures("umask")
def test_should_create_an_embedded_log_for_its_owner_alone(tmp_path: Path) -> None:
    log = EmbeddedLog(tmp_path / "data" / "log")
    log.create_topics([NewTopic("orders", 1)])
    found = modes(tmp_path)
    log.close()

    files = {name: mode for name, mode in found.items() if "." in name}
    assert set(files) == {
        f"data/log/{name}" for name in ("log.sqlite", "log.sqlite-shm", "log.sqlite-wal", "write.lock")
    }
    assert set(files.values()) == {0o600}
    assert [found["data"], found["data/log"]] == [0o700, 0o700]


def test_should_leave_an_embedded_log_as_open_as_it_is_and_close_its_lock(tmp_path: Path) -> None:
    EmbeddedLog(tmp_path).close()
    (tmp_path / "log.sqlite").chmod(0o644)
    (tmp_path / "write.lock").chmod(0o666)

    EmbeddedLog(tmp_path).close()

    assert modes(tmp_path)["log.sqlite"] == 0o644
    assert modes(tmp_path)["write.lock"] == 0o600


@pytest.mark.usefixtures("umask")
def test_should_keep_states_and_checkpoints_for_their_owner_alone(tmp_path: Path) -> None:
    task = TaskId(0, 1)
    state = StateDirectory(tmp_path / "state", "app", SystemClock())
    state.belong_to("a-cluster")
    directory = state.task_directory(task)
    CheckpointFile(directory).write({TopicPartition("changelog", 1): 3})
    store = RocksDBStore("counts")
    store.open(StoreContext(task, directory, None, SystemClock()))  # type: ignore[arg-type]  # nobody asks the clock
    store.close()
    state.close()
    found = modes(tmp_path)

    for name in ("state", "state/app", "state/app/0_1", "state/app/0_1/rocksdb"):
        assert found[name] == 0o700
    for name in ("cluster-id", "kafka-streams-process-metadata", "0_1/.checkpoint", ".lock"):
        assert found[f"state/app/{name}"] == 0o600


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_should_refuse_a_hostile_name_wherever_it_would_become_a_path_or_a_topic(tmp_path: Path, name: str) -> None:
    log = EmbeddedLog(tmp_path / "log")
    before = modes(tmp_path)
    with pytest.raises(InputError):
        StateDirectory(tmp_path, name, SystemClock())
    with pytest.raises(InputError):
        StreamsConfig.from_dotted({**CONFIGS, "application.id": name})
    with pytest.raises(InputError):
        StreamsConfig.from_dotted({**CONFIGS, "errors.dead.letter.queue.topic.name": name})
    with pytest.raises(InputError):
        KeyValueStoreBuilder(name, BYTES, BYTES)
    with pytest.raises(InvalidTopic):
        log.create_topics([NewTopic(name, 1)])
    with pytest.raises(TopologyError):
        Topology().add_state_store(NamedBySomebody(name))  # type: ignore[arg-type]

    assert modes(tmp_path) == before
    log.close()


class NamedBySomebody:
    """A builder that somebody wrote, and which checks nothing."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.changelog = None


@given(st.text(max_size=300))
def test_should_keep_tasks_in_the_applications_directory(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    base = tmp_path_factory.getbasetemp() / "tasks"
    state = StateDirectory(base, "app", SystemClock())
    try:
        directory = state.task_directory(TaskId(0, 1, name))
    except (ProcessorStateError, UnicodeEncodeError):
        return
    finally:
        state.close()
    assert directory.parent == base / "app"
    assert directory.resolve().parent == (base / "app").resolve()


@pytest.mark.parametrize(
    "changes, why",
    [
        ({"client.id": "a\nb"}, "client.id 'a\\\\nb' must have 1 to 249 printable characters"),
        ({"client.id": "x" * 250}, "must have 1 to 249 printable characters"),
        ({"client.tag.zone\n": "a"}, "its name must have 1 to 20 printable characters"),
        ({"client.tag.zone": "a\x1b[31m"}, "its value must have 1 to 30 printable characters"),
        ({f"client.tag.{number}": "a" for number in range(6)}, "6 client tags are more than 5"),
    ],
)
def test_should_bound_what_members_call_themselves(changes: dict[str, str], why: str) -> None:
    with pytest.raises(InputError, match=why) as refused:
        StreamsConfig.from_dotted({**CONFIGS, **changes})

    assert str(refused.value).isprintable()
