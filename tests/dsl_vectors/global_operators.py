"""The operators of global tables and global stores by the names of cases."""

from typing import Any

from streams_runtime import GlobalKTable
from tests.dsl_vectors.dsl_operators import DslMaker, on_builder
from tests.dsl_vectors.operators import Operator
from tests.dsl_vectors.processors import processor_supplier


@on_builder("globalTable")
def global_table(maker: DslMaker, operator: Operator) -> GlobalKTable[Any, Any]:
    """Without `materialized`, the default of all stores (`default.dsl.store`) is not given: a Materialized without a
    name is refused, and no case can show the kind of such a store.
    """
    operator.pass_over("timestampExtractor")  # Kafka never calls it
    return maker.builder.global_table(
        operator["topic"],
        operator.key_serde,
        operator.value_serde,
        store=maker.materialized(operator).store_if_given,
        name=operator.name,
    )


@on_builder("addGlobalStore")
def add_global_store(maker: DslMaker, operator: Operator) -> None:
    builder = operator.store_builder()
    operator.pass_over("timestampExtractor")
    maker.store_names.append(builder.name)
    written = operator.get("processor", ["update"])
    supplier = processor_supplier(written, [builder.name], maker.case, maker.without_metadata)
    maker.builder.add_global_store(
        builder,
        operator["topic"],
        supplier,
        operator.key_serde,
        operator.value_serde,
        name=operator.name,
    )
