"""The service itself: its tokens, its health, its release, and the form of its errors."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from coordinator_api.http.models import StrictBody

TOKEN_NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$"  # noqa: S105 (of names)
GROUPS_PATTERN = r"^[A-Za-z0-9._-]{0,248}\*$"


class TokenBody(StrictBody):
    """A token to create."""

    name: str = Field(pattern=TOKEN_NAME_PATTERN, description="Whose it is. Shown, logged and listed.")
    right: Literal["reader", "member", "operator", "admin"] = Field(
        description="What it allows; each right includes those before it."
    )
    groups: str = Field("*", pattern=GROUPS_PATTERN, description="A prefix of group ids and `*`; `*` for all groups.")
    expires: str | None = Field(
        None,
        max_length=64,
        description="A time such as 2027-01-31T00:00:00Z, or a duration such as P90D; null for never.",
    )


class _TokenAnswer(BaseModel):
    name: str
    right: str
    groups: str
    expires_ms: int | None


class CreatedTokenAnswer(_TokenAnswer):
    """`token`: told this once. `note`: what else has changed; null for nothing."""

    token: str
    note: str | None


class TokenLine(_TokenAnswer):
    """`source`: `database`, or the setting that has it; then nobody knows who created it, and when."""

    source: str
    created_ms: int | None
    created_by: str | None


class TokenList(BaseModel):
    tokens: list[TokenLine]


class ServiceAnswer(BaseModel):
    """`links`: where to go, by what is there."""

    service: str
    what: str
    release: str
    links: dict[str, str]


class VersionAnswer(BaseModel):
    """`api_versions`: how addresses begin. `kafka_version`: of the Kafka Streams whose assignments these are."""

    version: str
    api_versions: list[str]
    kafka_version: str


class Health(BaseModel):
    status: Literal["ok"]


class Readiness(Health):
    """`parts`: `store` and `groups`, each with "ok" or what is wrong."""

    parts: dict[str, str]


class ProblemDocument(BaseModel):
    """RFC 9457. `code`: Kafka's name of the error; `offset`: the byte at which reading failed."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "urn:assignor:error:GROUP_ID_NOT_FOUND",
                    "title": "No such group",
                    "status": 404,
                    "code": "GROUP_ID_NOT_FOUND",
                    "detail": "there is no group words: declare it by PUT",
                }
            ]
        }
    )

    type: str
    title: str
    status: int
    code: str
    detail: str
    offset: int | None = None
    where: str | None = None
    errors: list[dict[str, object]] | None = None
    instance: str | None = None
