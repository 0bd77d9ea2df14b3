"""The recordings that come with the package: every rebalance led by Kafka 4.3.1 comes out as Kafka's own leader sent
it.
"""

from dataclasses import replace

from assignor.recording import RecordedRebalance
from spark_jobs.demo.replayed_groups import ReplayedGroup, recorded_groups, replay
from tests.known import known


def test_should_equal_what_kafkas_own_leader_sent_to_the_byte() -> None:
    replayed = [replay(name, rebalances) for name, rebalances in recorded_groups()]
    assert replayed == [
        ReplayedGroup("bridge1", 1, 1, 1, ()),
        ReplayedGroup("optimized", 5, 5, 5, ()),
        ReplayedGroup("smoke", 4, 4, 4, ()),
        ReplayedGroup("static", 9, 9, 9, ()),
        ReplayedGroup("threads2", 14, 14, 14, ()),
        ReplayedGroup("upgrade", 16, 16, 16, ()),
        ReplayedGroup("wcflow", 12, 12, 12, ()),
    ]


def test_should_name_the_rebalance_and_the_difference_when_one_is_not_equal() -> None:
    rebalances = dict(recorded_groups())["smoke"]
    replayed = replay("smoke", [swapped(rebalances[-1]), *rebalances[:-1]])
    assert (replayed.rebalances, replayed.equal, replayed.bytes_equal) == (4, 3, 3)
    assert all(difference.startswith(f"{rebalances[-1].id}: ") for difference in replayed.differences)
    assert replayed.differences


def swapped(recorded: RecordedRebalance) -> RecordedRebalance:
    """The same rebalance with two members' assignments exchanged."""
    output = known(recorded.output)
    (first, one), (second, other), *rest = output.assignments.items()
    return replace(recorded, output=replace(output, assignments={first: other, second: one, **dict(rest)}))
