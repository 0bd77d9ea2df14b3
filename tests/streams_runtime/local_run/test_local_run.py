"""An application that runs where it is written: two instances, a coordinator of their own, and what it refuses."""

import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from assignor.errors import InputError
from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.dsl.streams_builder import StreamsBuilder
from streams_runtime.instance.application import Application
from streams_runtime.local_run.coordinator_process import CoordinatorProcess
from streams_runtime.local_run.local_run import LocalRun, NotFinished
from streams_runtime.logs.base import NewTopic
from streams_runtime.logs.opening import open_log
from streams_runtime.logs.record_producer import RecordProducer
from streams_runtime.serdes import STRING
from tests.streams_runtime.word_counting import wait_for


def application(directory: Path, **more: object) -> Application:
    """It counts the words of the topic `lines`."""
    builder = StreamsBuilder()
    words = builder.stream("lines", STRING, STRING).flat_map_values(str.split)
    words.group_by(lambda _line, word: word, key_serde=STRING, value_serde=STRING).count(store="counts")
    configs = {
        "application.id": "words",
        "bootstrap.servers": f"embedded:{directory / 'log'}",
        "state.dir": directory / "state",
        "commit.interval.ms": 20,
        **more,
    }
    return Application(builder.build(), configs)


def feed(directory: Path, lines: int, text: str) -> None:
    with closing(open_log(f"embedded:{directory / 'log'}")) as log:
        log.create_topics([NewTopic("lines", 2), NewTopic("out", 1)])
        with RecordProducer(log, STRING, STRING) as producer:
            for number in range(lines):
                producer.send("lines", None, text, timestamp_ms=1_000, partition=number % 2)


def count_of_the(endpoints: Iterable[str]) -> object:
    """What the instance that has the word "the" says; None while its task moves, and each says "ask again"."""
    asked = (httpx.get(f"{endpoint}/v1/stores/counts/key?key=the", trust_env=False) for endpoint in endpoints)
    return next((answer.json()["value"] for answer in asked if answer.is_success), None)


def test_should_process_all_that_is_there_and_go_on_where_it_stopped(tmp_path: Path) -> None:
    feed(tmp_path, 10, "the cat and the dog")
    with LocalRun(application(tmp_path), instances=2) as run:
        run.wait_until_running()
        progress = run.wait_until_caught_up()
        assert progress.first_done == 10
        assert progress.done == 10 + 50, "the words between the two subtopologies, too"
        assert len({instance.process_id for instance in run.instances}) == 2
        wait_for(lambda: count_of_the(run.endpoints) == 20, lambda: count_of_the(run.endpoints))
    feed(tmp_path, 5, "dog")
    with LocalRun(application(tmp_path)) as run:
        assert run.wait_until_caught_up().first_done == 15


def test_should_use_the_coordinator_that_runs_already(tmp_path: Path, coordinator: CoordinatorProcess) -> None:
    feed(tmp_path, 1, "the")
    with (
        pytest.raises(Exception, match=r"not listed in this service's setting cluster\.bootstrap\.servers"),
        LocalRun(application(tmp_path), coordinator=coordinator.url),
    ):
        pass


@pytest.mark.long
def test_should_say_what_ended_an_instance(tmp_path: Path) -> None:
    feed(tmp_path, 1, "the")
    builder = StreamsBuilder()
    builder.stream("lines", STRING, STRING).map_values(lambda line: str(int(line))).to(
        "out", key_serde=STRING, value_serde=STRING
    )
    configs = application(tmp_path).configs
    with (
        LocalRun(Application(builder.build(), configs)) as run,
        pytest.raises(StreamsRuntimeError, match="invalid literal"),
    ):
        run.wait_until_caught_up()


@pytest.mark.long
def test_should_say_how_far_it_came_when_time_is_up(tmp_path: Path) -> None:
    feed(tmp_path, 3, "the")
    never = application(tmp_path, **{"commit.interval.ms": 600_000})
    with LocalRun(never) as run, pytest.raises(NotFinished, match=r"only 0 of \d records are done after 0\.1 s"):
        run.wait_until_caught_up(0.1)


def test_should_answer_where_application_server_says(tmp_path: Path) -> None:
    feed(tmp_path, 1, "the cat")
    with LocalRun(application(tmp_path, **{"application.server": "localhost:0"})) as run:
        assert run.endpoints[0].startswith("http://localhost:")  # without the config: 127.0.0.1
        assert httpx.get(f"{run.endpoints[0]}/v1/stores", trust_env=False).json()["application_id"] == "words"


def test_should_refuse_one_port_for_several_instances(tmp_path: Path) -> None:
    app = application(tmp_path, **{"application.server": "127.0.0.1:7001"})
    with pytest.raises(InputError, match=r"2 instances cannot all answer at 127\.0\.0\.1:7001: give port 0"):
        LocalRun(app, instances=2)
    LocalRun(application(tmp_path, **{"application.server": "127.0.0.1:0"}), instances=2)


@pytest.mark.parametrize(
    ("topics", "missing"),
    [
        ([], "lines, which the topology reads; out, which the topology writes"),
        (["out"], "lines, which the topology reads"),
        (["lines"], "out, which the topology writes"),
    ],
)
def test_should_refuse_to_start_without_the_topics(tmp_path: Path, topics: list[str], missing: str) -> None:
    """It would seem to have caught up with a topic that is misspelt."""
    with closing(open_log(f"embedded:{tmp_path / 'log'}")) as log:
        log.create_topics([NewTopic(topic, 1) for topic in topics])
    builder = StreamsBuilder()
    stream = builder.stream("lines", STRING, STRING)
    stream.to("out")
    stream.group_by(lambda _key, value: value, key_serde=STRING).count(store="counts")
    run = LocalRun(Application(builder.build(), application(tmp_path).configs))

    with pytest.raises(InputError) as refused, run:
        pass

    assert str(refused.value) == f"words: the log has no topic {missing}; create it first"


def test_should_refuse_no_instance_and_no_coordinator(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="must be at least 1, not 0"):
        LocalRun(application(tmp_path), instances=0)
    monkeypatch.setattr("streams_runtime.local_run.local_run.find_spec", lambda _name: None)
    with pytest.raises(InputError, match=r"pip install 'assignor\[coordinator\]'"):
        LocalRun(application(tmp_path))


def test_should_report_the_records_that_wait_for_a_slow_function(tmp_path: Path) -> None:
    def slowly(line: str) -> str:
        time.sleep(0.01)
        return line

    feed(tmp_path, 400, "the")
    builder = StreamsBuilder()
    builder.stream("lines", STRING, STRING).map_values(slowly).to("out", key_serde=STRING, value_serde=STRING)
    log, state = tmp_path / "log", tmp_path / "state"
    configs = {"application.id": "slow", "bootstrap.servers": f"embedded:{log}", "state.dir": state}

    with LocalRun(Application(builder.build(), configs)) as run:

        def flow() -> dict[str, Any]:
            answered = httpx.get(f"{run.coordinator_url}/v1/groups/slow/flow", trust_env=False).json()
            return answered["total"] or {}

        wait_for(lambda: 0 < (flow().get("lag") or 0) < 400, flow)
        assert (flow()["behind_ms"] or 0) > 1_000_000_000_000, "the records are from 1970"
        run.wait_until_caught_up()
        wait_for(lambda: flow().get("lag") == 0, flow)
        assert flow()["behind_ms"] == 0
