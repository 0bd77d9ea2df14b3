"""An `Application` has the topology, the configs and the error handlers. All instances of an application get an equal
`Application`. The constructor of `Application` checks its arguments, so that the user sees mistakes early. An
`Application` can be pickled and sent to executors: cloudpickle includes the functions and classes of its topology.
Source: `KafkaStreams`' constructor and setters, `StreamsUncaughtExceptionHandler`.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from assignor.configs import KAFKA_VERSION, AssignmentConfigs, dotted_configs
from assignor.errors import InputError, TopologyError
from assignor.names.user_modules import named_object
from assignor.pipeline.snapshot import RebalanceSnapshot
from assignor.recording import rebalance_input
from assignor.topology.cluster import Cluster
from assignor.topology.group_topology import GroupTopology
from streams_runtime.common.states import StateListener
from streams_runtime.configs import StreamsConfig, check_names
from streams_runtime.instance.restore.restore_listener import RestoreListener
from streams_runtime.logs.opening import cluster_address, cluster_provider_name
from streams_runtime.processors.api import ExceptionHandler
from streams_runtime.processors.topology import Topology
from streams_runtime.serdes.defaults import REQUIRED
from streams_runtime.tasks.exception_handling import dead_letter, dead_letter_and_fail, fail

_logger = logging.getLogger(__name__)
_BUILT_IN = frozenset(("default.key.serde", "default.value.serde", "topology.optimization"))


class ThreadErrorResponse(StrEnum):
    """The decision of the user's handler after an error has ended a stream thread.

    With SHUTDOWN_APPLICATION, the leader of the group ends every instance of the application (KIP-671).
    Source: `StreamThreadExceptionResponse`.
    """

    REPLACE_THREAD = "replace-thread"
    SHUTDOWN_CLIENT = "shutdown-client"
    SHUTDOWN_APPLICATION = "shutdown-application"


UncaughtExceptionHandler = Callable[[Exception], ThreadErrorResponse]
"""The user's handler for errors that end a stream thread. The thread calls the handler with the error, and the handler
returns its decision.
"""

RestoreListenerFactory = Callable[[], RestoreListener]
"""A function that makes the restore listener of an instance. An application has this function and no listener, because
a listener with files or sockets cannot be pickled.
"""


def shut_down_client(_error: Exception) -> ThreadErrorResponse:
    """The default handler: the instance of the failed thread shuts down."""
    return ThreadErrorResponse.SHUTDOWN_CLIENT


@dataclass(frozen=True, slots=True, init=False)
class Application:
    """A topology with its configs and handlers. An application is immutable. The caller must not change the topology
    after it was passed to an Application.

    `topology`: the given topology. In this topology, nodes without serdes have the default serdes of the configs.
    `processing_exception_handler` decides about errors of processors and sinks. `deserialization_exception_handler`
    decides about errors of serdes and timestamp extractors when records are read. `production_exception_handler`
    decides about records that a sink cannot write; if it returns FAIL, `processing_exception_handler` decides.
    `state_listener`: a function that each instance calls with its new state and its old state.
    """

    topology: Topology
    configs: StreamsConfig
    processing_exception_handler: ExceptionHandler
    deserialization_exception_handler: ExceptionHandler
    production_exception_handler: ExceptionHandler
    uncaught_exception_handler: UncaughtExceptionHandler
    restore_listener_factory: RestoreListenerFactory | None
    state_listener: StateListener | None

    def __init__(
        self,
        topology: Topology,
        configs: StreamsConfig | Mapping[str, object],
        *,
        processing_exception_handler: ExceptionHandler = fail,
        deserialization_exception_handler: ExceptionHandler = fail,
        production_exception_handler: ExceptionHandler = fail,
        uncaught_exception_handler: UncaughtExceptionHandler = shut_down_client,
        restore_listener_factory: RestoreListenerFactory | None = None,
        state_listener: StateListener | None = None,
    ) -> None:
        """`configs`: a StreamsConfig, or values by Kafka's dotted names. Raises InputError for any invalid argument."""
        handlers = (
            ("processing_exception_handler", processing_exception_handler, "a function"),
            ("deserialization_exception_handler", deserialization_exception_handler, "a function"),
            ("production_exception_handler", production_exception_handler, "a function"),
            ("uncaught_exception_handler", uncaught_exception_handler, "a function"),
            ("restore_listener_factory", restore_listener_factory, "a function that makes a listener"),
            ("state_listener", state_listener, "a function of new and old state"),
        )
        for name, handler, what in handlers:
            may_be_none = name in ("restore_listener_factory", "state_listener")
            if not callable(handler) and not (handler is None and may_be_none):
                raise InputError(f"must be {what}, not {handler!r}", name)
            object.__setattr__(self, name, handler)
        object.__setattr__(self, "configs", _checked_configs(configs))
        for name, handler, _ in handlers:
            needs_topic = handler is dead_letter or handler is dead_letter_and_fail
            if needs_topic and self.configs.errors_dead_letter_queue_topic_name is None:
                needing = getattr(handler, "__name__", "")
                raise InputError(f"is {needing}, but errors.dead.letter.queue.topic.name is not set", name)
        topology = _checked_topology(topology)
        _check_optimizations(topology, self.configs)
        try:
            if self.configs.ensure_explicit_internal_resource_naming:
                topology.check_explicit_names()
            object.__setattr__(self, "topology", topology.with_default_serdes(self.configs.default_serdes))
            self.group_topology()
        except TopologyError as error:
            raise InputError(str(error), "topology") from error

    @property
    def id(self) -> str:
        """The application id, which is also the group id."""
        return self.configs.application_id

    def with_configs(self, configs: Mapping[str, object]) -> Application:
        """Returns a copy of the application with changed configs. `configs`: the new values, by dotted name.

        Raises InputError if a config is invalid. Raises InputError if a config was used to build the topology. To
        change a config that was used to build the topology, build a new topology and make a new Application.
        """
        fixed = sorted(_BUILT_IN & configs.keys())
        if fixed:
            raise InputError(f"{fixed[0]} is part of the topology already: make a new Application with it", "configs")
        return replace(self, configs=self.configs.with_dotted(configs))

    def check_serdes(self) -> None:
        """Raises InputError if a node or store has no serde. Commands and instances call this before they start
        anything. The tasks would find the missing serde when they start.
        """
        try:
            self.topology.with_default_serdes(REQUIRED)
        except TopologyError as error:
            raise InputError(str(error), "topology") from error

    def response_to(self, error: Exception) -> ThreadErrorResponse:
        """Returns the decision of the user's handler about an error that ends a thread. If the handler fails, the
        instance shuts down.
        """
        try:
            return ThreadErrorResponse(self.uncaught_exception_handler(error))
        except BaseException:  # SystemExit, too: it would end only the calling thread, and no other thread would know
            _logger.exception("the uncaught exception handler failed; shutting down")
            return ThreadErrorResponse.SHUTDOWN_CLIENT

    def group_topology(self) -> GroupTopology:
        """Returns the topology in the form that the assignor needs: its subtopologies, with full topic names."""
        return self.topology.group_topology(self.configs.application_id)

    def global_topics(self) -> tuple[str, ...]:
        """Returns the topics of the global stores. The group does not know these topics: every instance reads all of
        their partitions.
        """
        definition = self.topology.definition()
        return tuple(definition.full_topic(store.topic, self.id) for store in definition.global_stores.values())


def _checked_topology(topology: object) -> Topology:
    if isinstance(topology, Topology):
        return topology
    hint = "; call its `build()`" if hasattr(topology, "build") else ""
    raise InputError(f"must be a Topology, not a {type(topology).__name__}{hint}", "topology")


def _check_optimizations(topology: Topology, configs: StreamsConfig) -> None:
    """Raises InputError if the config `topology.optimization` differs from the optimizations with which the topology
    was built.

    Differs from Kafka: Kafka ignores a config `topology.optimization` that does not fit the topology.
    """
    wanted, done = configs.topology_optimization, topology.optimizations
    if wanted is not None and done is not None and wanted != done:
        raise InputError(
            f"topology.optimization is {', '.join(sorted(wanted)) or 'none'}, but the topology was built with "
            f"{', '.join(sorted(done)) or 'none'}; give the configs to StreamsBuilder.build, too",
            "configs",
        )


def _checked_configs(configs: object) -> StreamsConfig:
    if isinstance(configs, Mapping):
        configs = StreamsConfig.from_dotted(configs)
    if not isinstance(configs, StreamsConfig):
        raise InputError(f"must be a StreamsConfig or a mapping, not a {type(configs).__name__}", "configs")
    check_names(configs, "configs")  # a StreamsConfig that was made without `from_dotted` is not checked yet
    return configs


def load_application(reference: str) -> Application:
    """Imports an Application from a text of the form `module:name`. If the name belongs to a function, calls the
    function and returns its result. The name may contain dots. The module may be in the working directory. If a step
    fails, raises an InputError that names the step. If the module or the function raises an error, that error is the
    `__cause__` of the InputError.
    """
    module_name, separator, path = reference.partition(":")
    if not separator or not module_name or not path:
        raise InputError("must be module:name, for example word_count:app", reference)
    directory = str(Path.cwd())
    if directory not in sys.path and "" not in sys.path:
        # the directory stays in the path, because functions of the module may import other modules later
        sys.path.insert(0, directory)
    found = named_object(reference, reference, f"in {directory} or on the path")
    if not isinstance(found, Application) and callable(found):
        found = _call(found, path, reference)
    if not isinstance(found, Application):
        raise InputError(
            f"{path} is a {type(found).__name__}; it must be an Application, or a function that returns one", reference
        )
    found.check_serdes()
    return found


def _call(function: Callable[[], object], name: str, reference: str) -> object:
    try:
        return function()
    except InputError as error:
        raise InputError(str(error), reference) from error
    except Exception as error:
        raise InputError(f"calling {name} failed: {type(error).__name__}: {error}", reference) from error


ASSIGNOR = "HighAvailabilityTaskAssignor"
_DECLARED = ("assignor", "configs", "application_id", "topology")


def group_body(app: Application) -> dict[str, object]:
    """Returns the definition that an application declares to the coordinator: its topology, its placement configs, and
    the address of its log. For each rebalance, the coordinator looks up topics and offsets in the log at this address.

    The definition is the body of PUT /v1/groups/{application id}. Raises InputError for a log that only this process
    can open.
    """
    servers = app.configs.bootstrap_servers
    configs = AssignmentConfigs.from_dotted(app.configs.placement)
    document = rebalance_input(
        RebalanceSnapshot(
            assignor=ASSIGNOR,
            configs=configs,
            application_id=app.id,
            topology=replace(app.group_topology(), dead_letter_topic=app.configs.errors_dead_letter_queue_topic_name),
            # the definition leaves out the addresses of brokers, because the coordinator's cluster provider knows the
            # cluster
            cluster=Cluster((), {}),
            members={},
        )
    )
    declared = {name: document[name] for name in _DECLARED}
    # The document leaves out the version 4.3. Without a version, the coordinator would use its newest version.
    if KAFKA_VERSION in app.configs.placement:
        declared["configs"] = {**dotted_configs(configs), KAFKA_VERSION: str(configs.kafka_version)}
    return {
        **declared,
        "cluster": {"provider": cluster_provider_name(servers), "bootstrap.servers": cluster_address(servers)},
    }
