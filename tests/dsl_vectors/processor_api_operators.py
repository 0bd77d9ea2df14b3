"""The calls of `Topology` by the names of cases. One that is not here is not known."""

from collections.abc import Callable
from dataclasses import dataclass, field

from streams_runtime import BYTES, Topology
from tests.dsl_vectors.cases import Case, NotKnown
from tests.dsl_vectors.operators import Operator
from tests.dsl_vectors.processors import processor_supplier


@dataclass
class TopologyMaker:
    """As `DslMaker`."""

    case: Case
    without_metadata: str
    store_names: list[str] = field(default_factory=list)
    topology: Topology = field(default_factory=Topology)

    def make(self) -> Topology:
        """Raises NotKnown, and what `Topology` raises for a call that it refuses."""
        for written in self.case.operators:
            operator = Operator(written)
            if operator.kind not in _CALLS:
                raise NotKnown(operator.kind)
            _CALLS[operator.kind](self, operator)
            operator.check_all_used()
        return self.topology


def add_source(maker: TopologyMaker, operator: Operator) -> None:
    maker.topology.add_source(
        operator["name"],
        operator["topics"],
        key_serde=operator.key_serde or BYTES,
        value_serde=operator.value_serde or BYTES,
        timestamp_extractor=operator.timestamp_extractor(),
    )


def add_processor(maker: TopologyMaker, operator: Operator) -> None:
    """`stores` are those that the processor uses; `addStateStore` connects them later."""
    stores = operator.get("stores", [])
    supplier = processor_supplier(operator["processor"], stores, maker.case, maker.without_metadata)
    maker.topology.add_processor(operator["name"], supplier, operator["parents"])


def add_sink(maker: TopologyMaker, operator: Operator) -> None:
    maker.topology.add_sink(
        operator["name"],
        operator.topic_or_extractor(),
        operator["parents"],
        key_serde=operator.key_serde or BYTES,
        value_serde=operator.value_serde or BYTES,
    )


def add_state_store(maker: TopologyMaker, operator: Operator) -> None:
    maker.store_names.append(operator["store"])
    maker.topology.add_state_store(operator.store_builder(), operator.get("processors", []))


def connect_stores(maker: TopologyMaker, operator: Operator) -> None:
    maker.topology.connect_processor_and_stores(operator["processor"], operator["stores"])


def add_read_only_store(maker: TopologyMaker, operator: Operator) -> None:
    _add_filled_store(maker, operator, maker.topology.add_read_only_state_store)


def add_global_store(maker: TopologyMaker, operator: Operator) -> None:
    _add_filled_store(maker, operator, maker.topology.add_global_store)


def _add_filled_store(maker: TopologyMaker, operator: Operator, call: Callable[..., Topology]) -> None:
    """Of a store that the processor `update` fills from a topic."""
    maker.store_names.append(operator["store"])
    supplier = processor_supplier(["update"], [operator["store"]], maker.case, maker.without_metadata)
    serdes = {"key_serde": operator.key_serde, "value_serde": operator.value_serde}
    call(operator.store_builder(), operator["name"], operator["topic"], operator["processorName"], supplier, **serdes)


_CALLS: dict[str, Callable[[TopologyMaker, Operator], None]] = {
    "addSource": add_source,
    "addProcessor": add_processor,
    "addSink": add_sink,
    "addStateStore": add_state_store,
    "connectProcessorAndStateStores": connect_stores,
    "addReadOnlyStateStore": add_read_only_store,
    "addGlobalStore": add_global_store,
}
