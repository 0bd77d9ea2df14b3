"""Several coordinators in simulated time: what each history below has to show, besides that no rule is broken."""

from __future__ import annotations

from tests.simulation.coordinator import SimulatedCoordinator
from tests.simulation.database import Rows
from tests.simulation.schedule import parse
from tests.simulation.world import World

LEASE_MS = 3_000
HEAD = f"""simulated seed=1 until=20000 compaction=60
2 coordinators, lease timeout {LEASE_MS} ms
group 1: exactly-once, 1 standbys, initial delay 0 ms, rebalance timeout 8000 ms
group 2: exactly-once, 1 standbys, initial delay 0 ms, rebalance timeout 8000 ms
process 1 of group 1: 1 dynamic members, from 200 ms
process 2 of group 2: 1 dynamic members, from 200 ms
"""


class History:
    """Up to some time, and then to its end."""

    def __init__(self, faults: str) -> None:
        self.world = World(parse(HEAD + faults))

    def until(self, at_ms: int) -> None:
        self.world.timeline.run_until(at_ms, self.world.rules.check)

    @property
    def rows(self) -> Rows:
        assert self.world.database.table is not None
        return self.world.database.table

    def serving(self, group_id: str) -> SimulatedCoordinator | None:
        found = [one for one in self.world.coordinators if one.serves(group_id)]
        assert len(found) <= 1
        return found[0] if found else None

    def generations(self) -> list[int]:
        return [self.world.image_of(group_id).generation_id for group_id in ("group-1", "group-2")]

    def place_of(self, group_id: str) -> str | None:
        serving = self.serving(group_id)
        return None if serving is None else serving.url


def test_should_share_the_groups_and_send_everybody_to_their_owners() -> None:
    history = History("")
    history.until(8_000)
    assert {history.place_of("group-1"), history.place_of("group-2")} == {place.url for place in history.world.places}
    assert all(len(history.world.image_of(group_id).members) == 1 for group_id in ("group-1", "group-2"))
    history.world.run()


def test_should_serve_the_groups_of_a_dead_coordinator_within_the_lease_timeout_and_evict_nobody() -> None:
    history = History("8000 coordinator 1 is killed, and is back after 12000 ms")
    history.until(7_900)
    before = history.generations()
    history.until(8_000 + LEASE_MS)
    second = history.world.places[1].url
    assert history.place_of("group-1") == history.place_of("group-2") == second
    history.until(19_000)
    assert history.generations() == before, "nobody was evicted, so nothing was rebalanced"
    history.world.run()


def test_should_have_a_former_owner_answer_nothing() -> None:
    history = History("8000 coordinator 1 is frozen for 9000 ms")
    history.until(7_900)
    first = history.world.places[0].coordinator
    assert first is not None
    former = first.lease.coordinator_id
    history.until(16_990)
    assert history.place_of("group-1") == history.place_of("group-2") == history.world.places[1].url
    history.until(17_001)
    assert not first.may_answer()
    history.until(18_000)
    assert first.lease.coordinator_id != former, "it has entered under another id"
    history.world.run()


def test_should_hand_all_over_at_a_stop_in_good_order() -> None:
    history = History("8000 coordinator 1 ends in good order, and is back after 12000 ms")
    history.until(9_000)
    assert history.place_of("group-1") == history.place_of("group-2") == history.world.places[1].url
    assert history.rows.renewed_ms.keys() > history.rows.coordinators.keys(), "its row is gone"
    history.world.run()


def test_should_move_a_group_to_who_has_less() -> None:
    history = History(
        "2000 coordinator 1 is killed, and is back after 4000 ms\n"
        "11000 group 1 is taken for 20 members larger for 5000 ms, so that others move\n"
    )
    history.until(5_900)
    assert history.place_of("group-1") == history.place_of("group-2") == history.world.places[1].url
    history.until(11_000)
    assert {history.place_of("group-1"), history.place_of("group-2")} == {place.url for place in history.world.places}
    history.world.run()


def test_should_end_nobody_because_the_database_was_away() -> None:
    history = History("8000 the database is out of reach for 8000 ms")
    history.until(15_900)
    assert history.place_of("group-1") is history.place_of("group-2") is None
    ids = set(history.rows.coordinators)
    history.until(18_000)
    assert history.serving("group-1") is not None
    assert history.serving("group-2") is not None
    assert set(history.rows.coordinators) == ids
    history.world.run()
