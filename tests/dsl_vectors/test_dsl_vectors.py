"""The command on a sample of Kafka's answers: equal as they are, different when anything in an answer is changed."""

import copy
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.dsl_vectors.__main__ import main
from tests.dsl_vectors.cases import Case, read_cases
from tests.dsl_vectors.comparing import differences
from tests.dsl_vectors.judging import Judgement, Verdict, judge

SAMPLE = Path(__file__).parent / "sample.jsonl.gz"
FOUND = Path(__file__).parent / "found.jsonl"
"""Cases whose answers once differed from Kafka's."""
ANSWER = ("outputs", "dropped_records", "stores", "internal", "error")


Written = dict[str, Any]
Change = Callable[[Written], None]


@pytest.fixture(scope="module")
def judgements() -> list[tuple[Written, Judgement]]:
    """Of the sample, each case run once."""
    logging.disable(logging.CRITICAL)  # cases fail on purpose
    try:
        return [(case.written, judge(case)) for case in read_cases(SAMPLE)]
    finally:
        logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def equal(judgements: list[tuple[Written, Judgement]]) -> list[Written]:
    return [written for written, judgement in judgements if judgement.verdict is Verdict.EQUAL]


def first(equal: list[Written], wanted: Callable[[Written], bool]) -> Written:
    """A copy of the first case of which this holds."""
    return copy.deepcopy(next(filter(wanted, equal)))


def judged_file(path: Path, *cases: Written) -> int:
    path.write_text("".join(f"{json.dumps(case)}\n" for case in cases), encoding="utf-8")
    return main([str(path)])


def test_should_be_equal_to_kafka_or_documented_on_the_sample(judgements: list[tuple[Written, Judgement]]) -> None:
    verdicts = Counter(judgement.verdict for _, judgement in judgements)
    assert (verdicts.total(), verdicts[Verdict.EQUAL], verdicts[Verdict.DOCUMENTED]) == (379, 362, 17)
    assert [written["id"] for written, judgement in judgements if judgement.verdict is Verdict.DIFFERENT] == []


def test_should_be_equal_to_kafka_or_documented_where_an_answer_once_differed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([str(FOUND)]) == 0, capsys.readouterr().out


def test_should_name_what_is_not_known(
    equal: list[Written], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    operator = first(equal, lambda each: each["topology"][0]["op"] == "stream")
    operator["topology"][0]["op"] = "river"
    option = first(equal, lambda each: each["topology"][0]["op"] == "stream")
    option["topology"][0]["depth"] = 3
    config = first(equal, lambda each: True)
    config["configs"]["tide"] = "high"

    assert judged_file(tmp_path / "cases.jsonl", operator, option, option, config) == 0
    assert capsys.readouterr().out.splitlines() == [
        "cases.jsonl: 4 cases, 0 runnable, 0 equal, 0 documented, 0 different, 4 not known",
        "  not known: depth of stream: 2",
        "  not known: river: 1",
        "  not known: tide: 1",
        "all: 4 cases, 0 runnable, 0 equal, 0 documented, 0 different, 4 not known",
    ]


# changed answers


def make_timestamp_a_float(written: Written) -> None:
    """1 and 1.0 are equal in Python."""
    written["outputs"][-1]["timestamp_ms"] = float(written["outputs"][-1]["timestamp_ms"])


def rename_internal_topic(written: Written) -> None:
    name, counts = written["internal"].popitem()
    written["internal"][f"{name}-other"] = counts


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda written: written["outputs"].reverse(), id="order"),
        pytest.param(lambda written: written["outputs"].pop(), id="one output left out"),
        pytest.param(lambda written: written["outputs"].append(written["outputs"][-1]), id="one output repeated"),
        pytest.param(make_timestamp_a_float, id="type"),
        pytest.param(rename_internal_topic, id="name of an internal topic"),
    ],
)
def test_should_report_a_changed_answer(
    change: Change, equal: list[Written], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = first(equal, lambda each: len(each["outputs"]) > 2 and bool(each.get("internal")))
    change(written)

    assert judged_file(tmp_path / "changed.jsonl", written) == 1
    assert f"different: {written['id']}" in capsys.readouterr().out


def test_should_report_an_error_that_is_not_there(equal: list[Written], tmp_path: Path) -> None:
    written = first(equal, lambda each: "error" in each)
    del written["error"]

    assert judged_file(tmp_path / "changed.jsonl", written) == 1


def test_should_notice_a_change_of_any_value_of_an_answer(judgements: list[tuple[Written, Judgement]]) -> None:
    """Each fourth number, text and null of the answers of all cases that are equal."""
    changes = 0
    for written, judgement in judgements:
        if judgement.verdict is not Verdict.EQUAL or judgement.run is None:
            continue
        changed = copy.deepcopy(written)
        for place in list(places({part: written[part] for part in ANSWER if part in written}))[changes % 4 :: 4]:
            before = change_at(changed, place)
            assert differences(Case(changed), judgement.run) != [], (written["id"], place)
            change_at(changed, place, before)
            changes += 1
    assert changes > 1_500


def places(value: Any) -> Iterator[tuple[str | int, ...]]:
    """Where the values are that have no others in them."""
    if isinstance(value, dict | list):
        inner = value.items() if isinstance(value, dict) else enumerate(value)
        for name, each in inner:
            yield from ((name, *place) for place in places(each))
    else:
        yield ()


def change_at(written: Any, place: tuple[str | int, ...], new: Any = ...) -> Any:
    """Puts `new`, or without it another value, at this place. Returns the value that was there."""
    *way, last = place
    for step in way:
        written = written[step]
    value = written[last]
    if new is ...:
        new = value + 1 if isinstance(value, int) else "other" if value is None else f"{value} other"
    written[last] = new
    return value


# documented differences


def test_should_name_the_documented_differences_that_it_found(
    judgements: list[tuple[Written, Judgement]], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written, judgement = next(each for each in judgements if each[1].verdict is Verdict.DOCUMENTED)

    assert judged_file(tmp_path / "cases.jsonl", written) == 0
    assert f"  documented: {judgement.reasons[0]}: 1" in capsys.readouterr().out.splitlines()


def test_should_still_report_a_changed_answer_of_a_documented_case(judgements: list[tuple[Written, Judgement]]) -> None:
    for written in [written for written, judgement in judgements if judgement.verdict is Verdict.DOCUMENTED]:
        changed = copy.deepcopy(written)
        changed["outputs"][-1]["timestamp_ms"] += 1

        assert judge(Case(changed)).verdict is Verdict.DIFFERENT, written["id"]


def test_should_document_dead_letters_that_kafkas_driver_loses(equal: list[Written]) -> None:
    """Those of records that cannot be read, with exactly-once; not those of records that failed in a processor."""

    def reads_on(written: Written) -> bool:
        configs = written["configs"]
        handler = configs.get("deserialization.exception.handler", "")
        return "errors.dead.letter.queue.topic.name" in configs and handler.endswith("LogAndContinueExceptionHandler")

    written = first(equal, reads_on)
    letters = [output for output in written["outputs"] if output["topic"] == "dlq"]
    assert letters != []
    written["configs"]["processing.guarantee"] = "exactly_once_v2"
    written["outputs"] = [output for output in written["outputs"] if output["topic"] != "dlq"]

    judgement = judge(Case(written))
    assert judgement.verdict is Verdict.DOCUMENTED
    assert judgement.reasons == (
        "driver: Kafka's loses dead letters of records that cannot be read, with exactly-once",
    )

    del written["configs"]["processing.guarantee"]
    assert judge(Case(written)).verdict is Verdict.DIFFERENT


# options


def test_should_write_what_differs(equal: list[Written], tmp_path: Path) -> None:
    written = first(equal, lambda each: each.get("dropped_records", 0) > 0)
    written["dropped_records"] += 1
    cases, found = tmp_path / "changed.jsonl", tmp_path / "found.jsonl"
    cases.write_text(json.dumps(written), encoding="utf-8")

    assert main([str(cases), "--different", str(found)]) == 1
    line = json.loads(found.read_text(encoding="utf-8"))
    assert (line["id"], line["kind"]) == (written["id"], written["kind"])
    assert line["differences"] == [
        f"dropped: {written['dropped_records']} in Kafka, {written['dropped_records'] - 1} here"
    ]
