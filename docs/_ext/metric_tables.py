"""Tables of metrics, from the lists that the code itself registers."""

from collections.abc import Iterable
from typing import Protocol

from coordinator_api.metrics import METRICS as SERVICE_METRICS
from docs._ext.markdown import code, table
from streams_runtime.common.metrics import METRICS as INSTANCE_METRICS


class _Metric(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def labels(self) -> tuple[str, ...]: ...
    @property
    def description(self) -> str: ...


def service_metrics() -> str:
    return _table(SERVICE_METRICS)


def instance_metrics() -> str:
    """Each with the name of Kafka Streams' metric."""
    rows = (
        (
            code(each.name),
            _kind(each.name),
            ", ".join(each.labels),
            each.description,
            ", ".join(map(code, each.kafka.split(", "))) if each.kafka else "",
        )
        for each in INSTANCE_METRICS
    )
    return table(("metric", "kind", "labels", "what it measures", "in Kafka Streams"), rows)


def _table(metrics: Iterable[_Metric]) -> str:
    rows = ((code(each.name), _kind(each.name), ", ".join(each.labels), each.description) for each in metrics)
    return table(("metric", "kind", "labels", "what it measures"), rows)


def _kind(name: str) -> str:
    """Prometheus' own convention, which both lists keep: a counter ends in `_total`."""
    if name.endswith("_total"):
        return "counter"
    return "seconds" if name.endswith("_seconds") else "gauge"
