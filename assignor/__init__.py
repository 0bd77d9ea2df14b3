"""Computes the assignment of a Kafka Streams group without a JVM, and explains why each task is placed on its client.

`assign(snapshot, now_ms)` computes one rebalance: it decodes the members' subscriptions and encodes their assignments.
The package has no I/O and no clock. A rebalance has steps 0 to 4. This list names the files of each step:

- `pipeline/streams_partition_assignor.py` runs all steps, from 0 to 4.
- `protocol/` decodes the subscriptions in step 0, and encodes the assignments in step 4.
- `clients/client_metadata.py` groups the subscriptions by process in step 0.
- `topology/internal_topics.py` counts and checks the repartition topics in step 1, and the changelogs in step 2.
- `topology/partition_grouper.py` makes tasks from partitions in step 2.
- `clients/client_state.py` computes the previous tasks and the lags of clients in step 2.
- `task_assignors/` assigns tasks to processes in step 2.
- `pipeline/consumer_assignments.py` lists the partitions of each host in step 3, and makes the assignments in step 4.
- `pipeline/tasks_to_threads.py` assigns tasks to threads in step 4.

Other files serve all steps:

- `recording/` reads and writes a rebalance as a document.
- `task_assignors/decisions.py` records why each task is placed on its client, and `explain.py` explains this in
  sentences.
- `java/` reproduces the hash order and the heaps of Java.
- `errors.py` defines all errors.

The separate package `rebalance_analysis` works with recorded rebalances. Importing `assignor` is cheap: each name is
loaded when it is first used.
"""

from typing import TYPE_CHECKING

from assignor.names.lazy_names import LazyNames

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
