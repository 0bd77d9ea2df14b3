"""Objects to bytes and back: Kafka's own formats, JSON, and the formats of a schema registry (`schema_registry`)."""

from streams_runtime.serdes.defaults import DefaultSerde as DefaultSerde
from streams_runtime.serdes.defaults import DefaultSerdes as DefaultSerdes
from streams_runtime.serdes.serde import NestedSerde as NestedSerde
from streams_runtime.serdes.serde import Serde as Serde
from streams_runtime.serdes.serde import TopicSerde as TopicSerde
from streams_runtime.serdes.serde import serde_fault as serde_fault
from streams_runtime.serdes.serde import serde_for_topic as serde_for_topic
from streams_runtime.serdes.serde import serializer_of as serializer_of
from streams_runtime.serdes.standard import BYTES as BYTES
from streams_runtime.serdes.standard import DOUBLE as DOUBLE
from streams_runtime.serdes.standard import INTEGER as INTEGER
from streams_runtime.serdes.standard import JSON as JSON
from streams_runtime.serdes.standard import LONG as LONG
from streams_runtime.serdes.standard import STRING as STRING
from streams_runtime.serdes.standard import BytesSerde as BytesSerde
from streams_runtime.serdes.standard import DoubleSerde as DoubleSerde
from streams_runtime.serdes.standard import IntegerSerde as IntegerSerde
from streams_runtime.serdes.standard import JsonSerde as JsonSerde
from streams_runtime.serdes.standard import LongSerde as LongSerde
from streams_runtime.serdes.standard import Serdes as Serdes
from streams_runtime.serdes.standard import StringSerde as StringSerde
