"""Computes the assignment of a Kafka Streams group without a JVM, and explains the place of each task.

`assign(snapshot, now_ms)` computes one rebalance: it decodes the members' subscriptions and encodes their assignments.
The package has no I/O and no clock. The table lists the steps of a rebalance, each with its file:

====  ================================================  ===========================================
step  what happens                                      where
====  ================================================  ===========================================
all   One function carries out steps 0 to 4.            `pipeline/streams_partition_assignor.py`
0     Subscriptions are decoded.                        `protocol/`
0     Subscriptions are grouped by process.             `clients/client_metadata.py`
1     Repartition topics are counted and checked.       `topology/internal_topics.py`
2     Tasks are made from partitions.                   `topology/partition_grouper.py`
2     Changelog topics are counted and checked.         `topology/internal_topics.py`
2     Previous tasks and lags of clients are computed.  `clients/client_state.py`
2     Tasks are assigned to processes.                  `task_assignors/`
3     The partitions of each host are listed.           `pipeline/consumer_assignments.py`
4     Tasks are assigned to threads.                    `pipeline/tasks_to_threads.py`
4     The assignment of each member is encoded.         `pipeline/consumer_assignments.py`
--    A rebalance is read or written as a document.     `recording/`
--    The reason for the place of a task is given.      `task_assignors/decisions.py`, `explain.py`
--    Java's hash order and heaps are reproduced.       `java/`
--    All errors are defined.                           `errors.py`
====  ================================================  ===========================================

The separate package `rebalance_analysis` works with recorded rebalances. Importing `assignor` is cheap: each name is
loaded when it is first used.
"""

from typing import TYPE_CHECKING

from assignor.names.lazy_names import LazyNames
from assignor.names.moved_modules import MOVED_FROM_THE_CORE, name_new_modules

if TYPE_CHECKING:
    from assignor.configs import AssignmentConfigs as AssignmentConfigs
    from assignor.errors import AssignorFault as AssignorFault
    from assignor.errors import DecodeError as DecodeError
    from assignor.errors import InputError as InputError
    from assignor.errors import KafkaError as KafkaError
    from assignor.errors import NotBuiltYet as NotBuiltYet
    from assignor.explain import Explanation as Explanation
    from assignor.explain import explain_placement as explain_placement
    from assignor.explain import explain_rebalance as explain_rebalance
    from assignor.pipeline import assign as assign
    from assignor.pipeline.snapshot import CreatedTopic as CreatedTopic
    from assignor.pipeline.snapshot import Member as Member
    from assignor.pipeline.snapshot import RebalanceResult as RebalanceResult
    from assignor.pipeline.snapshot import RebalanceSnapshot as RebalanceSnapshot
    from assignor.recording import parse_placement as parse_placement
    from assignor.recording import parse_rebalance as parse_rebalance
    from assignor.recording import placement_output as placement_output
    from assignor.recording import rebalance_document as rebalance_document
    from assignor.recording import rebalance_output as rebalance_output
    from assignor.task_assignors.base import ClientPlacement as ClientPlacement
    from assignor.task_assignors.base import Placement as Placement
    from assignor.task_assignors.base import PlacementClient as PlacementClient
    from assignor.task_assignors.base import PlacementProblem as PlacementProblem
    from assignor.task_assignors.base import TaskAssignor as TaskAssignor
    from assignor.topology.cluster import Broker as Broker
    from assignor.topology.cluster import Cluster as Cluster
    from assignor.topology.cluster import TopicMetadata as TopicMetadata
    from assignor.topology.group_topology import GroupTopology as GroupTopology
    from assignor.types import HostInfo as HostInfo
    from assignor.types import ProcessId as ProcessId
    from assignor.types import TaskId as TaskId
    from assignor.types import TopicPartition as TopicPartition

_LAZY = LazyNames(globals())
__all__ = [*_LAZY.home_of]
__getattr__ = _LAZY.load
__dir__ = _LAZY.listed
name_new_modules(__path__, MOVED_FROM_THE_CORE)
