"""The calls of a schema registry that serdes make, with Confluent's client. There is one client for each process and
configuration.

The URL mock://name stands for a registry in the memory of the process, which Confluent's client provides for unit
tests. Serdes are pickled for executors, and connections cannot be pickled. So a process makes its client when a serde
first needs it. The client and the serdes cache answers, so there is one call to the registry for each schema. If the
registry answers that the schema or the record is invalid, SerializationError is raised. If the registry sends no usable
answer, SchemaRegistryUnavailable is raised. Source: `SchemaRegistryClient`, `CachedSchemaRegistryClient`.
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
"""A registry sends one of these error codes if a schema does not exist. The mock registry of Confluent's client sends
40400.
"""
_REFUSED = (401, 403)

_clients: dict[tuple[object, ...], SchemaRegistryClient] = {}
_lock = threading.Lock()


class Registry:
    """A schema registry. Making a `Registry` object is cheap, because the client has the connections and caches. All
    objects with the same configuration share the client of the process.
    """

    def __init__(self, settings: RegistrySettings) -> None:
        self.url = settings.url
        self._settings = settings
        self._client = _client(settings)

    def id_for(self, subject: str, schema: Schema) -> int:
        """Returns the id of the schema. If `auto.register.schemas` is true, registers the schema. If
        `auto.register.schemas` is false, only looks up the schema's id.
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
        """Registers a schema that other schemas import. `name`: the subject. Returns a reference to the schema."""
        self.id_for(name, schema)
        found = self._ask(
            f"schema {name}, which others import, is not registered",
            lambda: self._client.lookup_schema(name, schema, normalize_schemas=self._settings.normalize),
        )
        return SchemaReference(name, name, found.version)

    def latest(self, subject: str, form: str | None = None) -> tuple[int, Schema]:
        """Returns the latest schema of the subject and its id. `form`: the form of the returned schema, if its type has
        several forms.
        """
        found = self._ask(
            f"subject {subject} has no schema to use as its latest",
            lambda: self._client.get_latest_version(subject, fmt=form),
        )
        return _known(found.schema_id), found.schema

    def schema(self, schema_id: int, form: str | None = None) -> Schema:
        """Returns the schema with this id. `form`: the form of the returned schema, if its type has several forms."""
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
        # the registry client uses one of two HTTP libraries, which have different errors
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
            # a certificate file that cannot be used raises OSError or its subclass ssl.SSLError
            except (OSError, ValueError) as error:
                raise SchemaRegistryUnavailable(
                    f"the client for schema registry {settings.url} could not be made: {error}"
                ) from error
            _clients[key] = client
        return client
