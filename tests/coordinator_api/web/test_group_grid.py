"""A group's grid: made of its document, a part of it, and how small it is for the script."""

import json
from typing import Any

from coordinator_api.views import names_with_ended
from coordinator_api.web.grid import Chip, GroupGrid, grid_document, group_grid, pack_grid
from coordinator_api.web.group_page import GridFilter, filtered, sections

FIRST, SECOND = "00000000-0000-0000-0000-00000000000a", "00000000-0000-0000-0000-00000000000b"


def member(member_id: str, process_id: str, client_id: str, **changes: object) -> dict[str, Any]:
    return {
        "member_id": member_id,
        "client_id": client_id,
        "group_instance_id": None,
        "process_id": process_id,
        "rack": None,
        "client_tags": {},
        "user_endpoint": None,
        "fetched": True,
        "away_until_ms": None,
        **changes,
    }


def copy(task: str, role: str, member_id: str, lag: int | None, end: int | None = 1_000) -> dict[str, Any]:
    return {"task": task, "role": role, "member_id": member_id, "lag": lag, "end_offset_sum": end, "left_ms": None}


def document(members: list[dict[str, Any]], tasks: list[dict[str, Any]]) -> dict[str, Any]:
    configs = {"acceptable.recovery.lag": "100"}
    return {"configs": configs, "members": members, "tasks": tasks, "held_rebalance": None}


def of_two() -> dict[str, Any]:
    return document(
        [
            member("m-10", SECOND, "app-10-StreamThread-1", rack="b"),
            member("m-2b", FIRST, "app-2-StreamThread-2", rack="a", client_tags={"zone": "z1"}),
            member("m-2a", FIRST, "app-2-StreamThread-1", rack="a", client_tags={"zone": "z1"}),
        ],
        [
            copy("0_0", "active", "m-2a", -2),
            copy("0_10", "active", "m-2a", None, None),
            copy("0_2", "standby", "m-2b", 40),
            copy("0_2", "active", "m-10", -3),
            copy("1_0", "warm-up", "m-10", 600),
        ],
    )


def words(grid: GroupGrid) -> dict[str, str]:
    return {
        f"{chip.role} {chip.task}": chip.text for row in grid.rows for thread in row.threads for chip in thread.chips
    }


def test_should_have_a_row_for_each_instance_with_its_threads_in_the_order_of_their_numbers() -> None:
    grid = group_grid(of_two())

    rows = [(row.name, row.rack, row.tags, [thread.name for thread in row.threads]) for row in grid.rows]
    assert rows == [("app-2", "a", ("zone=z1",), ["thread 1", "thread 2"]), ("app-10", "b", (), ["thread 1"])]
    assert [row.counts for row in grid.rows] == [(2, 1, 0), (1, 0, 1)]
    assert (grid.subtopologies, grid.racks, grid.tags, grid.copies) == (("0", "1"), ("a", "b"), ("zone=z1",), 5)
    assert grid.unplaced == ("1_0",)


def test_should_say_of_each_copy_how_far_it_is() -> None:
    grid = group_grid(of_two())

    assert words(grid) == {
        "active 0_0": "runs",
        "active 0_10": "runs",
        "standby 0_2": "caught up, 40 records behind",
        "active 0_2": "how far behind is not known",
        "warm-up 1_0": "600 records left of 1,000, time not known",
    }
    assert [(instance, chip.done) for instance, chip in grid.restoring] == [("app-10", 40)]


def test_should_show_what_a_copy_has_left_with_a_time() -> None:
    seen = of_two()
    seen["tasks"][3]["lag"] = 40
    for restoring in seen["tasks"][2:]:
        restoring["left_ms"] = 11_100

    grid = group_grid(seen)

    assert grid.restoring == (
        ("app-10", Chip("1_0", "warm-up", "behind", 600, 1_000, 11_100)),
        ("app-10", Chip("0_2", "active", "behind", 40, 1_000, 11_100)),
    )
    assert words(grid)["warm-up 1_0"] == "600 records left of 1,000, about 12 s"
    assert words(grid)["active 0_2"] == "40 records left of 1,000, about 12 s", "no lag of an active task is acceptable"
    assert words(grid)["standby 0_2"] == "caught up, 40 records behind"


def test_should_not_say_that_a_task_runs_whose_owner_has_not_heard_of_it() -> None:
    waiting = document([member("m", FIRST, "c", fetched=False)], [copy("0_0", "active", "m", None, None)])

    assert words(group_grid(waiting)) == {"active 0_0": "has no state"}


def test_should_call_an_instance_by_its_process_where_its_client_ids_do_not_name_it() -> None:
    third = "0360fe55-0000-0000-0000-000000000000"
    unnamed = [member("m", FIRST, f"app-{FIRST}-StreamThread-1"), member("n", SECOND, ""), member("o", third, "")]

    assert [row.name for row in group_grid(document(unnamed, [])).rows] == [FIRST, SECOND, "0360fe55"]


def test_should_tell_instances_with_the_same_client_id_apart() -> None:
    third = "0360fe55-0000-0000-0000-000000000000"
    alike = [member("m", third, "app-StreamThread-1"), member("n", FIRST, "app-StreamThread-1")]

    assert [row.name for row in group_grid(document(alike, [])).rows] == ["app (00000000)", "app (0360fe55)"]


def test_should_name_an_instance_that_ended_by_client_id_and_process() -> None:
    ends: list[dict[str, Any]] = [{"process_id": SECOND, "client_id": "app"}, {"process_id": FIRST, "client_id": None}]

    assert names_with_ended({}, ends[:1]) == {SECOND: "app (00000000, ended)"}
    assert names_with_ended({SECOND: "app"}, ends) == {SECOND: "app", FIRST: f"{FIRST} (ended)"}


def test_should_show_the_part_that_was_asked_for() -> None:
    grid = group_grid(of_two())

    def shown(**asked: str) -> list[tuple[str, list[str]]]:
        part = filtered(grid, GridFilter.of(asked))
        return [(row.name, [chip.task for thread in row.threads for chip in thread.chips]) for row in part.rows]

    assert shown(subtopology="1") == [("app-10", ["1_0"])]
    assert shown(show="behind") == [("app-10", ["1_0"])]
    assert shown(show="standby") == [("app-2", ["0_2"])]
    assert shown(rack="a") == shown(tag="zone=z1") == [("app-2", ["0_0", "0_10", "0_2"])]
    assert shown(q="APP-10") == [("app-10", ["0_2", "1_0"])]
    assert shown(q="0_10") == [("app-2", ["0_10"])]
    assert shown(q="nothing") == []
    assert shown(silent_members="of") == shown()


def test_should_put_together_what_has_the_same_rack_or_tag() -> None:
    grid = group_grid(of_two())

    def headings(by: str) -> list[tuple[str, list[str]]]:
        asked = GridFilter(by=by)
        return [(heading, [row.name for row in rows]) for heading, rows in sections(filtered(grid, asked), asked)]

    assert headings("") == [("", ["app-2", "app-10"])]
    assert headings("rack") == [("a", ["app-2"]), ("b", ["app-10"])]
    assert headings("tag:zone") == [("no zone", ["app-10"]), ("zone=z1", ["app-2"])]


def test_should_say_to_the_script_no_more_than_it_shows() -> None:
    of_first = [["thread 1", "m-2a", 1, ["A0_0", "A0_10"]], ["thread 2", "m-2b", 1, [["S0_2", "c", 40, 1_000]]]]
    of_second = [["thread 1", "m-10", 1, [["A0_2", "u"], ["W1_0", "b", 600, 1_000]]]]
    assert grid_document(group_grid(of_two())) == {
        "rows": [
            {
                "id": FIRST,
                "name": "app-2",
                "rack": "a",
                "tags": ["zone=z1"],
                "where": f"process {FIRST} · rack a · zone=z1",
                "threads": of_first,
            },
            {
                "id": SECOND,
                "name": "app-10",
                "rack": "b",
                "tags": [],
                "where": f"process {SECOND} · rack b",
                "threads": of_second,
            },
        ],
        "acceptable_lag": 100,
    }


def test_should_be_a_fraction_of_the_document_for_ten_thousand_tasks_on_two_hundred_instances() -> None:
    members = [
        member(f"m-{at}", f"{at:08x}-0000-0000-0000-000000000000", f"n-{at}-StreamThread-1") for at in range(200)
    ]
    tasks = [copy(f"0_{at}", "active", f"m-{at % 200}", -2) for at in range(10_000)]
    tasks += [copy(f"0_{at}", "standby", f"m-{(at + 1) % 200}", at) for at in range(10_000)]
    large = document(members, tasks)

    grid, whole = group_grid(large), len(json.dumps(large))
    packed = pack_grid(grid)

    assert not grid.is_small
    assert len(packed.content) < whole / 3
    assert len(packed.packed) < whole / 12


def test_should_say_that_an_instance_is_away_and_not_that_its_tasks_are_restored() -> None:
    members = [member("m", FIRST, "app", fetched=False, away_until_ms=5_000), member("n", SECOND, "bpp")]
    away = document(members, [copy("0_0", "active", "m", 900), copy("0_1", "active", "n", -2)])

    grid = group_grid(away)
    packed = grid_document(grid)["rows"]

    assert [(row.name, row.away_until_ms) for row in grid.rows] == [("app", 5_000), ("bpp", None)]
    assert words(grid) == {"active 0_0": "waits for its instance, which is away", "active 0_1": "runs"}
    assert grid.restoring == ()
    assert [(row.get("away_until_ms"), row["threads"][0][2:]) for row in packed] == [  # type: ignore[attr-defined]
        (5_000, [1, [["A0_0", "a"]]]),
        (None, [1, ["A0_1"]]),
    ]


def test_should_say_that_members_go_on_while_a_rebalance_waits_for_approval() -> None:
    held = document([member("m", FIRST, "app", fetched=False)], [copy("0_0", "active", "m", None, None)])

    assert [each.fetched for row in group_grid(held).rows for each in row.threads] == [False]
    grid = group_grid({**held, "held_rebalance": {"generation_id": 2}})

    assert [each.fetched for row in grid.rows for each in row.threads] == [True]
    assert words(grid) == {"active 0_0": "runs"}
