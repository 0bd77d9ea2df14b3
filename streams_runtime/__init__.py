"""A Python runtime for Kafka Streams applications, which runs the tasks that the group assigns to this process.

An application can import everything that it needs from this package. The import of this package is fast, because the
module of a name is loaded when the name is first used. Starting points:

- `StreamsBuilder().stream(topic, STRING, JSON)` begins an application in the DSL (`dsl/`).
- `Topology`, `Processor`, `ProcessorContext` and `Record` are for applications that write their own processors
  (`processors/`).
- `key_value_store`, `window_store` and similar functions make builders of state stores (`state_stores/`).
- `STRING`, `LONG`, `JSON`, `ListSerde`, `AvroSerde` and others are serdes. `Serde` and `Serdes` are for serdes of the
  user (`serdes/`).
- `Topology.describe()` and `Topology.draw(path)` show a topology (`processors/`).
- `TopologyTestDriver(topology)` tests a topology (`local_run/`).
- `Application(topology, configs)` is a topology with its configs (`instance/`, `configs.py`).
- `open_log(bootstrap_servers).create_topics([NewTopic(...)])` creates topics (`logs/`).
- `RecordProducer(log, STRING, JSON)` writes records, and `read_topic(log, topic)` reads records (`logs/`).
- `log_and_continue`, `dead_letter` and every other `ExceptionHandler` decide about bad records
  (`tasks/exception_handling.py`).
- `with LocalRun(application) as run:` tries an application on this machine (`local_run/`).
- `group_body(application)` and `StreamsInstance(application, url)` run an application in this process (`instance/`).
- `assignor workers run --local` runs an application in several processes; without `--local`, it uses Spark
  (`spark_jobs`).
- `StateStoreClient`, and the route `GET /v1/stores/...` of an instance, read the stores of an application (`queries/`).
- `RestoreProgress`, or a `RestoreListener` of the user, watches a restore (`instance/restore/`).

The package has layers: the group protocol is at the top, and the stored bytes are at the bottom. In the folder
`membership/`, `member_machine` makes the decisions of one member. `process_membership` calls the coordinator for all
members of the process. `rebalance_mailbox` passes commands from a member to its stream thread. In the folder
`instance/`, a `stream_thread` runs the steps of `thread_work` in a loop. The steps of `thread_work` run the tasks,
which are in `tasks/`. `instance/restore/` restores the stores of the tasks. The package `logs/` stores all records. The
files in docs/runtime/ describe the behaviour of each layer.
"""

from typing import TYPE_CHECKING

from assignor.names.lazy_names import LazyNames

if TYPE_CHECKING:
    from assignor.errors import InputError as InputError
    from assignor.errors import TopologyError as TopologyError
    from assignor.types import TaskId as TaskId
    from assignor.types import TopicPartition as TopicPartition
    from streams_runtime.common.errors import InvalidStateStore as InvalidStateStore
    from streams_runtime.common.errors import LockError as LockError
    from streams_runtime.common.errors import ProcessingFailed as ProcessingFailed
    from streams_runtime.common.errors import StreamsRuntimeError as StreamsRuntimeError
    from streams_runtime.common.record_columns import RecordColumns as RecordColumns
    from streams_runtime.common.records import Headers as Headers
    from streams_runtime.common.records import Record as Record
    from streams_runtime.common.records import RecordMetadata as RecordMetadata
    from streams_runtime.common.states import InstanceState as InstanceState
    from streams_runtime.configs import ProcessingGuarantee as ProcessingGuarantee
    from streams_runtime.configs import StreamsConfig as StreamsConfig
    from streams_runtime.dsl.global_tables import GlobalKTable as GlobalKTable
    from streams_runtime.dsl.materialized import Materialized as Materialized
    from streams_runtime.dsl.streams import CogroupedKStream as CogroupedKStream
    from streams_runtime.dsl.streams import KGroupedStream as KGroupedStream
    from streams_runtime.dsl.streams import KGroupedTable as KGroupedTable
    from streams_runtime.dsl.streams import KStream as KStream
    from streams_runtime.dsl.streams import KTable as KTable
    from streams_runtime.dsl.streams_builder import StreamsBuilder as StreamsBuilder
    from streams_runtime.dsl.suppression import BufferConfig as BufferConfig
    from streams_runtime.dsl.suppression import Suppressed as Suppressed
    from streams_runtime.dsl.windows import EmitStrategy as EmitStrategy
    from streams_runtime.dsl.windows import JoinWindows as JoinWindows
    from streams_runtime.dsl.windows import SessionWindowedSerde as SessionWindowedSerde
    from streams_runtime.dsl.windows import SessionWindows as SessionWindows
    from streams_runtime.dsl.windows import SlidingWindows as SlidingWindows
    from streams_runtime.dsl.windows import TimeWindowedSerde as TimeWindowedSerde
    from streams_runtime.dsl.windows import TimeWindows as TimeWindows
    from streams_runtime.dsl.windows import UnlimitedWindows as UnlimitedWindows
    from streams_runtime.instance.application import Application as Application
    from streams_runtime.instance.application import ThreadErrorResponse as ThreadErrorResponse
    from streams_runtime.instance.application import group_body as group_body
    from streams_runtime.instance.application import load_application as load_application
    from streams_runtime.instance.instance_resources import InstanceOptions as InstanceOptions
    from streams_runtime.instance.restore.progress import RestoreProgress as RestoreProgress
    from streams_runtime.instance.restore.restore_listener import RestoreListener as RestoreListener
    from streams_runtime.instance.streams_instance import StreamsInstance as StreamsInstance
    from streams_runtime.local_run.coordinator_process import CoordinatorProcess as CoordinatorProcess
    from streams_runtime.local_run.local_run import LocalRun as LocalRun
    from streams_runtime.local_run.topology_test_driver import TopologyTestDriver as TopologyTestDriver
    from streams_runtime.local_run.topology_test_topics import InputTopic as InputTopic
    from streams_runtime.local_run.topology_test_topics import OutputTopic as OutputTopic
    from streams_runtime.logs.base import IsolationLevel as IsolationLevel
    from streams_runtime.logs.base import NewTopic as NewTopic
    from streams_runtime.logs.base import OffsetReset as OffsetReset
    from streams_runtime.logs.opening import open_log as open_log
    from streams_runtime.logs.record_producer import RecordProducer as RecordProducer
    from streams_runtime.logs.topic_reading import ConsumedRecord as ConsumedRecord
    from streams_runtime.logs.topic_reading import read_topic as read_topic
    from streams_runtime.membership.coordinator_client import CoordinatorClient as CoordinatorClient
    from streams_runtime.membership.member_events import GroupMembershipOperation as GroupMembershipOperation
    from streams_runtime.processors.api import Cancellable as Cancellable
    from streams_runtime.processors.api import ExceptionHandler as ExceptionHandler
    from streams_runtime.processors.api import FailedOutput as FailedOutput
    from streams_runtime.processors.api import FailedRecord as FailedRecord
    from streams_runtime.processors.api import FixedKeyProcessor as FixedKeyProcessor
    from streams_runtime.processors.api import HandlerResponse as HandlerResponse
    from streams_runtime.processors.api import ProcessingContext as ProcessingContext
    from streams_runtime.processors.api import Processor as Processor
    from streams_runtime.processors.api import ProcessorContext as ProcessorContext
    from streams_runtime.processors.api import PunctuationType as PunctuationType
    from streams_runtime.processors.api import StreamPartitioner as StreamPartitioner
    from streams_runtime.processors.api import TimestampExtractor as TimestampExtractor
    from streams_runtime.processors.api import TopicNameExtractor as TopicNameExtractor
    from streams_runtime.processors.api import ValueTransformer as ValueTransformer
    from streams_runtime.processors.batch_node import NodeRun as NodeRun
    from streams_runtime.processors.batch_node import RunsHow as RunsHow
    from streams_runtime.processors.timestamp_extractors import fail_on_invalid_timestamp as fail_on_invalid_timestamp
    from streams_runtime.processors.timestamp_extractors import (
        log_and_skip_on_invalid_timestamp as log_and_skip_on_invalid_timestamp,
    )
    from streams_runtime.processors.timestamp_extractors import (
        use_partition_time_on_invalid_timestamp as use_partition_time_on_invalid_timestamp,
    )
    from streams_runtime.processors.timestamp_extractors import wallclock_timestamp as wallclock_timestamp
    from streams_runtime.processors.topology import Topology as Topology
    from streams_runtime.queries.client import QueryFailed as QueryFailed
    from streams_runtime.queries.client import StateStoreClient as StateStoreClient
    from streams_runtime.queries.query_results import CopyAnswered as CopyAnswered
    from streams_runtime.queries.query_results import SessionValue as SessionValue
    from streams_runtime.queries.query_results import StoreSessions as StoreSessions
    from streams_runtime.queries.query_results import StoreValue as StoreValue
    from streams_runtime.queries.query_results import StoreVersions as StoreVersions
    from streams_runtime.queries.query_results import StoreWindows as StoreWindows
    from streams_runtime.queries.query_results import VersionValue as VersionValue
    from streams_runtime.queries.query_results import WindowValue as WindowValue
    from streams_runtime.queries.store_metadata import KeyQueryMetadata as KeyQueryMetadata
    from streams_runtime.serdes import BOOLEAN as BOOLEAN
    from streams_runtime.serdes import BYTES as BYTES
    from streams_runtime.serdes import DOUBLE as DOUBLE
    from streams_runtime.serdes import FLOAT as FLOAT
    from streams_runtime.serdes import INTEGER as INTEGER
    from streams_runtime.serdes import JSON as JSON
    from streams_runtime.serdes import LONG as LONG
    from streams_runtime.serdes import SHORT as SHORT
    from streams_runtime.serdes import STRING as STRING
    from streams_runtime.serdes import UUID as UUID
    from streams_runtime.serdes import VOID as VOID
    from streams_runtime.serdes import ListSerde as ListSerde
    from streams_runtime.serdes import Serde as Serde
    from streams_runtime.serdes import Serdes as Serdes
    from streams_runtime.serdes import TopicSerde as TopicSerde
    from streams_runtime.serdes.schema_registry import AvroSerde as AvroSerde
    from streams_runtime.serdes.schema_registry import JsonSchemaSerde as JsonSchemaSerde
    from streams_runtime.serdes.schema_registry import ProtobufSerde as ProtobufSerde
    from streams_runtime.state_stores.builders import key_value_store as key_value_store
    from streams_runtime.state_stores.builders import session_store as session_store
    from streams_runtime.state_stores.builders import timestamped_key_value_store as timestamped_key_value_store
    from streams_runtime.state_stores.builders import timestamped_window_store as timestamped_window_store
    from streams_runtime.state_stores.builders import versioned_key_value_store as versioned_key_value_store
    from streams_runtime.state_stores.builders import window_store as window_store
    from streams_runtime.state_stores.key_value import KeyValueStore as KeyValueStore
    from streams_runtime.state_stores.key_value import TimestampedKeyValueStore as TimestampedKeyValueStore
    from streams_runtime.state_stores.session import SessionStore as SessionStore
    from streams_runtime.state_stores.state_store import StoreBuilder as StoreBuilder
    from streams_runtime.state_stores.state_store import ValueAndTimestamp as ValueAndTimestamp
    from streams_runtime.state_stores.state_store import Windowed as Windowed
    from streams_runtime.state_stores.versioned import VersionedKeyValueStore as VersionedKeyValueStore
    from streams_runtime.state_stores.versioned import VersionedRecord as VersionedRecord
    from streams_runtime.state_stores.window import WindowStore as WindowStore
    from streams_runtime.tasks.exception_handling import dead_letter as dead_letter
    from streams_runtime.tasks.exception_handling import dead_letter_and_fail as dead_letter_and_fail
    from streams_runtime.tasks.exception_handling import fail as fail
    from streams_runtime.tasks.exception_handling import log_and_continue as log_and_continue

_LAZY = LazyNames(globals())
__all__ = [*_LAZY.home_of]
__getattr__ = _LAZY.load
__dir__ = _LAZY.listed
