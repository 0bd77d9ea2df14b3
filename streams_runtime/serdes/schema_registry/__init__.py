"""Avro, Protobuf and JSON Schema in Confluent's wire format, with a schema registry.

    AvroSerde(schema, {"schema.registry.url": "http://registry:8081"})
    ProtobufSerde(Order, {...})        Order: a message class that protoc made
    JsonSchemaSerde(schema, {...})

The subject of a schema is chosen as in Kafka Streams: by the topic to which the bytes go; for a store, its changelog.
The serdes can be pickled. The serdes call the registry when a record first needs a schema, once for each schema.
Source: `GenericAvroSerde`, `KafkaProtobufSerde`, `KafkaJsonSchemaSerde`.
"""

try:
    import confluent_kafka.schema_registry as _client
except ImportError as error:
    raise ImportError(
        f"serdes of a schema registry need Confluent's client: pip install 'assignor[schema-registry]' ({error})"
    ) from error

from streams_runtime.serdes.schema_registry.document_serdes import AvroSerde as AvroSerde
from streams_runtime.serdes.schema_registry.document_serdes import JsonSchemaSerde as JsonSchemaSerde
from streams_runtime.serdes.schema_registry.protobuf_serde import ProtobufSerde as ProtobufSerde

del _client
