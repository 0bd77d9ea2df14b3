"""`/v1/tokens`: create, list and revoke tokens. The secret value is shown once, when the token is created."""

from typing import Annotated

from fastapi import Depends, Path, Request, Response

from coordinator_api.http.auth import CreatedTokens
from coordinator_api.http.call_rights import principal_of
from coordinator_api.http.dependencies import JsonBody, TheCoordinator, answer, named_router, problems
from coordinator_api.http.models.service_models import TOKEN_NAME_PATTERN, CreatedTokenAnswer, TokenBody, TokenList
from coordinator_api.http.problems import refusing_input
from coordinator_client.access.credentials import wall_clock_ms
from coordinator_client.access.principals import Principal, Right
from coordinator_client.access.tokens import check_name, end_ms, group_prefix

router = named_router(prefix="/v1/tokens", tags=["tokens"], responses=problems())

TokenJson = Annotated[TokenBody, Depends(JsonBody(TokenBody))]


# asynchronous, because FastAPI calls a synchronous dependency in a thread
async def _created_tokens(request: Request, _: TheCoordinator) -> CreatedTokens:
    created: CreatedTokens = request.app.state.access.created
    return created


TheTokens = Annotated[CreatedTokens, Depends(_created_tokens)]


@router.get("", responses={200: {"model": TokenList}})
async def list_tokens(request: Request, tokens: TheTokens) -> Response:
    """Lists the tokens that the caller may see. The list has no secret values, because the service stores only their
    hashes.

    `source`: `database` for a token that was created over HTTP. Only a token that was created over HTTP may be revoked.
    For any other token, `source` is the name of the setting that the token comes from.
    """
    return answer(TokenList(tokens=await tokens.visible_to(principal_of(request))))


@router.post("", status_code=201, responses={201: {"model": CreatedTokenAnswer}, **problems(409, 415)})
async def create_token(request: Request, tokens: TheTokens, body: TokenJson) -> Response:
    """Create a token (201). Only this answer contains the secret value.

    The first token of a service has to be an admin token for all groups. After the first token is created, every call
    needs a token. The field `note` of the answer warns the creator of the first token that every call now needs a
    token.
    """
    with refusing_input():
        principal = Principal(
            check_name(body.name, "body.name"), Right(body.right), group_prefix(body.groups, "body.groups")
        )
        expires_ms = None if body.expires is None else end_ms(body.expires, wall_clock_ms(), "body.expires")
    created_answer = answer(await tokens.create(principal_of(request), principal, expires_ms), 201)
    created_answer.headers["Cache-Control"] = "no-store"
    return created_answer


@router.delete("/{name}", status_code=204, responses=problems(404, 409))
async def revoke_token(
    request: Request, name: Annotated[str, Path(json_schema_extra={"pattern": TOKEN_NAME_PATTERN})], tokens: TheTokens
) -> None:
    """Revoke a token: the next call with this token is refused. If the service already holds a call with this token,
    the call still gets its answer.

    The last admin token for all groups cannot be revoked (409 `UNACCEPTABLE_CREDENTIAL`).
    """
    await tokens.revoke(principal_of(request), name)
