"""`processValues` of a stream and `transformValues` of a table."""

from functools import partial
from typing import Any

from streams_runtime import KStream, KTable, ProcessingContext, ValueTransformer
from tests.dsl_vectors.dsl_operators import DslMaker, on
from tests.dsl_vectors.functions import VALUES, num, text
from tests.dsl_vectors.operators import Operator
from tests.dsl_vectors.processors import FixedKeyCaseProcessor, processor_supplier
from tests.dsl_vectors.registry import Registry


@on(KStream, "processValues")
def process_values(maker: DslMaker, operator: Operator, stream: KStream[Any, Any]) -> Any:
    stores = operator.get("stores", [])
    supplier = processor_supplier(
        operator["processor"], stores, maker.case, maker.without_metadata, FixedKeyCaseProcessor
    )
    return stream.process_values(supplier, stores=stores, name=operator.name)


@on(KTable, "transformValues")
def transform_values(maker: DslMaker, operator: Operator, table: KTable[Any, Any]) -> Any:
    stores, option = operator.get("stores", []), maker.materialized(operator)
    TRANSFORMERS.get(operator["transformer"])
    supplier = partial(CaseTransformer, operator["transformer"], stores)
    return table.transform_values(
        supplier, stores=stores, **option.serdes, store=option.store_if_given, name=operator.name
    )


class CaseTransformer(ValueTransformer[Any, Any, Any]):
    """Runs the function of its kind for each change. `written`: `["name", parameters...]`."""

    def __init__(self, written: list[Any], store_names: list[str]) -> None:
        self._store_names = store_names
        self._transform = TRANSFORMERS.get(written)
        self.store: Any = None

    def init(self, context: ProcessingContext) -> None:
        if self._store_names:
            self.store = context.state_store(self._store_names[0])

    def transform(self, key: Any, value: Any) -> Any:
        return self._transform(self, key, value)


def count_and_value(transformer: CaseTransformer, key: Any, value: Any) -> str | None:
    count = num(transformer.store.get(key)) + 1
    transformer.store.put(key, count)
    return None if value is None else f"{count}x{text(value)}"


TRANSFORMERS = Registry(
    "transformer",
    {
        "value": lambda function, _transformer, key, value: VALUES.get(function)(key, value),
        "countAndValue": count_and_value,
    },
)
