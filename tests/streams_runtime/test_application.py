"""An application is checked when it is made, can be pickled, and is found by its name."""

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle

from assignor.errors import InputError
from streams_runtime.configs import StreamsConfig
from streams_runtime.instance.application import Application, ThreadErrorResponse, load_application
from streams_runtime.instance.restore.restore_listener import SilentRestoreListener
from streams_runtime.instance.streams_instance import StreamsInstance
from streams_runtime.processors.api import FailedRecord, HandlerResponse
from streams_runtime.processors.topology import Topology
from streams_runtime.tasks.exception_handling import dead_letter, fail
from tests.streams_runtime.processors.test_topology import word_count

CONFIGS: dict[str, object] = {"application.id": "word-count", "bootstrap.servers": "memory:test"}


def test_should_take_configs_by_dotted_names_or_as_values() -> None:
    by_names = Application(word_count(), {**CONFIGS, "num.stream.threads": "2"})
    as_values = Application(word_count(), StreamsConfig("word-count", "memory:test", num_stream_threads=2))

    assert by_names.configs == as_values.configs
    assert by_names.id == "word-count"
    assert by_names.group_topology() == word_count().group_topology("word-count")


def test_should_fail_on_errors_unless_told_otherwise() -> None:
    application = Application(word_count(), CONFIGS)

    assert application.processing_exception_handler is fail
    assert application.deserialization_exception_handler is fail
    assert application.uncaught_exception_handler(ValueError()) is ThreadErrorResponse.SHUTDOWN_CLIENT
    assert application.restore_listener_factory is None


def test_should_take_other_values_for_some_configs_and_keep_the_rest() -> None:
    def skip(record: FailedRecord) -> HandlerResponse:
        return HandlerResponse.CONTINUE

    configs = {**CONFIGS, "num.stream.threads": 2, "num.standby.replicas": 1, "client.tag.zone": "a"}
    application = Application(word_count(), configs, processing_exception_handler=skip)
    changed = application.with_configs(
        {"commit.interval.ms": 100, "num.standby.replicas": 2, "client.tag.rack": "r", "application.id": "other"}
    )

    assert changed.configs == StreamsConfig.from_dotted(
        {
            **configs,
            "commit.interval.ms": 100,
            "num.standby.replicas": 2,
            "client.tag.rack": "r",
            "application.id": "other",
        }
    )
    assert (changed.id, changed.processing_exception_handler) == ("other", skip)
    assert changed.topology.describe() == application.topology.describe()
    assert application.configs == StreamsConfig.from_dotted(configs)


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({"commit.interval": 1}, "configs: unknown config 'commit.interval'; did you mean 'commit.interval.ms'"),
        ({"num.stream.threads": 0}, "configs: num.stream.threads must be from 1 to 1000, not 0"),
        ({"heartbeat.interval.ms": 10**9}, "configs: heartbeat.interval.ms .* must be lower than session.timeout.ms"),
        ({"num.standby.replicas": "many"}, "configs: num.standby.replicas"),
        ({"topology.optimization": "all"}, "configs: topology.optimization is part of the topology already"),
        ({"default.key.serde": "x"}, "configs: default.key.serde is part of the topology already"),
    ],
)
def test_should_refuse_other_configs_that_cannot_be(configs: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Application(word_count(), CONFIGS).with_configs(configs)


def test_should_travel_with_its_handlers() -> None:
    def skip(record: FailedRecord) -> HandlerResponse:
        return HandlerResponse.CONTINUE

    application = Application(
        word_count(),
        CONFIGS,
        processing_exception_handler=skip,
        uncaught_exception_handler=lambda error: ThreadErrorResponse.REPLACE_THREAD,
        restore_listener_factory=SilentRestoreListener,
    )
    travelled: Application = cloudpickle.loads(cloudpickle.dumps(application))  # type: ignore[no-untyped-call]
    record: Any = None

    assert travelled.configs == application.configs
    assert travelled.topology.describe() == application.topology.describe()
    assert travelled.processing_exception_handler(record) is HandlerResponse.CONTINUE
    assert travelled.uncaught_exception_handler(ValueError()) is ThreadErrorResponse.REPLACE_THREAD
    assert travelled.restore_listener_factory is SilentRestoreListener


class Builder:
    def build(self) -> Topology:
        return word_count()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"topology": Builder()}, r"topology: must be a Topology, not a Builder; call its `build\(\)`"),
        ({"topology": None}, "topology: must be a Topology, not a NoneType$"),
        ({"topology": Topology()}, "topology: Invalid topology: It reads no topic"),
        ({"configs": None}, "configs: must be a StreamsConfig or a mapping, not a NoneType"),
        ({"configs": {**CONFIGS, "num.threads": 2}}, "configs: unknown config 'num.threads'"),
        ({"configs": {"application.id": "a"}}, "configs: 'bootstrap.servers' is missing"),
        ({"configs": {**CONFIGS, "application.id": "../up"}}, "configs: application.id '../up' must have 1 to 249"),
        ({"configs": {**CONFIGS, "application.id": ".."}}, "configs: application.id '..' must have 1 to 249"),
        ({"processing_exception_handler": "fail"}, "processing_exception_handler: must be a function, not 'fail'"),
        ({"deserialization_exception_handler": None}, "deserialization_exception_handler: must be a function"),
        ({"uncaught_exception_handler": 1}, "uncaught_exception_handler: must be a function, not 1"),
        (
            {"processing_exception_handler": dead_letter},
            "processing_exception_handler: is dead_letter, but errors.dead",
        ),
        ({"deserialization_exception_handler": dead_letter}, "deserialization_exception_handler: is dead_letter, but"),
        (
            {"restore_listener_factory": SilentRestoreListener()},
            "restore_listener_factory: must be a function that makes a listener",
        ),
        ({"state_listener": "listener"}, "state_listener: must be a function of new and old state, not 'listener'"),
    ],
)
def test_should_refuse_what_cannot_run(arguments: dict[str, Any], message: str) -> None:
    given = {"topology": word_count(), "configs": CONFIGS, **arguments}

    with pytest.raises(InputError, match=message):
        Application(given.pop("topology"), given.pop("configs"), **given)


def test_should_refuse_to_start_without_its_dead_letter_topic(tmp_path: Path) -> None:
    """Else the first record that fails ends the application, perhaps months later."""
    configs = {"bootstrap.servers": f"embedded:{tmp_path / 'log'}", "state.dir": tmp_path / "state"}
    dead_letters = {"errors.dead.letter.queue.topic.name": "bad"}
    application = Application(word_count(), {**CONFIGS, **configs, **dead_letters})

    with pytest.raises(InputError) as refused:
        StreamsInstance(application, "http://127.0.0.1:9").start()

    assert str(refused.value) == "errors.dead.letter.queue.topic.name: the log has no topic bad; create it first"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Writes the module `users_app` into the working directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))

    def write(source: str) -> None:
        (tmp_path / "users_app.py").write_text(source)

    yield write
    sys.modules.pop("users_app", None)


MODULE = """
from streams_runtime.instance.application import Application
from tests.streams_runtime.processors.test_topology import word_count

def make():
    return Application(word_count(), {"application.id": "made", "bootstrap.servers": "memory:test"})

def needs(argument):
    return None

def fails():
    raise ValueError("no model")

class jobs:
    app = make()

app = make()
number = 3
"""


@pytest.mark.parametrize("reference", ["users_app:app", "users_app:make", "users_app:jobs.app"])
def test_should_load_an_application_or_a_function_that_gives_one(module: Callable[[str], None], reference: str) -> None:
    module(MODULE)

    assert load_application(reference).id == "made"


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("users_app", "users_app: must be module:name, for example word_count:app"),
        (":app", "must be module:name"),
        ("users_app:", "must be module:name"),
        ("users_apps:app", "users_apps:app: there is no module 'users_apps' in .* or on the path"),
        ("users_app:ap", "module 'users_app' has no 'ap'; did you mean 'app'"),
        ("users_app:number", "number is a int; it must be an Application, or a function that returns one"),
        ("users_app:needs", r"calling needs failed: TypeError: needs\(\) missing 1 required"),
        ("users_app:fails", "calling fails failed: ValueError: no model"),
    ],
)
def test_should_say_which_step_of_loading_failed(module: Callable[[str], None], reference: str, message: str) -> None:
    module(MODULE)

    with pytest.raises(InputError, match=message):
        load_application(reference)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import no_such_thing", "importing 'users_app' failed: No module named 'no_such_thing'"),
        ("1 / 0", "importing 'users_app' failed: ZeroDivisionError"),
        (
            "from streams_runtime import StreamsConfig\nStreamsConfig.from_dotted({})",
            "^users_app:app: configs: 'application.id' is missing",
        ),
    ],
)
def test_should_tell_a_failing_module_from_none(module: Callable[[str], None], source: str, message: str) -> None:
    module(source)

    with pytest.raises(InputError, match=message) as caught:
        load_application("users_app:app")

    assert caught.value.__cause__ is not None
