"""Which recorded rebalances a sweep starts from, and what becomes of the others."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from assignor.errors import InputError
from rebalance_analysis.reading.lines import read_lines
from rebalance_analysis.sweep.episodes import Episodes, SpooledLines, gather_episodes, read_rejects, read_spooled
from spark_engine.batch.work import LINES_A_CHUNK, Reject
from tests.checkout import VECTORS
from tests.program import write_lines
from tests.recorded import PLACEMENTS, RECORDINGS, documents


def gathered(directory: Path, *inputs: str) -> Episodes:
    return gather_episodes(read_lines(inputs), directory / "episodes")


def of_lines(directory: Path, lines: Sequence[object]) -> Episodes:
    return gathered(directory, write_lines(directory / "lines.jsonl", list(lines)))


def ids(episodes: Episodes) -> dict[str, list[str]]:
    return {group.group_id: [json.loads(line)["id"] for line in read_spooled(group.lines)] for group in episodes.groups}


def rejects(episodes: Episodes) -> list[Reject]:
    return [reject for block in episodes.rejects for reject in read_rejects(block)]


def recording(name: str) -> list[dict[str, Any]]:
    return documents(f"recordings/{name}.jsonl.gz")


def test_should_start_where_something_happened_to_a_group(tmp_path: Path) -> None:
    episodes = gathered(tmp_path, *(str(VECTORS / name) for name in RECORDINGS))

    assert {group.group_id: (group.rebalances, group.episodes) for group in episodes.groups} == {
        "bridge1": (6, 5),
        "optimized": (5, 3),
        "racks": (6, 3),
        "smoke": (4, 2),
        "static": (9, 3),
        "threads2": (14, 6),
        "upgrade": (16, 8),
        "wcflow": (12, 3),
    }
    assert episodes.total == 33
    assert ids(episodes)["smoke"] == ["smoke.1", "smoke.3"]
    assert rejects(episodes) == []


def test_should_bring_rebalances_of_all_inputs_into_the_order_they_happened(tmp_path: Path) -> None:
    rebalances = recording("threads2")
    in_order = ids(of_lines(tmp_path, list(rebalances)))

    backwards = write_lines(tmp_path / "a.jsonl", list(reversed(rebalances[5:])))
    first_rebalances = write_lines(tmp_path / "b.jsonl", list(rebalances[:5]))

    assert ids(gathered(tmp_path, backwards, first_rebalances)) == in_order


def test_should_take_a_rebalance_for_an_episode_when_only_the_threads_of_a_process_are_others(tmp_path: Path) -> None:
    before, after = recording("threads2")[-1], recording("threads2")[-1]
    after["id"], after["generation_id"] = "one thread less", before["generation_id"] + 1
    after["input"]["members"].popitem()
    again = {**after, "id": "the same", "generation_id": after["generation_id"] + 1}

    assert ids(of_lines(tmp_path, [before, after, again])) == {"threads2": [before["id"], "one thread less"]}


def test_should_take_the_same_rebalance_read_twice_for_one_episode(tmp_path: Path) -> None:
    smoke = str(VECTORS / "recordings/smoke.jsonl.gz")

    assert ids(gathered(tmp_path, smoke, smoke)) == {"smoke": ["smoke.1", "smoke.3"]}


def test_should_take_every_placement_problem_for_an_episode_of_its_chain(tmp_path: Path) -> None:
    _, first, second, *_, alone = documents(PLACEMENTS[0])[:9]
    chain = first["meta"]["chain"]
    assert second["meta"]["chain"] == chain
    del alone["meta"]

    found = ids(of_lines(tmp_path, [first, second, alone]))

    assert found == {chain: [first["id"], second["id"]], alone["id"]: [alone["id"]]}


def test_should_reject_what_cannot_be_used_with_its_reason_and_go_on(tmp_path: Path) -> None:
    good = recording("smoke")[0]
    unreadable = json.loads(json.dumps(recording("smoke")[1]))
    member = next(iter(unreadable["input"]["members"]))
    unreadable["input"]["members"][member]["subscription"] = "AAAA"
    nobody = {**good, "input": {**good["input"], "members": {}}}
    file = write_lines(tmp_path / "lines.jsonl", [{"format": "other"}, unreadable, nobody])
    with Path(file).open("ab") as stream:
        stream.write(b"{not json\n\xff\n" + json.dumps(good).encode() + b"\n")

    episodes = gathered(tmp_path, file)

    assert ids(episodes) == {"smoke": ["smoke.1"]}
    found = rejects(episodes)
    assert [(reject.where, reject.kind) for reject in found] == [
        (f"{file}:{number}", "unusable") for number in range(1, 6)
    ]
    assert [reject.reason for reject in found][:3] == [
        "format: must be rebalance/1, placement/1 or streams_group/1, not 'other'",
        f"subscription of member {member}: ConsumerProtocolSubscription: "
        "count of topics needs 4 bytes but 1 remain at byte 2",
        "input.members: at least one member is needed",
    ]
    assert found[0].line == '{"format": "other"}'
    assert [reject.line for reject in found][3:] == ["{not json", "\\xff"]


def test_should_know_the_same_lines_by_their_digest(tmp_path: Path) -> None:
    smoke = recording("smoke")
    other = {**smoke[0], "id": "other"}

    digests = [of_lines(tmp_path, lines).digest for lines in ([*smoke], [*smoke], [other, *smoke[1:]], [{}, *smoke])]

    assert digests[0] == digests[1]
    assert len(set(digests)) == 3


def test_should_put_no_more_rejects_together_than_a_chunk_has_lines(tmp_path: Path) -> None:
    episodes = of_lines(tmp_path, [{}] * (LINES_A_CHUNK + 3))

    assert [block.count for block in episodes.rejects] == [LINES_A_CHUNK, 3]
    assert [reject.where.rsplit(":")[-1] for reject in rejects(episodes)] == [
        str(number) for number in range(1, LINES_A_CHUNK + 4)
    ]


def test_should_say_that_the_output_is_not_shared_when_a_chunk_does_not_find_its_lines(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--output has to be shared with executors"):
        list(read_spooled(SpooledLines(str(tmp_path / "elsewhere"), 0, 1)))
