"""Kafka Streams' task placement, outside the JVM: subscription bytes in, assignment bytes out, with the reasons.

`assign(snapshot, now_ms)` is one rebalance. The whole package is values in, values out; only `commands` and `reading`
do I/O. Where each step is done:

====  =============================================================  ================================================
step  what happens                                                   where
====  =============================================================  ================================================
all   steps 0 to 4 in one function                                   `pipeline.py`
0-2   the group's members and tasks, for the leader and a what-if    `group_tasks.py`
0     bytes to values; which versions a group speaks                 `protocol/`
0     subscriptions gathered by process                              `clients/client_metadata.py`
1     repartition topics counted, checked, created                   `topology/repartition_topics.py`
2     partitions into tasks                                          `topology/partition_grouper.py`
2     changelog topics                                               `topology/changelog_topics.py`
2     end offsets, previous tasks, lags                              `clients/end_offsets.py`, `client_state.py`,
                                                                     `task_lags.py`
2     tasks to processes                                             `task_assignors/`
3     which host has which partitions                                `threads/hosts.py`
4     tasks to threads                                               `threads/tasks_to_threads.py`
4     held back until revoked, probing, bytes of every member        `threads/consumer_assignments.py`
--    one rebalance as one document; equal to a recorded one or not  `recording/`, `compare.py`
--    why every task is where it is                                  `decisions.py`, `explain.py`
--    one recorded line run again; what it did, in numbers           `rerun.py`, `measures.py`
--    the same rebalance under other conditions                      `what_if/`
--    what a group does next, until it is stable                     `simulate/`
--    what happened to a task over recorded rebalances               `story/`
--    Java's hash order and heap, where Kafka's results follow them  `java/`
--    every error                                                    `errors.py`
--    recordings from files and services; the program `assignor`     `reading/`, `commands/`
====  =============================================================  ================================================
"""

from assignor.cluster import Broker, Cluster, TopicMetadata
from assignor.configs import AssignmentConfigs
from assignor.errors import AssignorFault, DecodeError, InputError, KafkaError, NotBuiltYet
from assignor.explain import Explanation, explain_placement, explain_rebalance
from assignor.pipeline import assign
from assignor.recording import parse_placement, parse_rebalance, placement_output, rebalance_document, rebalance_output
from assignor.snapshot import CreatedTopic, Member, RebalanceResult, RebalanceSnapshot
from assignor.task_assignors.base import ClientPlacement, Placement, PlacementClient, PlacementProblem, TaskAssignor
from assignor.topology.group_topology import GroupTopology
from assignor.types import HostInfo, ProcessId, TaskId, TopicPartition

__all__ = [
    "AssignmentConfigs",
    "AssignorFault",
    "Broker",
    "ClientPlacement",
    "Cluster",
    "CreatedTopic",
    "DecodeError",
    "Explanation",
    "GroupTopology",
    "HostInfo",
    "InputError",
    "KafkaError",
    "Member",
    "NotBuiltYet",
    "Placement",
    "PlacementClient",
    "PlacementProblem",
    "ProcessId",
    "RebalanceResult",
    "RebalanceSnapshot",
    "TaskAssignor",
    "TaskId",
    "TopicMetadata",
    "TopicPartition",
    "assign",
    "explain_placement",
    "explain_rebalance",
    "parse_placement",
    "parse_rebalance",
    "placement_output",
    "rebalance_document",
    "rebalance_output",
]
