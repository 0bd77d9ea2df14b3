"""The reasons why a query has no answer, as problem+json (RFC 9457). If Kafka has an exception with the same meaning,
the field `code` contains the name of this exception.

Source: `UnknownStateStoreException`, `InvalidStateStorePartitionException`, `StreamsNotStartedException`; `Errors`.
"""

from collections.abc import Mapping
from enum import StrEnum
from http import HTTPStatus

from assignor.errors import AssignorFault


class QueryCode(StrEnum):
    """A code states why a query has no answer.

    - `UNKNOWN_STATE_STORE`: the topology does not have this store.
    - `RESOURCE_NOT_FOUND`: the endpoint does not have this path.
    - `INVALID_STATE_STORE_PARTITION`: this instance does not have the partition. The answer names the hosts that have
      the partition.
    - `STORE_NOT_READY`: no copy of the store can answer at this moment.
    - `STALE_STORE`: the copy of the store has a higher lag than the caller accepts.
    - `STORE_FAILED`: the store or a serde failed.
    - `INVALID_REQUEST`: the query is invalid. A repeated query would fail, too.
    - `SASL_AUTHENTICATION_FAILED`: the token is missing or wrong.
    - `CLUSTER_AUTHORIZATION_FAILED`: the token is not valid for this application. An endpoint without tokens also sends
      `CLUSTER_AUTHORIZATION_FAILED` to calls for a host other than loopback, and to calls from web pages of other
      hosts.
    """

    UNKNOWN_STATE_STORE = "UNKNOWN_STATE_STORE"
    RESOURCE_NOT_FOUND = "RESOURCE_NOT_FOUND"
    INVALID_STATE_STORE_PARTITION = "INVALID_STATE_STORE_PARTITION"
    STORE_NOT_READY = "STORE_NOT_READY"
    STALE_STORE = "STALE_STORE"
    STORE_FAILED = "STORE_FAILED"
    INVALID_REQUEST = "INVALID_REQUEST"
    SASL_AUTHENTICATION_FAILED = "SASL_AUTHENTICATION_FAILED"
    CLUSTER_AUTHORIZATION_FAILED = "CLUSTER_AUTHORIZATION_FAILED"


STATUS: Mapping[QueryCode, int] = {
    QueryCode.UNKNOWN_STATE_STORE: 404,
    QueryCode.RESOURCE_NOT_FOUND: 404,
    QueryCode.INVALID_STATE_STORE_PARTITION: 421,
    QueryCode.STORE_NOT_READY: 503,
    QueryCode.STALE_STORE: 503,
    QueryCode.STORE_FAILED: 500,
    QueryCode.INVALID_REQUEST: 422,
    QueryCode.SASL_AUTHENTICATION_FAILED: 401,
    QueryCode.CLUSTER_AUTHORIZATION_FAILED: 403,
}

FINAL = frozenset(code for code, status in STATUS.items() if status < 500 and status != HTTPStatus.MISDIRECTED_REQUEST)
"""The codes after which a client gives up the query, because a repeated call or another instance would give the same
answer.
"""


class QueryProblem(AssignorFault):
    """The reason why a query has no answer. `extensions`: further fields of the problem document, such as the hosts to
    ask.
    """

    def __init__(self, code: QueryCode, detail: str, extensions: Mapping[str, object] | None = None) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail
        self.extensions = dict(extensions or {})

    def document(self) -> dict[str, object]:
        return {
            "type": f"urn:assignor:error:{self.code}",
            "title": str(self.code).replace("_", " ").capitalize(),
            "status": STATUS[self.code],
            "code": str(self.code),
            "detail": self.detail,
            **self.extensions,
        }
