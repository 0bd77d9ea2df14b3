"""Whether a rack-aware strategy can work at all, and what a copy of a task costs on each client.

A copy costs `traffic cost` for each of its partitions that has no replica on the client's rack, and `non-overlap cost`
when the client does not have the copy already. Source: `RackAwareTaskAssignor.canEnableRackAwareAssignor`,
`validateClientRack`, `getCost`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from assignor.configs import AssignmentConfigs
from assignor.errors import IllegalStateError
from assignor.java.order import hash_set_order, int32, topic_partition_hash
from assignor.task_assignors.base import PlacementProblem
from assignor.task_assignors.rack_information import RackInformation
from assignor.types import ProcessId, Role, TaskId, TopicPartition

Foreign = tuple[int, ...]
"""For each client: how many partitions of a task have no replica on its rack."""


@dataclass(frozen=True, slots=True)
class Costs:
    """`traffic`: of a partition that is read across racks; `non_overlap`: of a copy that moves."""

    traffic: int
    non_overlap: int

    def with_configs(self, configs: AssignmentConfigs) -> Costs:
        """`rack.aware.assignment.traffic_cost` and `non_overlap_cost` where they are set; otherwise these defaults."""
        traffic, non_overlap = configs.rack_aware_traffic_cost, configs.rack_aware_non_overlap_cost
        return Costs(
            self.traffic if traffic is None else traffic, self.non_overlap if non_overlap is None else non_overlap
        )

    def of(self, foreign_partitions: int, has_copy: bool) -> int:
        """Wraps as Java's int does."""
        return int32(foreign_partitions * self.traffic + (0 if has_copy else self.non_overlap))


STATELESS_COSTS = Costs(traffic=1, non_overlap=0)
"""Whatever is configured: a task without state can move at any time."""


@dataclass(slots=True)
class RackTraffic:
    """`racks`: of the clients, which are numbered in the order of their process ids."""

    information: RackInformation
    racks: tuple[str, ...]
    _foreign: dict[tuple[TaskId, bool], Foreign] = field(default_factory=dict)
    _by_racks: dict[tuple[int, ...], Foreign] = field(default_factory=dict)

    @classmethod
    def of(cls, problem: PlacementProblem, processes: Sequence[ProcessId]) -> RackTraffic | None:
        """None when no strategy is configured, or it cannot work: a client has no rack, or a partition's are not known.

        `processes`: sorted.
        """
        information = problem.racks
        if not problem.configs.rack_aware or information is None:
            return None
        racks = tuple([problem.clients[process].rack for process in processes])
        known = tuple([rack for rack in racks if rack is not None])
        if len(known) != len(racks) or not information.knows_sources():
            return None
        if problem.configs.num_standby_replicas != 0 and not information.knows_changelogs():
            return None
        return cls(information, known)

    def foreign_partitions(self, task: TaskId, role: Role) -> Foreign:
        """Of the source partitions for an active copy, of the changelog partitions for a standby.

        Raises IllegalStateError for a task without partitions, or a partition whose racks are not known.
        """
        is_standby = role is Role.STANDBY
        found = self._foreign.get((task, is_standby))
        if found is None:
            found = self._foreign[task, is_standby] = self._count_foreign(task, is_standby)
        return found

    def _count_foreign(self, task: TaskId, is_standby: bool) -> Foreign:
        partitions = _partitions_of(self.information, task, is_standby)
        if not partitions:
            raise IllegalStateError(f"Task {task} has no TopicPartitions")
        replicas = [self.information.racks_of(partition) for partition in partitions]
        if None in replicas:
            raise self._not_known(partitions)
        by_rack: Mapping[str, int] = {
            rack: sum(rack not in racks for racks in replicas if racks is not None) for rack in set(self.racks)
        }
        foreign = tuple([by_rack[rack] for rack in self.racks])
        return self._by_racks.setdefault(foreign, foreign)

    def _not_known(self, partitions: Sequence[TopicPartition]) -> IllegalStateError:
        first = next(
            partition
            for partition in hash_set_order(partitions, topic_partition_hash)
            if self.information.racks_of(partition) is None
        )
        return IllegalStateError(
            f"TopicPartition {first} has no rack information. Maybe forgot to call canEnableRackAwareAssignor first"
        )


def _partitions_of(information: RackInformation, task: TaskId, is_standby: bool) -> tuple[TopicPartition, ...]:
    by_task = information.changelog_partitions if is_standby else information.task_partitions
    return by_task.get(task, ())
