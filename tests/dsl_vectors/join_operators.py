"""Joins of two streams by the names of cases."""

from typing import Any

from streams_runtime import JoinWindows, KStream, Materialized
from tests.dsl_vectors.json_values import optional_serde
from tests.dsl_vectors.operators import Operator


def join_streams(operator: Operator, stream: KStream[Any, Any], other: KStream[Any, Any]) -> KStream[Any, Any]:
    """`default.dsl.store` is not used: in Kafka it has an effect only in a `TopologyConfig`, and no case has one."""
    windows = operator["windows"]
    persistent = operator.get("storeType", "rocksDB") == "rocksDB"
    method = {"join": stream.join, "leftJoin": stream.left_join, "outerJoin": stream.outer_join}[operator.kind]
    return method(
        other,
        operator.joiner(),
        JoinWindows(windows["before_ms"], windows["after_ms"], windows.get("grace_ms", 0)),
        with_key=True,
        **operator.serdes,
        other_value_serde=optional_serde(operator.get("otherValueSerde")),
        store=Materialized(operator.get("storeName"), persistent=persistent),
        name=operator.name,
    )
