"""`assignor reset`: says what it would do, does that and no more, and leaves a running application alone."""

import json
from pathlib import Path

import pytest

from assignor.names.internal_names import is_internal_topic
from assignor.types import TopicPartition
from streams_runtime import LONG, STRING, Application, NewTopic, RecordProducer, read_topic
from streams_runtime.local_run.local_run import LocalRun
from streams_runtime.logs.base import Log, OffsetAndMetadata
from streams_runtime.logs.log_errors import CommitFenced
from streams_runtime.tasks.file_system import DirectoryLock
from tests.streams_runtime.cli.conftest import Run
from tests.streams_runtime.logs.reading_and_writing import commit
from tests.streams_runtime.stub_service import Answer, stub_service
from tests.streams_runtime.word_counting import word_counts

NOBODY = ("--coordinator", "http://127.0.0.1:1")
ALONE = ("--application-id", "words", "--without-coordinator")
GROUPS = {"groups": [{"group_id": "words"}, {"group_id": "words-2"}]}
CHANGELOG, REPARTITION, CLAIMS = "words-counts-changelog", "words-by-word-repartition", "words-claims"


@pytest.fixture
def left(log: Log) -> Log:
    """What an application leaves behind: offsets in two partitions of `lines`, and its internal topics."""
    log.create_topics(
        [NewTopic(name, 2) for name in (CHANGELOG, REPARTITION, CLAIMS, "words-2-counts-changelog", "words-out")]
    )
    with RecordProducer(log, STRING, STRING) as producer:
        for number in range(20):
            producer.send("lines", None, "the cat", timestamp_ms=1_000 * number, partition=number % 2)
            producer.send(REPARTITION, "the", "1")
    log.delete_records({TopicPartition("lines", 1): 3})
    commit(
        log, "words", {TopicPartition("lines", 0): 7, TopicPartition("lines", 1): 8, TopicPartition(REPARTITION, 0): 9}
    )
    return log


def committed(log: Log, group: str = "words") -> dict[str, int]:
    return {str(each): at.offset for each, at in log.committed_offsets(group, None).items()}


def test_should_only_say_what_it_would_do_until_it_is_told_to_do_it(left: Log, run: Run) -> None:
    before = (committed(left), set(left.topics()))
    ran = run("reset", *ALONE)

    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.splitlines() == [
        "words: a reset would do this; nothing is changed",
        "WHAT    NAME                       CHANGE",
        "offset  lines-0                    7 -> 0",
        "offset  lines-1                    8 -> 3",
        "topic   words-2-counts-changelog   deleted",
        f"topic   {REPARTITION}  deleted",
        f"topic   {CLAIMS}               deleted",
        f"topic   {CHANGELOG}     deleted",
        "Delete the state on every machine that ran instances: --state-dir names its state.dir.",
        "--execute does it.",
    ]
    assert (committed(left), set(left.topics())) == before


def test_should_move_offsets_and_delete_internal_topics(left: Log, run: Run) -> None:
    fenced = left.claim("words", [TopicPartition("lines", 0)])
    ran = run(
        "reset", *ALONE, "--execute", "--internal-topic", CHANGELOG, "--internal-topic", REPARTITION, "-o", "json"
    )

    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == {
        "application_id": "words",
        "executed": True,
        "offsets": [
            {"topic": "lines", "partition": 0, "before": 7, "after": 0},
            {"topic": "lines", "partition": 1, "before": 8, "after": 3},
        ],
        "deleted_topics": [{"topic": REPARTITION, "partitions": 2}, {"topic": CHANGELOG, "partitions": 2}],
        "deleted_state": [],
        "deleted_group": None,
    }
    assert committed(left) == {"lines-0": 0, "lines-1": 3}
    assert set(left.topics()) == {"lines", "counts", "words-2-counts-changelog", "words-out"}
    with pytest.raises(CommitFenced):
        left.producer().commit_offsets([(fenced, {TopicPartition("lines", 0): OffsetAndMetadata(9)})])


@pytest.mark.parametrize(
    ("options", "offsets"),
    [
        (["--to-earliest"], {"lines-0": 0, "lines-1": 3}),
        (["--to-latest"], {"lines-0": 10, "lines-1": 10}),
        (["--to-offset", "5"], {"lines-0": 5, "lines-1": 5}),
        (["--to-offset", "1"], {"lines-0": 1, "lines-1": 3}),
        (["--to-offset", "99"], {"lines-0": 10, "lines-1": 10}),
        (["--shift-by", "-2"], {"lines-0": 5, "lines-1": 6}),
        (["--shift-by", "-6"], {"lines-0": 1, "lines-1": 3}),
        (["--to-datetime", "1970-01-01T00:00:12Z"], {"lines-0": 6, "lines-1": 6}),
        (["--to-datetime", "18500"], {"lines-0": 10, "lines-1": 9}),
        (["--by-duration", "PT1H"], {"lines-0": 10, "lines-1": 10}),
        (["--by-duration", "P36500D"], {"lines-0": 0, "lines-1": 3}),
        (["--input-topic", "counts"], {"lines-0": 7, "lines-1": 8, "counts-0": 0}),
    ],
)
def test_should_move_offsets_where_wanted(left: Log, run: Run, options: list[str], offsets: dict[str, int]) -> None:
    ran = run("reset", *ALONE, "--execute", *options)

    assert ran.returncode == 0, ran.stderr
    assert committed(left) == offsets


@pytest.mark.parametrize(
    ("topic", "others", "is_internal"),
    [
        (CHANGELOG, [], True),
        (CLAIMS, [], True),
        ("words-KSTREAM-AGGREGATE-STATE-STORE-0000000003-repartition", [], True),
        ("words-KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-0000000007-topic", [], True),
        ("words-join-subscription-response-topic", [], True),
        ("words-out", [], False),
        ("my-words-counts-changelog", [], False),
        ("words2-counts-changelog", [], False),
        ("words-2-counts-changelog", [], True),
        ("words-2-counts-changelog", ["words-2"], False),
        ("words-2-claims", [], False),
        (CHANGELOG, ["word", "counts"], True),
    ],
)
def test_should_know_the_internal_topics_of_an_application(topic: str, others: list[str], is_internal: bool) -> None:
    assert is_internal_topic("words", topic, others) == is_internal


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (["--application-id", "word", "--without-coordinator"], 1,
         "word has no committed offsets and no internal topics at {}"),
        ([*ALONE, "--to-latest", "--to-offset", "1"], 2, "--to-offset: does not go together with --to-latest"),
        ([*ALONE, "--by-duration", "1h"], 2, "--by-duration: must be a duration such as P7D or PT1H30M, not '1h'"),
        ([*ALONE, "--input-topic", "missing"], 2, "--input-topic: there is no topic missing"),
        ([*ALONE, "--internal-topic", "lines"], 2,
         "--internal-topic: 'lines' is no internal topic of words that is there"),
        ([*ALONE, "--delete-group"], 2, "--delete-group: needs the coordinator; leave out --without-coordinator"),
        (["--application-id", "words", "--execute", *NOBODY], 2,
         "no coordinator answers at http://127.0.0.1:1, so nobody can say whether instances run; "
         "--without-coordinator resets it all the same"),
    ],
)  # fmt: skip
def test_should_name_the_reason(address: str, left: Log, run: Run, options: list[str], code: int, said: str) -> None:
    before = (committed(left), set(left.topics()))
    ran = run("reset", *options)

    assert (ran.returncode, ran.stdout, ran.stderr) == (code, "", f"error: {said.format(address)}\n")
    assert (committed(left), set(left.topics())) == before


def test_should_plan_without_a_coordinator_and_say_what_is_not_known(left: Log, run: Run) -> None:
    ran = run("reset", "--application-id", "words", *NOBODY)

    assert ran.returncode == 0
    assert ran.stdout.splitlines()[-2:] == [
        "Not known: no coordinator answers at http://127.0.0.1:1, so nobody can say whether instances run.",
        "--execute does it.",
    ]


def test_should_change_nothing_while_a_local_instance_has_its_state(left: Log, run: Run, tmp_path: Path) -> None:
    directory = tmp_path / "state" / "words"
    directory.mkdir(parents=True)
    lock = DirectoryLock.acquire(directory, "state")
    ran = run("reset", *ALONE, "--execute", "--state-dir", str(tmp_path / "state"))
    lock.release()

    assert ran.returncode == 1
    assert ran.stderr.startswith(f"error: the application's state directory ({directory}) is in use by process ")
    assert committed(left)["lines-0"] == 7
    assert CHANGELOG in left.topics()


def test_should_leave_an_application_alone_that_has_members(left: Log, run: Run) -> None:
    described = {"members": [{"member_id": "words-p0-t0"}, {"member_id": "words-p1-t0"}]}
    with stub_service(Answer(document=GROUPS), Answer(document=described)) as coordinator:
        ran = run("reset", "--application-id", "words", "--coordinator", coordinator.url)

    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == (
        "error: words is running: member words-p0-t0 and 1 more; end its instances first, as "
        "`assignor groups drain words` does\n"
    )
    assert [asked.path for asked in coordinator.asked] == ["/v1/groups", "/v1/groups/words"]


def test_should_delete_the_group_too_and_leave_topics_of_other_groups_alone(left: Log, run: Run) -> None:
    answers = (Answer(document=GROUPS), Answer(document={"members": []}), Answer(204))
    with stub_service(*answers) as coordinator:
        ran = run("reset", "--application-id", "words", "--execute", "--delete-group", "--coordinator", coordinator.url)

    assert ran.returncode == 0, ran.stderr
    assert "group   words" in ran.stdout
    assert (coordinator.asked[-1].method, coordinator.asked[-1].path) == ("DELETE", "/v1/groups/words")
    assert set(left.topics()) == {"lines", "counts", "words-2-counts-changelog", "words-out"}


def counting_words(address: str, directory: Path) -> Application:
    configs = {
        "application.id": "words",
        "bootstrap.servers": address,
        "state.dir": directory,
        "processing.guarantee": "exactly_once_v2",
        "commit.interval.ms": 20,
    }
    return Application(word_counts("lines", "counts"), configs)


@pytest.mark.long
def test_should_let_an_application_count_everything_again(address: str, log: Log, run: Run, tmp_path: Path) -> None:
    state = tmp_path / "state"
    with RecordProducer(log, STRING, STRING) as producer:
        for number in range(12):
            producer.send("lines", None, "the cat and the dog", partition=number % 4)

    with LocalRun(counting_words(address, state), instances=2) as local:
        local.wait_until_caught_up()
        at = ("--coordinator", local.coordinator_url)
        refused = run("reset", "--application-id", "words", "--execute", *at)
    first = {record.key: record.value for record in read_topic(log, "counts", STRING, LONG)}
    log.delete_topics(["counts"])
    log.create_topics([NewTopic("counts", 1)])
    ran = run("reset", *ALONE, "--execute", "--state-dir", str(state))
    internal = [name for name in log.topics() if name.startswith("words-")]
    with LocalRun(counting_words(address, state)) as local:
        local.wait_until_caught_up()

    assert first == {"the": 24, "cat": 12, "and": 12, "dog": 12}
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("error: words is running: member words-")
    assert ran.returncode == 0, ran.stderr
    assert [line.split()[0] for line in ran.stdout.splitlines()] == [
        "words:", "WHAT", *["offset"] * 4, *["topic"] * 2, *["state"] * 2,
    ]  # fmt: skip
    assert internal == []
    assert {record.key: record.value for record in read_topic(log, "counts", STRING, LONG)} == first
