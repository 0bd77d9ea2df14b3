"""Logs of Kafka Streams 4.3.1, led by its own assignors on a real broker, become placements that run again the same.

Three instances grow one after the other, one is killed and comes back, one leaves: `jvm_logs/`, all instances in a row.
`fallback_debug` has DEBUG lines too, so that what INFO tells can be held against what the leader saw.
"""

import gzip
import itertools
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from assignor.errors import InputError
from kafka_groups.recorder.jvm_log import placements_from_log
from rebalance_analysis.rerun import run
from tests.known import known

LOGS = Path(__file__).with_name("jvm_logs")
AS_THE_LEADER: dict[str, tuple[dict[str, object], str | None]] = {
    "high_availability": (
        {
            "num.standby.replicas": 1,
            "acceptable.recovery.lag": 0,
            "max.warmup.replicas": 1,
            "rack.aware.assignment.tags": ["zone"],
        },
        None,
    ),
    "sticky": ({"num.standby.replicas": 1}, "LegacyStickyTaskAssignor"),
    "fallback_debug": ({}, "FallbackPriorTaskAssignor"),
}
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def lines_of(name: str) -> list[str]:
    return gzip.decompress((LOGS / f"{name}.log.gz").read_bytes()).decode().splitlines()


def read(name: str, lines: list[str] | None = None) -> tuple[list[dict[str, Any]], list[str]]:
    """Documents, and why rounds were left out."""
    configs, assignor = AS_THE_LEADER[name]
    skipped: list[str] = []
    documents = placements_from_log(
        lines_of(name) if lines is None else lines, configs, assignor=assignor, on_skipped=skipped.append
    )
    return list(documents), skipped


@pytest.mark.parametrize("name, rounds", [("high_availability", 13), ("sticky", 11), ("fallback_debug", 6)])
def test_should_give_placements_that_run_again_as_the_jvm_placed_them(name: str, rounds: int) -> None:
    documents, skipped = read(name)

    assert [known(run(document).comparison()).equal for document in documents] == [True] * rounds
    assert skipped == []


def test_should_tell_a_round_of_the_high_availability_assignor_whole() -> None:
    document = read("high_availability")[0][0]

    assert document == json.loads((LOGS / "high_availability_first.json").read_text())


def test_should_know_from_info_lines_what_the_leader_saw_in_debug() -> None:
    lines = lines_of("fallback_debug")
    with_debug, _ = read("fallback_debug", lines)
    info_only, skipped = read("fallback_debug", [line for line in lines if " DEBUG " not in line])

    assert len(with_debug) == 6
    assert skipped == []
    for seen, told in zip(with_debug, info_only, strict=True):
        assert seen["configs"] == {"num.standby.replicas": 1}
        for document in (seen, told):
            del document["configs"]
            for client in document["clients"].values():
                del client["lags"], client["tags"]
        assert json.dumps(told) == json.dumps(seen), "in this order"


def wrapped(name: str, how: str) -> list[str]:
    """The same log as another logger or collector writes it."""
    lines = lines_of(name)
    if how == "of docker compose":
        return [f"app-1  | {line}" for line in lines]
    if how == "with CR":
        return [f"{line}\r\n" for line in lines]
    if how == "of Spring":
        return [re.sub(r"^(\S+ \S+) \[.*?\] INFO (\S+) -", r"\1  INFO 1 --- [StreamThread-1] \2 :", at) for at in lines]
    if how == "of log4j without threads":
        return [re.sub(r"^(\S+ \S+) \[.*?\] INFO (\S+) -", r"[\1] INFO", line) for line in lines]
    whole = ("\n".join(record).replace("\n", "\\n").replace("\t", "\\t") for record in records_of(name))
    return [json.dumps({"m": record}).replace("\\\\n", "\\n").replace("\\\\t", "\\t") for record in whole]


WRAPPINGS = ["of docker compose", "with CR", "of Spring", "of log4j without threads", "in JSON"]


@pytest.mark.parametrize("name, how", list(itertools.product(["high_availability", "sticky"], WRAPPINGS)))
def test_should_read_the_log_of_every_logger(name: str, how: str) -> None:
    expected, _ = read(name)
    documents, skipped = read(name, wrapped(name, how))

    assert skipped == []
    assert [without_id(document) for document in documents] == [without_id(document) for document in expected]


def without_id(document: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in document.items() if key != "id"}


def test_should_keep_rounds_of_groups_apart_whose_records_alternate() -> None:
    """Records of two leaders in one log, each record whole."""
    none: list[str] = []
    both = itertools.zip_longest(records_of("high_availability"), records_of("sticky"), fillvalue=none)
    configs = {**AS_THE_LEADER["high_availability"][0]}
    skipped: list[str] = []
    documents = list(
        placements_from_log(
            [line for pair in both for record in pair for line in record],
            configs,
            assignor="LegacyStickyTaskAssignor",
            on_skipped=skipped.append,
        )
    )

    assert skipped == []
    assert Counter(document["assignor"] for document in documents) == {
        "HighAvailabilityTaskAssignor": 13,
        "LegacyStickyTaskAssignor": 11,
    }
    assert all(known(run(document).comparison()).equal for document in documents)


def records_of(name: str) -> list[list[str]]:
    records: list[list[str]] = []
    for line in lines_of(name):
        if line.startswith("2026-") or not records:
            records.append([])
        records[-1].append(line)
    return records


def of_an_old_release(line: str) -> str:
    """As 2.8 wrote it: no tags, and `All members`."""
    line = re.sub(r" clientTags: \(\[.*?\]\) capacity", " capacity", line)
    line = re.sub(r"\d+ client nodes and \d+ consumers participating", "All members participating", line)
    return re.sub(
        r"prevStandbyTasks: (\(\[.*?\]\))", r"prevStandbyTasks: \1 prevOwnedPartitionsByConsumerId: ([])", line
    )


def test_should_read_the_line_of_older_releases() -> None:
    expected, _ = read("high_availability")
    documents, skipped = read("high_availability", [of_an_old_release(line) for line in lines_of("high_availability")])

    assert skipped == []
    for old, new in zip(documents, expected, strict=True):
        for client in new["clients"].values():
            client["tags"] = {}
        assert old == new


def test_should_read_the_sticky_rounds_of_older_releases() -> None:
    """`Assigned tasks [..] including stateful [..] to clients as:` in place of three records."""
    log = (LOGS / "sticky_2_8.log").read_text()
    documents = list(placements_from_log(log.splitlines(), assignor="LegacyStickyTaskAssignor"))

    assert documents == json.loads((LOGS / "sticky_2_8.json").read_text())


def test_should_call_a_round_without_end_offsets_one_of_the_fallback() -> None:
    lines = lines_of("sticky")
    placing = next(number for number, line in enumerate(lines) if "Assignment of tasks to nodes" in line)
    prefix = lines[placing].split("Assignment of tasks")[0]
    lines.insert(placing, f"{prefix}Failed to fetch end offsets for changelogs, will return previous assignment to ...")
    documents = list(placements_from_log(lines))

    assert [document["assignor"] for document in documents] == ["FallbackPriorTaskAssignor"]
    assert documents[0]["output"]["probing_rebalance_needed"] is True  # type: ignore[index]


def decided(change: str, to: str) -> str:
    """The first line of the assignor that has tasks on two clients, changed."""
    line = next(line for line in lines_of("high_availability") if line.count("=[activeTasks") == 2)
    assert change in line
    return line.replace(change, to, 1)


@pytest.mark.parametrize(
    "line, reason",
    [
        (decided(" followup probing rebalance.", ""), "is cut off before it says whether a probing rebalance follows"),
        (decided(" prevActiveTasks: ", " "), "has no prevActiveTasks"),
        (decided("taskLagTotals: ", "lags: "), "has no taskLagTotals: this release does not log them"),
        (
            decided("taskLagTotals: ([1_0=", "taskLagTotals: ([1_x="),
            "'1_x' is not a task id: expected subtopology_partition, for example 0_3",
        ),
        (decided("taskLagTotals: ([1_0=", "taskLagTotals: ([1_0=a"), "is no lag"),
        (
            decided("taskLagTotals: ([1_0=", "taskLagTotals: ([9_0="),
            "shows lags of different tasks for different clients",
        ),
        (re.sub("activeTasks.*capacity", "", decided(" ", " ")), "names no client"),
        (re.sub(r"assigned: \d+", "assigned: 99", decided(" ", " ")), "says 99 assigned tasks of"),
        (re.sub(r"capacity: \d+ assigned: \d+\]", "", decided(" ", " "), count=1), "is cut off in the state of"),
    ],
)
def test_should_leave_out_a_round_that_is_cut_off_or_mixed_up_and_say_why(line: str, reason: str) -> None:
    whole = [line for line in lines_of("high_availability") if "Decided on" in line][-1]
    skipped: list[str] = []
    documents = list(
        placements_from_log([line, whole], AS_THE_LEADER["high_availability"][0], on_skipped=skipped.append)
    )

    assert len(documents) == 1
    assert len(skipped) == 1
    assert skipped[0].startswith("line 1: ")
    assert reason in skipped[0]


@pytest.mark.parametrize(
    "missing, reason",
    [
        ("and stateless tasks", "has no line with its tasks"),
        ("Assignment of tasks to nodes", "has no placement for all of its clients"),
        ("prev owned standby", "has no previous tasks for all of its clients"),
    ],
)
def test_should_leave_out_a_sticky_round_with_a_line_missing(missing: str, reason: str) -> None:
    lines = lines_of("sticky")
    at = next(number for number, line in enumerate(lines) if missing in line)
    documents, skipped = read("sticky", lines[:at] + lines[at + 1 :])

    assert len(documents) == 10
    assert skipped == [f"line 5: the rebalance that begins here {reason}"]


def test_should_leave_out_rounds_when_neither_log_nor_caller_says_who_placed_them() -> None:
    skipped: list[str] = []

    assert list(placements_from_log(lines_of("sticky"), on_skipped=skipped.append)) == []
    assert len(skipped) == 11
    assert skipped[0].endswith("does not say which assignor placed it; name it")


def test_should_leave_out_a_round_that_was_placed_rack_aware() -> None:
    rack_aware = ["INFO Assignment before active task optimization is {}", " with cost 10"]
    first = next(line for line in lines_of("high_availability") if "Decided on" in line)
    start = "INFO stream-thread [ha-af6ce39f-d5b0-488a-8b98-87969bdfccdf-StreamThread-2-consumer] "
    clients = [
        f"{start}1 client nodes and 1 consumers participating in this rebalance: ",
        "af6ce39f-d5b0-488a-8b98-87969bdfccdf: [a].",
    ]
    skipped: list[str] = []

    assert list(placements_from_log([*clients, *rack_aware, first], on_skipped=skipped.append)) == []
    assert skipped == ["line 5: was placed by a rack-aware strategy, which cannot be run again"]


@pytest.mark.parametrize(
    "configs, assignor, message",
    [
        ({"num.standby.replica": 1}, None, "num.standby.replica"),
        ({}, "Sticky", "assignor: must be one of"),
        ({}, "HighAvailabilityTaskAssignor", "assignor: HighAvailabilityTaskAssignor logs itself what it decided"),
    ],
)
def test_should_refuse_other_configs_and_assignors(
    configs: dict[str, object], assignor: str | None, message: str
) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        placements_from_log([], configs, assignor=assignor)


@pytest.mark.parametrize(
    ("line", "configs", "release"),
    [
        ("INFO Kafka version: 4.4.0 (org.apache.kafka.common.utils.AppInfoParser)", {}, "4.4.0"),
        ("INFO Kafka version: 3.9.1 (org.apache.kafka.common.utils.AppInfoParser)", {}, None),
        ("INFO Kafka version: 4.4.0 (org.apache.kafka.common.utils.AppInfoParser)", {"kafka.version": "4.3"}, None),
    ],
    ids=["of 4.4", "older than any that is known", "beside a config"],
)
def test_should_take_the_release_that_the_log_names(line: str, configs: dict[str, object], release: str | None) -> None:
    lines = [line, *lines_of("sticky")]
    placed = next(placements_from_log(lines, configs, assignor="LegacyStickyTaskAssignor", on_skipped=lambda _: None))
    assert placed.get("kafka_version") == release
