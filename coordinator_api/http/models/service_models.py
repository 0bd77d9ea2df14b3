"""The bodies and answers about the service itself: its tokens, its health, its release, and the form of its errors."""

from typing import Literal

from pydantic import BaseModel, Field

from coordinator_api.http.models import StrictBody, TimeMs

TOKEN_NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._@-]{0,63}$"  # noqa: S105 (this is a pattern of names)
GROUPS_PATTERN = r"^[A-Za-z0-9._-]{0,248}\*$"


class TokenBody(StrictBody):
    """The body of a call that creates a token."""

    name: str = Field(
        pattern=TOKEN_NAME_PATTERN, description="Name of the owner, which is logged and listed.", examples=["ada"]
    )
    right: Literal["reader", "member", "operator", "admin"] = Field(
        description="Each right includes all rights that stand before it in this list."
    )
    groups: str = Field("*", pattern=GROUPS_PATTERN, description="A prefix of group ids and `*`; `*` for all groups.")
    expires: str | None = Field(
        None,
        max_length=64,
        description="A time such as 2027-01-31T00:00:00Z, or a duration such as P90D; null for never.",
        examples=["P90D"],
    )


class _TokenAnswer(BaseModel):
    name: str = Field(examples=["ada"])
    right: str = Field(examples=["reader"])
    groups: str = Field(examples=["*"])
    expires_ms: TimeMs | None


class CreatedTokenAnswer(_TokenAnswer):
    """A new token. `token`: the secret value of the token, which only this answer shows. `note`: a text about a further
    effect of the new token; null if the token has no further effect.
    """

    token: str = Field(examples=["asg_" + "x" * 43])
    note: str | None = Field(examples=[None])


class TokenLine(_TokenAnswer):
    """One token of the list. `source`: `database`, or the setting that contains the token. `created_ms`, `created_by`:
    the time of the creation, and the name of the caller that created the token; null for a token of a setting.
    """

    source: str = Field(examples=["database"])
    created_ms: TimeMs | None
    created_by: str | None = Field(examples=["auth.token"])


class TokenList(BaseModel):
    tokens: list[TokenLine]


class ServiceAnswer(BaseModel):
    """The description of the service. `links`: the main addresses of the service, by the names of their contents."""

    service: str = Field(examples=["assignor coordinator"])
    what: str = Field(examples=["The leader of Kafka Streams groups as a durable HTTP service."])
    release: str = Field(examples=["1.2.3"])
    links: dict[str, str] = Field(examples=[{"documentation": "/docs", "groups": "/v1/groups", "ready": "/readyz"}])


class VersionAnswer(BaseModel):
    """The answer of /version: the release of the service, its API versions, and the Kafka releases whose assignments it
    computes. `api_versions`: the API versions, which are the first part of each address, such as `v1`. `kafka_version`:
    the releases of Kafka Streams that compute the same assignments; a group's `kafka.version` chooses one of them.
    """

    version: str = Field(examples=["1.2.3"])
    api_versions: list[str] = Field(examples=[["v1"]])
    kafka_version: str = Field(examples=["4.3.1 and 4.4.0"])


class Health(BaseModel):
    status: Literal["ok"]


class Readiness(Health):
    """The readiness of the service. `parts`: for each part of the service, such as `store` and `groups`, "ok" or a
    problem.
    """

    parts: dict[str, str] = Field(examples=[{"store": "ok", "groups": "ok"}])


class ProblemDocument(BaseModel):
    """A problem as in RFC 9457. `code`: Kafka's name of the error. `offset`: the position of the byte that could not be
    read.
    """

    type: str = Field(examples=["urn:assignor:error:GROUP_ID_NOT_FOUND"])
    title: str = Field(examples=["No such group"])
    status: int = Field(examples=[404])
    code: str = Field(examples=["GROUP_ID_NOT_FOUND"])
    detail: str = Field(
        examples=["there is no group words: `assignor workers run` declares it, or PUT /v1/groups/words"]
    )
    offset: int | None = None
    where: str | None = None
    errors: list[dict[str, object]] | None = None
    instance: str | None = None
