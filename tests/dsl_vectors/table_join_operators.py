"""Foreign-key joins of tables by the names of cases."""

from typing import Any

from streams_runtime import KTable
from tests.dsl_vectors.functions import KEYS
from tests.dsl_vectors.operators import MaterializedOption, Operator


def foreign_key_join(
    operator: Operator, option: MaterializedOption, table: KTable[Any, Any], other: KTable[Any, Any]
) -> KTable[Any, Any]:
    """`foreignKey`: a key function, of key and value. In Kafka, the joiner gets no key: it is null."""
    method = table.foreign_key_join if operator.kind == "join" else table.foreign_key_left_join
    foreign_key, joiner = KEYS.get(operator["foreignKey"]), operator.joiner_without_key()
    return method(other, foreign_key, joiner, **option.serdes, store=option.store_if_given, name=operator.name)
