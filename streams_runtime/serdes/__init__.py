"""Objects to bytes and back: Kafka's own formats, JSON, and the formats of a schema registry (`schema_registry`)."""

from streams_runtime.serdes.base import NestedSerde, Serde, TopicSerde, serde_fault, serde_for_topic, serializer_of
from streams_runtime.serdes.defaults import DefaultSerde, DefaultSerdes
from streams_runtime.serdes.standard import (
    BYTES,
    DOUBLE,
    INTEGER,
    JSON,
    LONG,
    STRING,
    BytesSerde,
    DoubleSerde,
    IntegerSerde,
    JsonSerde,
    LongSerde,
    Serdes,
    StringSerde,
)

__all__ = [
    "BYTES",
    "DOUBLE",
    "INTEGER",
    "JSON",
    "LONG",
    "STRING",
    "BytesSerde",
    "DefaultSerde",
    "DefaultSerdes",
    "DoubleSerde",
    "IntegerSerde",
    "JsonSerde",
    "LongSerde",
    "NestedSerde",
    "Serde",
    "Serdes",
    "StringSerde",
    "TopicSerde",
    "serde_fault",
    "serde_for_topic",
    "serializer_of",
]
