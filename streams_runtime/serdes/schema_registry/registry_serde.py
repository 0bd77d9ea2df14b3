"""What the serdes of a schema registry have in common: the topic, the subject, and what they keep of the registry.

Such a serde is a value until its first record: it is pickled without what it has learnt. Source:
`AbstractKafkaSchemaSerDe`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Self, TypeVar

from streams_runtime.errors import SerializationError
from streams_runtime.serdes.schema_registry.registry import Registry
from streams_runtime.serdes.schema_registry.settings import RegistrySettings
from streams_runtime.serdes.schema_registry.wire_format import schema_id_of

T = TypeVar("T")

Encode = Callable[[T], bytes]
Decode = Callable[[bytes], T]
"""Both with the header: `decode` is called for one schema id only."""


class RegistrySerde(Generic[T]):
    """`for_topic` gives the serde that can write; reading works without a topic.

    A subclass says how to write (`_encoder`) and how to read what was written with a schema (`_decoder`).
    """

    def __init__(self, settings: RegistrySettings) -> None:
        self._settings = settings
        self._topic: str | None = None
        self._is_key = False
        self._encode: Encode[T] | None = None
        self._decoders: dict[bytes, Decode[T]] = {}

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_encode": None, "_decoders": {}}

    def __repr__(self) -> str:
        place = "" if self._topic is None else f", {self._topic} {'keys' if self._is_key else 'values'}"
        return f"{type(self).__name__}({self._settings.url}{place})"

    def for_topic(self, topic: str, *, is_key: bool) -> Self:
        """The same serde under the subjects of this topic."""
        bound = type(self).__new__(type(self))
        bound.__dict__.update(self.__getstate__(), _topic=topic, _is_key=is_key)
        return bound

    def serialize(self, value: T, /) -> bytes:
        """Raises SerializationError, SchemaRegistryUnavailable."""
        encode = self._encode
        if encode is None:
            encode = self._encode = self._encoder(Registry(self._settings))
        return encode(value)

    def deserialize(self, data: bytes, /) -> T:
        """Raises SerializationError, SchemaRegistryUnavailable."""
        decode = self._decoders.get(data[:5])
        if decode is None:
            schema_id = schema_id_of(data)
            decode = self._decoders[data[:5]] = self._decoder(Registry(self._settings), schema_id)
        return decode(data)

    def _encoder(self, registry: Registry) -> Encode[T]:
        raise NotImplementedError

    def _decoder(self, registry: Registry, schema_id: int) -> Decode[T]:
        raise NotImplementedError

    def _subject(self, record: str | None) -> str:
        settings = self._settings
        strategy = settings.key_subject if self._is_key else settings.value_subject
        subject = strategy(self._topic, self._is_key, record)
        if subject is None:
            missing = "the record's name" if self._topic is not None else "a topic; write with for_topic(topic, ...)"
            raise SerializationError(f"{self!r}: its subject name strategy needs {missing}")
        return subject
