"""The demo's application on a little text of known counts, and the real text it is made for."""

import uuid
from pathlib import Path

from assignor.types import TopicPartition
from spark_jobs.demo.word_count import (
    COUNTS,
    LINES,
    MODULES,
    SourceLine,
    TextFeed,
    different_counts,
    expected_counts,
    read_counts,
    stdlib_lines,
    word_count,
)
from streams_runtime.local_run.local_run import Progress, ProgressMeter
from streams_runtime.local_run.topology_test_driver import TopologyTestDriver
from streams_runtime.logs.opening import open_log
from streams_runtime.logs.topic_reading import read_topic
from streams_runtime.serdes import LONG, STRING
from tests.streams_runtime.logs.reading_and_writing import commit

TEXT = [
    SourceLine("json.decoder", "json", "import codecs, codecs"),
    SourceLine("json.encoder", "json", "from codecs import nothing"),
    SourceLine("abc", "abc", "import abc; x = 1  # short words do not count"),
]


def test_should_count_what_the_plain_loop_counts_when_lines_are_joined_with_their_package() -> None:
    topology = word_count({"application.id": "app", "bootstrap.servers": "memory:unused"}).topology
    with TopologyTestDriver(topology) as driver:
        modules = driver.create_input_topic(MODULES, STRING, STRING)
        lines = driver.create_input_topic(LINES, STRING, STRING)
        for line in TEXT:
            modules.pipe_input(line.module, line.package)
        lines.pipe_input("unknown.module", "words without package are left out")
        for line in TEXT:
            lines.pipe_input(line.module, line.text)
        counted = driver.create_output_topic(COUNTS, STRING, LONG).read_key_values_to_map()

    assert counted == expected_counts(TEXT)
    assert counted["json codecs"] == 3
    assert counted["abc words"] == 1


def test_should_time_every_module_before_every_line() -> None:
    """The application joins lines with modules, and takes the oldest record first."""
    log = open_log(f"memory:{uuid.uuid4()}")
    feed = TextFeed(log, TEXT)
    feed.write(TEXT)
    feed.close()
    modules, lines = (
        [record.timestamp_ms for record in read_topic(log, topic, STRING, STRING)] for topic in (MODULES, LINES)
    )
    assert (len(modules), len(set(lines))) == (3, 3)
    assert max(modules) < min(lines)


def test_should_read_the_last_count_of_each_key_and_name_the_keys_that_differ() -> None:
    log = open_log(f"memory:{uuid.uuid4()}")
    feed = TextFeed(log, TEXT)
    feed.close()
    producer = log.producer()
    for partition, key, count in ((0, "a", 1), (0, "a", 2), (1, "b", 5)):
        producer.send(TopicPartition(COUNTS, partition), STRING.serialize(key), LONG.serialize(count), 0)
    producer.flush()

    found = read_counts(log)

    assert found == {"a": 2, "b": 5}
    assert different_counts(found, {"a": 2, "b": 5}) == []
    assert different_counts(found, {"a": 3, "c": 1}) == [
        "'a': 2 instead of 3",
        "'b': 5 instead of 0",
        "'c': 0 instead of 1",
    ]


def test_should_tell_how_far_the_application_has_come_by_what_it_committed() -> None:
    log = open_log(f"memory:{uuid.uuid4()}")
    feed = TextFeed(log, TEXT)
    meter = ProgressMeter(log, "app", (LINES, "app-counts-repartition"))
    assert not meter.now().is_complete
    feed.write(TEXT)
    feed.close()
    assert meter.now() == Progress(0, 3, 0, 3)

    lines = [TopicPartition(LINES, number) for number in range(log.topics()[LINES].partitions)]
    commit(log, "app", log.end_offsets(lines))

    assert meter.now() == Progress(3, 3, 3, 3)
    assert meter.now().is_complete
    assert meter.now().share == 1.0


def test_should_find_at_least_so_many_lines_of_whole_files_in_pythons_own_library() -> None:
    lines = list(stdlib_lines(5_000))

    assert len(lines) >= 5_000
    assert lines == list(stdlib_lines(5_000)), "the same text every time"
    assert {line.package for line in lines} >= {"__future__"}


def test_should_pass_over_files_that_are_no_text_and_packages_that_were_installed(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("one\ntwo\n", encoding="utf-8")
    (tmp_path / "b.py").write_bytes(b"\xff\xfe")
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "c.py").write_text("three\n", encoding="utf-8")
    (tmp_path / "site-packages").mkdir()
    (tmp_path / "site-packages" / "d.py").write_text("four\n", encoding="utf-8")

    assert list(stdlib_lines(100, tmp_path)) == [
        SourceLine("a", "a", "one"),
        SourceLine("a", "a", "two"),
        SourceLine("pkg.c", "pkg", "three"),
    ]
    assert list(stdlib_lines(1, tmp_path)) == [SourceLine("a", "a", "one"), SourceLine("a", "a", "two")]
