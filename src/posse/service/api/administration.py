"""The routes of whoever runs the service: deleting experiments, tokens, and the audit trail."""

from typing import Annotated, Literal

from fastapi import Path, Query, Request
from pydantic import BaseModel, Field

from posse.service import auth
from posse.service.admin.deletion import Delete
from posse.service.api.bodies import Body, ExperimentName, Name, Real
from posse.service.api.middleware import ApiRouter
from posse.service.api.routes import EXPERIMENT, LARGEST_NUMBER, Key, Limit, experiments
from posse.service.api.routes import Name as InPath
from posse.service.auth import CREATE, CreateToken, RevokeToken
from posse.service.settings import LONGEST_SECONDS
from posse.service.storage import audit

TOKENS = "/v1/tokens"
router = ApiRouter("administration")
Scopes = Annotated[list[Literal["decide", "reward", "read", "admin"]], Field(min_length=1, max_length=4)]


class TokenBody(Body):
    """A token to be made."""

    scopes: Scopes
    experiment: ExperimentName | None = Field(None, description="The only one that it is for; null for all")
    expires: Real | None = Field(None, gt=0, le=LONGEST_SECONDS, description="In how many seconds; null for never")
    label: Name | None = Field(None, description="To know it by, in the audit trail too")


class TokenAnswer(BaseModel):
    """A token that was made."""

    token: str = Field(description="The secret, which is shown only now")
    number: int


class TokenEntry(BaseModel):
    """A token, without its secret."""

    number: int
    scopes: Scopes
    experiment: str | None = Field(description="The only one that it is for; null for all")
    label: str
    created_at: float = Field(description="In seconds since 1970")
    expires_at: float | None
    revoked_at: float | None


class TokensAnswer(BaseModel):
    """All tokens, revoked ones too."""

    tokens: list[TokenEntry]


class RevocationAnswer(BaseModel):
    """The token that was revoked."""

    number: int


class DeletionAnswer(BaseModel):
    """The experiment that was deleted."""

    name: str
    decisions: int = Field(description="How many it had")


class AuditEntry(BaseModel):
    """Who changed what."""

    number: int
    at: float = Field(description="In seconds since 1970")
    who: str = Field(description="The token's label or number, or who else it was")
    action: str
    experiment: str = Field(description="Its name then; empty if it is about none")
    detail: str


class AuditAnswer(BaseModel):
    """The audit trail."""

    entries: list[AuditEntry]
    next: int | None = Field(description="Give it as `after` for the next entries; null at the end")


@experiments.endpoint("DELETE", EXPERIMENT, CREATE, 404)
async def delete_experiment(name: InPath, request: Request, idempotency_key: Key = None) -> DeletionAnswer:
    """Delete an archived experiment for good: everything there is of it, but for the audit trail. Its name is free."""
    made = await request.app.state.writer.apply(Delete(name, idempotency_key, request.state.grant.who))
    return DeletionAnswer(name=name, decisions=made)


@router.endpoint("POST", TOKENS, CREATE, 404, status_code=201)
async def create_token(body: TokenBody, request: Request, idempotency_key: Key = None) -> TokenAnswer:
    """Make a token. Its secret is shown only now: the same request with the same key is refused."""
    given = body.scopes, body.experiment, body.expires, body.label or ""
    secret = await request.app.state.writer.apply(CreateToken(*given, idempotency_key, request.state.grant.who))
    return TokenAnswer(token=secret, number=auth.token_number(secret) or 0)


@router.endpoint("GET", TOKENS, CREATE)
async def list_tokens(request: Request) -> TokensAnswer:
    """All tokens, by number, without their secrets."""
    found = await request.app.state.read_pool.query(auth.all_tokens)
    return TokensAnswer(
        tokens=[
            TokenEntry(**{**row._mapping, "number": row.id, "scopes": row.scopes.split(), "experiment": row.name})
            for row in found
        ]
    )


@router.endpoint("DELETE", TOKENS + "/{number}", CREATE, 404)
async def revoke_token(
    number: Annotated[int, Path(ge=1, lt=10**9)], request: Request, idempotency_key: Key = None
) -> RevocationAnswer:
    """Revoke a token; it is refused within a second."""
    await request.app.state.writer.apply(RevokeToken(number, idempotency_key, request.state.grant.who))
    return RevocationAnswer(number=number)


@router.endpoint("GET", "/v1/audit", CREATE)
async def read_audit(
    request: Request,
    after: Annotated[int, Query(ge=0, le=LARGEST_NUMBER, description="The last number that is known")] = 0,
    limit: Limit = 1000,
    experiment: Annotated[ExperimentName | None, Query(description="Only what is about this one")] = None,
) -> AuditAnswer:
    """Who changed what, in order."""
    found = await request.app.state.read_pool.query(audit.entries, after, limit, experiment)
    entries = [AuditEntry(number=row.id, **row._mapping) for row in found]
    return AuditAnswer(entries=entries, next=found[-1].id if len(found) == limit else None)
