"""`assignor topics`: what is there, and clear words for what is not."""

import json
from pathlib import Path

import pytest

from streams_runtime.logs.base import Log
from streams_runtime.logs.record_producer import RecordProducer
from streams_runtime.serdes import STRING
from tests.streams_runtime.cli.conftest import Run


def test_should_create_a_log_and_topics_in_it(address: str, run: Run) -> None:
    created = run("topics", "create", "lines", "counts", "--partitions", "3", "--config", "cleanup.policy=compact")
    listed = run("topics", "list", "-o", "json")

    assert (created.returncode, created.stdout) == (0, "lines: created, 3 partitions\ncounts: created, 3 partitions\n")
    assert json.loads(listed.stdout) == {
        "topics": [
            {"topic": name, "partitions": 3, "records": 0, "configs": {"cleanup.policy": "compact"}}
            for name in ("counts", "lines")
        ]
    }


def test_should_describe_where_each_partition_begins_and_ends(log: Log, run: Run) -> None:
    with RecordProducer(log, STRING, STRING) as producer:
        places = [producer.send("lines", f"key {number}", "value") for number in range(20)]
    log.delete_records({places[0]: 1})

    text = run("topics", "describe", "lines", "counts").stdout
    document = json.loads(run("topics", "describe", "lines", "-o", "json").stdout)

    ends = [sum(place.partition == number for place in places) for number in range(4)]
    begins = [int(places[0].partition == number) for number in range(4)]
    assert document["topics"][0]["partitions"] == [
        {"partition": number, "begin_offset": begins[number], "end_offset": ends[number]} for number in range(4)
    ]
    assert text.startswith(
        "lines: 4 partitions, 19 records\nconfigs: none of its own\nPARTITION  BEGIN  END  RECORDS\n"
    )
    assert text.endswith("\n\ncounts: 1 partition, 0 records\nconfigs: cleanup.policy=compact\n"
                         "PARTITION  BEGIN  END  RECORDS\n        0      0    0        0\n")  # fmt: skip


def test_should_delete_topics_and_say_what_was_in_them(log: Log, run: Run) -> None:
    with RecordProducer(log, STRING, STRING) as producer:
        producer.send("counts", "a", "1")

    deleted = run("topics", "delete", "counts")
    again = run("topics", "delete", "counts")
    quietly = run("topics", "delete", "counts", "--if-exists")

    assert (deleted.returncode, deleted.stdout) == (0, "counts: deleted, with 1 record\n")
    assert set(log.topics()) == {"lines"}
    assert (again.returncode, again.stdout) == (1, "")
    assert (quietly.returncode, quietly.stdout) == (0, "counts: is not there\n")


def test_should_add_partitions_and_change_configs(log: Log, run: Run) -> None:
    ran = run("topics", "alter", "lines", "--partitions", "6", "--config", "retention.ms=1000")
    back = run("topics", "alter", "lines", "counts", "--delete-config", "retention.ms", "-o", "json")

    assert (ran.returncode, ran.stdout) == (0, "lines: 6 partitions (4 before), configs: retention.ms=1000\n")
    assert json.loads(back.stdout) == {
        "topics": [
            {"topic": "lines", "partitions": 6, "configs": {}},
            {"topic": "counts", "partitions": 1, "configs": {"cleanup.policy": "compact"}},
        ]
    }
    assert log.topics()["lines"].partitions == 6


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["alter", "lines"], 2, "nothing to change: give --partitions, --config or --delete-config"),
        (["alter", "lines", "--partitions", "3"], 1, "topic lines has 4 partitions and cannot have 3: partitions are "
                                                     "never taken away, because their records would be lost"),
        (["alter", "line", "--partitions", "8"], 1, "there is no topic line at {}; did you mean lines? If not, make it "
                                                    "with `assignor topics create line`"),
        (["alter", "lines", "--delete-config", "retention.mss"], 2,
         "--delete-config: a topic has no config 'retention.mss'; did you mean retention.ms?"),
        (["alter", "lines", "--config", "retention.ms=1", "--delete-config", "retention.ms"], 2,
         "--delete-config: retention.ms is set by --config, too: give one of the two"),
        (["create", "lines"], 1, "topic lines exists, with 4 partitions; --if-not-exists leaves it as it is"),
        (["describe", "line"], 1, "there is no topic line at {}; did you mean lines? If not, make it with "
                                  "`assignor topics create line`"),
        (["delete", "line"], 1, "there is no topic line at {}; did you mean lines? If not, --if-exists leaves out what "
                                "is not there"),
        (["create", "a/b"], 1, "'a/b' is not a topic name: use 1 to 249 letters, digits, '.', '_' and '-', but not "
                               "'.' or '..'"),
        (["create", "new", "--config", "retention.mss=1"], 2,
         "--config: a topic has no config 'retention.mss'; did you mean retention.ms?"),
        (["create", "new", "--config", "retention.ms"], 2, "--config: must be KEY=VALUE, not 'retention.ms'"),
        (["create", "new", "--config", "retention.ms=soon"], 1,
         "topic new: retention.ms must be a whole number, not 'soon'"),
    ],
)  # fmt: skip
def test_should_name_the_error(address: str, log: Log, run: Run, arguments: list[str], code: int, said: str) -> None:
    ran = run("topics", *arguments)

    assert (ran.returncode, ran.stdout, ran.stderr) == (code, "", f"error: {said.format(address)}\n")


def test_should_leave_a_topic_that_exists_as_it_is_when_asked_to(log: Log, run: Run) -> None:
    ran = run("topics", "create", "lines", "new", "--partitions", "2", "--if-not-exists")

    assert (ran.returncode, ran.stdout) == (0, "lines: exists, 4 partitions\nnew: created, 2 partitions\n")


def test_should_make_no_log_where_one_only_looks(address: str, tmp_path: Path, run: Run) -> None:
    directory = tmp_path / "log"
    missing = run("topics", "list")
    directory.mkdir()
    empty = run("topics", "list")
    (directory / "log.sqlite").write_bytes(b"garbage" * 1_000)
    garbage = run("topics", "list")

    assert (missing.returncode, empty.returncode) == (2, 2)
    assert (
        missing.stderr
        == f"error: there is no directory {directory}; `assignor topics create` makes it, and a log in it\n"
    )
    assert empty.stderr == f"error: {directory} has no log in it (log.sqlite); `assignor topics create` makes one\n"
    assert garbage.stderr == f"error: log {directory}/log.sqlite cannot be used: file is not a database\n"


@pytest.mark.parametrize(
    ("address", "code", "said"),
    [
        ("memory:words", 2, "--bootstrap-server: 'memory:words' is in the memory of one process, and not of this one"),
        ("somewhere", 2, "bootstrap.servers: must be 'host:port,...' of Kafka, or 'embedded:<directory>' "
                         "(or 'memory:<name>' in tests), not 'somewhere'"),
        ("127.0.0.1:1", 2, "no broker listens at 127.0.0.1:1 (Connection refused): check --bootstrap-server, and "
                           "that the broker runs"),
    ],
)  # fmt: skip
def test_should_name_an_address_at_which_there_is_no_log(run: Run, address: str, code: int, said: str) -> None:
    ran = run("topics", "list", "--bootstrap-server", address)

    assert (ran.returncode, ran.stderr) == (code, f"error: {said}\n")
