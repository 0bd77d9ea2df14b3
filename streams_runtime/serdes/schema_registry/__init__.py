"""Serdes that use a schema registry: Avro, Protobuf and JSON Schema, in Confluent's wire format.

In these examples of serdes, `Order` is a message class that protoc has generated:

    AvroSerde(schema, {"schema.registry.url": "http://registry:8081"})
    ProtobufSerde(Order, {...})
    JsonSchemaSerde(schema, {...})

As in Kafka Streams, the subject of a schema comes from the name of the topic to which the bytes are written. For a
store, the subject comes from the name of the changelog topic. The serdes can be pickled. A serde calls the registry
once for each schema: when the first record needs the schema.
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
