"""The calls of a schema registry that serdes need, through Confluent's client. One registry client is made for each
process and configuration.

The URL mock://name stands for a registry in the memory of the process, which Confluent's client provides for unit
tests.
A process makes the client when a serde first needs it, because serdes are pickled for executors, and connections cannot
be pickled. The client and the serdes cache answers, so a registry is asked once for each schema.
A call raises SerializationError if the registry answers that the schema or the record is wrong. A call raises
SchemaRegistryUnavailable if the registry gives no usable answer. Source: `SchemaRegistryClient`,
`CachedSchemaRegistryClient`.
"""

import os
import threading
from collections.abc import Callable
from typing import TypeVar

from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient, SchemaRegistryError

from streams_runtime.common.errors import SchemaRegistryUnavailable, SerializationError
from streams_runtime.serdes.schema_registry.registry_settings import MOCK, RegistrySettings

Answer = TypeVar("Answer")

_DEFAULT_TIMEOUT_S = 30.0
_NO_SUCH_SCHEMA = (40400, 40401, 40402, 40403)
"""The error codes of a registry for a schema that does not exist. The mock registry of Confluent's client uses the code
40400.
"""
_REFUSED = (401, 403)

_clients: dict[tuple[object, ...], SchemaRegistryClient] = {}
_lock = threading.Lock()


class Registry:
    """A schema registry. A `Registry` object is cheap to make, because connections and caches are in the client. All
    objects of a process with the same configuration share one client.
    """

    def __init__(self, settings: RegistrySettings) -> None:
        self.url = settings.url
        self._settings = settings
        self._client = _client(settings)

    def id_for(self, subject: str, schema: Schema) -> int:
        """Registers the schema and returns its id. If `auto.register.schemas` is false, does not register the schema,
        and only looks up its id.
        """
        settings = self._settings
        if settings.auto_register:
            return self._ask(
                f"schema could not be registered under subject {subject}",
                lambda: self._client.register_schema(subject, schema, normalize_schemas=settings.normalize),
            )
        found = self._ask(
            f"schema is not registered under subject {subject}, and auto.register.schemas is false",
            lambda: self._client.lookup_schema(subject, schema, normalize_schemas=settings.normalize),
        )
        return _known(found.schema_id)

    def reference(self, name: str, schema: Schema) -> SchemaReference:
        """Registers a schema that other schemas import, under the subject `name`. Returns a reference to the
        schema.
        """
        self.id_for(name, schema)
        found = self._ask(
            f"schema {name}, which others import, is not registered",
            lambda: self._client.lookup_schema(name, schema, normalize_schemas=self._settings.normalize),
        )
        return SchemaReference(name, name, found.version)

    def latest(self, subject: str, form: str | None = None) -> tuple[int, Schema]:
        """Returns the id and the schema of the subject's latest version. `form`: the form of the returned
        schema, for a type with several forms.
        """
        found = self._ask(
            f"subject {subject} has no schema to use as its latest",
            lambda: self._client.get_latest_version(subject, fmt=form),
        )
        return _known(found.schema_id), found.schema

    def schema(self, schema_id: int, form: str | None = None) -> Schema:
        """Returns the schema with this id. `form`: the form of the returned schema, for a type with several forms."""
        return self._ask(f"schema {schema_id} is not known", lambda: self._client.get_schema(schema_id, fmt=form))

    def referenced(self, reference: SchemaReference, form: str | None = None) -> Schema:
        subject, version = str(reference.subject), int(reference.version or 0)
        return self._ask(
            f"version {version} of subject {subject}, which a schema refers to, is not known",
            lambda: self._client.get_version(subject, version, True, form).schema,
        )

    def _ask(self, refusal: str, call: Callable[[], Answer]) -> Answer:
        try:
            return call()
        except SchemaRegistryError as error:
            detail = f"{error.error_message} (HTTP {error.http_status_code})"
            if error.http_status_code in _REFUSED:
                raise SchemaRegistryUnavailable(
                    f"schema registry {self.url} refuses to answer: {detail}; check basic.auth.user.info"
                ) from error
            if error.http_status_code < 500 and error.http_status_code != 429:
                if error.http_status_code == 404 and error.error_code not in _NO_SUCH_SCHEMA:
                    raise SchemaRegistryUnavailable(
                        f"{self.url} is no schema registry: {detail}; check schema.registry.url"
                    ) from error
                raise SerializationError(f"schema registry {self.url}: {refusal}: {detail}") from error
            raise SchemaRegistryUnavailable(f"schema registry {self.url} cannot answer: {detail}") from error
        # the registry client uses one of two HTTP libraries, each of which has its own errors
        except Exception as error:
            raise SchemaRegistryUnavailable(
                f"schema registry {self.url} does not answer ({type(error).__name__}: {error}); "
                "check schema.registry.url, and that it runs"
            ) from error


def _known(schema_id: int | None) -> int:
    if schema_id is None:
        raise SerializationError("the schema registry answers without a schema's id")
    return schema_id


def _client(settings: RegistrySettings) -> SchemaRegistryClient:
    # all serdes with the same mock URL share one client, even if their other configs differ
    key = (os.getpid(), settings.url if settings.url.startswith(MOCK) else settings.client)
    with _lock:
        client = _clients.get(key)
        if client is None:
            try:
                client = SchemaRegistryClient.new_client({"timeout": _DEFAULT_TIMEOUT_S, **dict(settings.client)})
            # an unusable certificate file raises OSError or its subclass ssl.SSLError
            except (OSError, ValueError) as error:
                raise SchemaRegistryUnavailable(
                    f"the client for schema registry {settings.url} could not be made: {error}"
                ) from error
            _clients[key] = client
        return client
