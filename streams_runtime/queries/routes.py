"""The HTTP routes of an instance's query endpoint. All routes accept only GET requests.

Rules: the response to each error is a problem document (RFC 9457) with a code. This includes errors about invalid
parameters. An answer with data from a store contains the application id, and describes the copy of the store that was
read, and the isolation level of the read. Answers are plain JSON, without response models.
Source: KIP-67, KIP-535, KIP-892.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated, Any, TypeVarTuple

from fastapi import Depends, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from assignor.types import JAVA_LONG_MAX
from streams_runtime.logs.base import IsolationLevel
from streams_runtime.queries.answers import answer_for_partition, builder_of, locate_key, location_of, partitions_here
from streams_runtime.queries.problems import STATUS, QueryCode, QueryProblem
from streams_runtime.queries.store_metadata import Queryable, StoreCopy, as_document, metadata_of
from streams_runtime.queries.store_reading import (
    Entry,
    Page,
    fetch_windows,
    find_sessions,
    key_bytes,
    read_entries,
    read_key,
    read_versions,
)
from streams_runtime.state_stores.state_store import StateStore, StoreBuilder

MAX_ENTRIES = 10_000
DEFAULT_ENTRIES = 100
_JSON_PROBLEM = "application/problem+json"
_PROMETHEUS_TEXT = "text/plain; version=0.0.4; charset=utf-8"

Key = Annotated[str | None, Query(description="The key as text, read by the store's key serde.")]
KeyBase64 = Annotated[str | None, Query(description="The key's bytes in base64, instead of `key`.")]
Partition = Annotated[int | None, Query(description="Partition of the key; needed only for a custom partitioner.")]
MaxLag = Annotated[int | None, Query(ge=0, description="Accept any copy that is at most this many records behind.")]
Isolation = Annotated[
    IsolationLevel | None,
    Query(description="`read_committed`, or `read_uncommitted` to read also what no commit has written yet."),
]
Limit = Annotated[int, Query(ge=1, le=MAX_ENTRIES)]
Time = Annotated[int, Query(ge=0, le=JAVA_LONG_MAX, description="Milliseconds since the epoch.")]
WindowTime = Annotated[int | None, Query(ge=0, le=JAVA_LONG_MAX, description="For window stores only.")]
AsOf = Annotated[int | None, Query(ge=0, le=JAVA_LONG_MAX, description="For versioned stores only: the time to read.")]


@dataclass(frozen=True, slots=True)
class _KeyQuery:
    """The parameters that all queries of one key have."""

    key: Key = None
    key_base64: KeyBase64 = None
    partition: Partition = None
    max_lag: MaxLag = None
    isolation_level: Isolation = None


OfKey = Annotated[_KeyQuery, Depends()]
Bounds = TypeVarTuple("Bounds")
Read = Callable[[StoreBuilder, StateStore, bytes], Mapping[str, object]]


def create_query_app(instance: Queryable) -> FastAPI:
    """Makes the ASGI app with all routes, which a server can run."""
    app = FastAPI(title=f"stores of {instance.application_id}", docs_url=None, redoc_url=None)
    app.add_exception_handler(QueryProblem, _on_problem)
    app.add_exception_handler(RequestValidationError, _on_unreadable_request)
    app.add_exception_handler(HTTPException, _on_unknown_address)
    app.add_exception_handler(Exception, _on_fault)
    _add_instance_routes(app, instance)
    _add_store_routes(app, instance)
    return app


def _add_instance_routes(app: FastAPI, instance: Queryable) -> None:
    @app.get("/livez")
    def livez() -> Response:
        return JSONResponse({"status": "ok"})

    @app.get("/status")
    def status() -> Response:
        """The state of the instance, and its threads, tasks and lags."""
        return JSONResponse(dict(instance.status_document()))

    @app.get("/metrics")
    def metrics() -> Response:
        return Response(instance.metrics_text(), media_type=_PROMETHEUS_TEXT)

    @app.get("/v1/metadata")
    def metadata() -> Response:
        """The stores of the topology, and the hosts of their partitions."""
        return JSONResponse(as_document(metadata_of(instance)))


def _add_store_routes(app: FastAPI, instance: Queryable) -> None:
    @app.get("/v1/stores")
    def stores() -> Response:
        """All stores of the topology in the order of their names, with the copies on this instance."""
        found = [{"store": name, "copies": _copies(instance, name)} for name in sorted(instance.store_locations())]
        return JSONResponse({"application_id": instance.application_id, "stores": found})

    @app.get("/v1/stores/{store}")
    def copies(store: str) -> Response:
        """The copies of the store on this instance."""
        location_of(instance, store)
        return _answer(instance, store, copies=_copies(instance, store))

    @app.get("/v1/stores/{store}/key")
    def value_of_key(store: str, asked: OfKey, window_start_ms: WindowTime = None, as_of_ms: AsOf = None) -> Response:
        """The value of a key. `value_base64` is null if the key has no value."""

        def read(builder: StoreBuilder, view: StateStore, key: bytes) -> Entry:
            return read_key(builder, view, key, window_start_ms, as_of_ms)

        return _answer_of_key(instance, store, asked, read)

    @app.get("/v1/stores/{store}/windows")
    def windows_of_key(
        store: str, asked: OfKey, from_ms: Time, to_ms: Time, limit: Limit = DEFAULT_ENTRIES
    ) -> Response:
        """The windows of a key that start between `from_ms` and `to_ms`, inclusive, oldest first. There are at most
        `limit` windows. `more` is true if the key has more windows.
        """
        return _answer_of_key(instance, store, asked, _paged("windows", fetch_windows, from_ms, to_ms, limit))

    @app.get("/v1/stores/{store}/sessions")
    def sessions_of_key(
        store: str,
        asked: OfKey,
        earliest_end_ms: Time = 0,
        latest_start_ms: Time = JAVA_LONG_MAX,
        limit: Limit = DEFAULT_ENTRIES,
    ) -> Response:
        """The sessions of a key that end at `earliest_end_ms` or later, and start at `latest_start_ms` or earlier,
        oldest first. There are at most `limit` sessions. `more` is true if the key has more sessions.
        """
        return _answer_of_key(
            instance, store, asked, _paged("sessions", find_sessions, earliest_end_ms, latest_start_ms, limit)
        )

    @app.get("/v1/stores/{store}/versions")
    def versions_of_key(
        store: str, asked: OfKey, from_ms: Time = 0, to_ms: Time = JAVA_LONG_MAX, limit: Limit = DEFAULT_ENTRIES
    ) -> Response:
        """The versions of a key that were valid at some time between `from_ms` and `to_ms`, inclusive, newest first.
        There are at most `limit` versions. `more` is true if the key has more versions.
        """
        return _answer_of_key(instance, store, asked, _paged("versions", read_versions, from_ms, to_ms, limit))

    @app.get("/v1/stores/{store}/entries")
    def entries(
        store: str,
        max_lag: MaxLag = None,
        isolation_level: Isolation = None,
        limit: Limit = DEFAULT_ENTRIES,
        from_ms: WindowTime = None,
        to_ms: WindowTime = None,
    ) -> Response:
        """The first entries of each copy of the store on this instance, by task. A copy with a higher lag than
        `max_lag` is left out. Other instances may have more partitions of the store. In a window store, the entries are
        the windows that start between `from_ms` and `to_ms`, inclusive.
        """
        builder = builder_of(instance, store)
        wanted = instance.isolation_level(isolation_level)
        tasks, isolation = {}, wanted
        for where in partitions_here(instance, store, max_lag):
            found, source = answer_for_partition(
                instance, store, where, max_lag, wanted, lambda one: read_entries(builder, one, limit, from_ms, to_ms)
            )
            tasks[str(source.task_id)] = found
            isolation = source.isolation_of(wanted)  # the same for each copy: all copies are of the store's kind
        return _answer(instance, store, isolation_level=str(isolation), tasks=tasks)


def _answer_of_key(instance: Queryable, store: str, asked: _KeyQuery, read: Read) -> Response:
    """Calls the function `read` with the store's builder, a view of a copy and the bytes of the key. Raises
    QueryProblem.
    """
    builder = builder_of(instance, store)
    key = key_bytes(builder, asked.key, asked.key_base64)
    where = locate_key(instance, store, key, asked.partition)
    isolation = instance.isolation_level(asked.isolation_level)
    found, source = answer_for_partition(
        instance, store, where, asked.max_lag, isolation, lambda view: read(builder, view, key)
    )
    return _answer(instance, store, partition=where.partition, **_from(source, isolation), **found)


def _paged(name: str, find: Callable[[StoreBuilder, Any, bytes, *Bounds], Page], *bounds: *Bounds) -> Read:
    """Returns a function that finds the entries of a key, and makes the part of the answer that has them. `bounds`: the
    last arguments of the function `find`.
    """

    def read(builder: StoreBuilder, view: StateStore, key: bytes) -> Mapping[str, object]:
        entries, more = find(builder, view, key, *bounds)
        return {name: entries, "more": more}

    return read


def _copies(instance: Queryable, store: str) -> list[Mapping[str, object]]:
    return [
        {"task": str(copy.task_id), "role": str(copy.type), "state": str(copy.state), "lag": copy.lag}
        for copy in sorted(instance.store_copies(store), key=lambda each: each.task_id)
    ]


def _answer(instance: Queryable, store: str, **found: object) -> Response:
    return JSONResponse({"application_id": instance.application_id, "store": store, **found})


def _from(source: StoreCopy, wanted: IsolationLevel) -> Mapping[str, object]:
    return {
        "task": str(source.task_id),
        "role": str(source.type),
        "lag": source.reported_lag,
        "isolation_level": str(source.isolation_of(wanted)),
    }


def problem_response(problem: QueryProblem, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse(problem.document(), STATUS[problem.code], headers, media_type=_JSON_PROBLEM)


async def _on_problem(_request: Request, error: Exception) -> Response:
    assert isinstance(error, QueryProblem)
    return problem_response(error)


async def _on_unreadable_request(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    what = "; ".join(f"{one['loc'][-1]}: {one['msg']}" for one in error.errors())
    return await _on_problem(request, QueryProblem(QueryCode.INVALID_REQUEST, what))


async def _on_fault(request: Request, error: Exception) -> Response:
    # uvicorn closes the connection after this error. The header tells the caller not to send its next request over this
    # connection.
    return Response("Internal Server Error", 500, headers={"Connection": "close"})


async def _on_unknown_address(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        problem = QueryProblem(QueryCode.INVALID_REQUEST, f"{request.url.path} is read with GET, not {request.method}")
        document = {**problem.document(), "status": int(HTTPStatus.METHOD_NOT_ALLOWED)}
        return JSONResponse(document, error.status_code, headers={"Allow": "GET"}, media_type=_JSON_PROBLEM)
    return await _on_problem(
        request,
        QueryProblem(
            QueryCode.RESOURCE_NOT_FOUND,
            f"there is nothing at {request.url.path}: GET /v1/stores lists the stores, /openapi.json every call",
        ),
    )
