"""The public names of a package, as directives for autodoc, by what a reader wants to do with them."""

import inspect
import re
from collections import Counter
from collections.abc import Mapping
from importlib import import_module
from types import GenericAlias
from typing import get_origin

from sphinx.errors import ExtensionError

from assignor.names.lazy_names import LazyNames
from docs._ext.markdown import fenced

SECTIONS: dict[str, Mapping[str, str]] = {
    "streams_runtime": {
        "Build a topology": """
            StreamsBuilder KStream KTable GlobalKTable KGroupedStream CogroupedKStream KGroupedTable TimeWindows
            SlidingWindows SessionWindows UnlimitedWindows JoinWindows EmitStrategy TimeWindowedSerde
            SessionWindowedSerde Suppressed BufferConfig Materialized Topology
        """,
        "Processors": """
            Processor ProcessorContext FixedKeyProcessor ValueTransformer ProcessingContext Record RecordColumns
            RecordMetadata Headers PunctuationType Cancellable TimestampExtractor TopicNameExtractor StreamPartitioner
            ExceptionHandler FailedRecord FailedOutput HandlerResponse fail log_and_continue dead_letter
            dead_letter_and_fail
        """,
        "Timestamps": """
            fail_on_invalid_timestamp log_and_skip_on_invalid_timestamp use_partition_time_on_invalid_timestamp
            wallclock_timestamp
        """,
        "Stores": """
            key_value_store timestamped_key_value_store versioned_key_value_store window_store timestamped_window_store
            session_store StoreBuilder KeyValueStore TimestampedKeyValueStore VersionedKeyValueStore VersionedRecord
            WindowStore SessionStore Windowed ValueAndTimestamp
        """,
        "Serdes": """
            STRING BOOLEAN SHORT INTEGER LONG FLOAT DOUBLE UUID VOID JSON BYTES ListSerde Serde Serdes TopicSerde
            AvroSerde JsonSchemaSerde ProtobufSerde
        """,
        "Applications and their configs": """
            Application load_application StreamsConfig ProcessingGuarantee OffsetReset ThreadErrorResponse
        """,
        "Run instances": """
            LocalRun StreamsInstance InstanceOptions InstanceState RestoreListener RestoreProgress
            CoordinatorProcess CoordinatorClient GroupMembershipOperation group_body
        """,
        "Ask the stores of running instances": """
            StateStoreClient StoreValue StoreWindows WindowValue StoreSessions SessionValue StoreVersions VersionValue
            CopyAnswered KeyQueryMetadata IsolationLevel QueryFailed
        """,
        "Topics": "RecordProducer read_topic ConsumedRecord open_log NewTopic TaskId TopicPartition",
        "Test a topology": "TopologyTestDriver InputTopic OutputTopic NodeRun RunsHow",
        "Errors": "StreamsRuntimeError InputError TopologyError InvalidStateStore LockError ProcessingFailed",
    },
    "assignor": {
        "Run a rebalance": """
            assign RebalanceSnapshot Member RebalanceResult AssignmentConfigs GroupTopology CreatedTopic
        """,
        "Read and write recordings": """
            parse_rebalance rebalance_document rebalance_output parse_placement placement_output
        """,
        "Reasons": "explain_rebalance explain_placement Explanation",
        "Write a task assignor": "TaskAssignor PlacementProblem PlacementClient Placement ClientPlacement",
        "Clusters, processes and tasks": "Cluster Broker TopicMetadata HostInfo ProcessId TaskId TopicPartition",
        "Errors": "AssignorFault InputError DecodeError KafkaError NotBuiltYet",
    },
    "assignor.assignment": {
        "Write your own": "CustomTaskAssignor AssignmentError StickyTaskAssignor",
        "What it sees": "ApplicationState KafkaStreamsState TaskInfo TaskTopicPartition",
        "What it answers": "TaskAssignment KafkaStreamsAssignment AssignedTask AssignedTaskType",
        "What helps": """
            identity_assignment default_standby_task_assignment optimize_rack_aware_active_tasks
            optimize_rack_aware_standby_tasks RackAwareOptimizationParams validate_task_assignment
        """,
    },
    "spark_jobs.workers": {"Run instances on Spark": "run with_defaults"},
}
"""Headings of a package's page, and the public names under each, in the order in which a reader meets them."""
_OPTIONS = "   :members:\n   :undoc-members:\n   :member-order: bysource\n"


def public_names(package: str) -> str:
    """Autodoc's directives for all names of `package.__all__`. Raises ExtensionError unless each has one heading."""
    module = import_module(package)
    headed = Counter(name for names in SECTIONS[package].values() for name in names.split())
    if wrong := sorted((Counter(module.__all__) - headed) + (headed - Counter(module.__all__))):
        raise ExtensionError(f"{package}: public names without a heading of their own: {', '.join(wrong)}")
    lazy: LazyNames | None = getattr(module, "_LAZY", None)
    homes: Mapping[str, str] = lazy.home_of if lazy else {}
    parts = []
    for title, names in SECTIONS[package].items():
        directives = [_directive(package, name, getattr(module, name), homes.get(name)) for name in names.split()]
        parts.append(f"## {title}\n\n{fenced(chr(10).join(directives), '{eval-rst}')}")
    return "\n".join(parts)


def _directive(package: str, name: str, found: object, home: str | None) -> str:
    """`home`: the module of the name; None if it is not known. A value does not show its module."""
    home = home or found.__module__
    options = (
        "" if home.partition(".")[0] == package.partition(".")[0] else "   :no-index:\n"
    )  # it is indexed on its own package's page
    if isinstance(found, type) and not isinstance(found, GenericAlias):
        return f".. autoclass:: {package}.{name}\n{options}{'' if issubclass(found, tuple) else _OPTIONS}"
    if inspect.isfunction(found):
        return f".. autofunction:: {package}.{name}\n{options}"
    if get_origin(found) is not None:  # the name of a type, which has no docstring of its own
        return f".. py:data:: {package}.{name}\n{options}\n   The type ``{_short(found)}``.\n"
    return f".. autodata:: {package}.{name}\n{options}   :no-value:\n"


def _short(alias: object) -> str:
    return re.sub(r"(?:\w+\.)+(?=\w)", "", str(alias))
