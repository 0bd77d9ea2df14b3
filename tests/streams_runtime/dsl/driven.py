"""Short ways to pipe records through a topology and to read its output."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from streams_runtime import STRING, Serde, StreamsBuilder, TopologyTestDriver


class Driven:
    """`pipe` takes key, value and timestamp. `read` gives all records of a topic since the last call."""

    def __init__(self, driver: TopologyTestDriver) -> None:
        self.driver = driver
        self._outputs: dict[str, Any] = {}

    @property
    def application_id(self) -> str:
        return self.driver._application.id

    def pipe(self, topic: str, *records: tuple[str | None, str | None, int]) -> None:
        source = self.driver.create_input_topic(topic, STRING, STRING)
        for key, value, timestamp_ms in records:
            source.pipe_input(key, value, timestamp_ms)

    def read(self, topic: str, value_serde: Serde[Any] = STRING, key_serde: Serde[Any] = STRING) -> list[Any]:
        """Key, value and timestamp of each record."""
        if topic not in self._outputs:
            self._outputs[topic] = self.driver.create_output_topic(topic, key_serde, value_serde)
        return [tuple(record[:3]) for record in self._outputs[topic].read_all()]


@contextmanager
def driven(builder: StreamsBuilder) -> Iterator[Driven]:
    with TopologyTestDriver(builder.build()) as driver:
        yield Driven(driver)
