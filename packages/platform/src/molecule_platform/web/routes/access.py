"""Who may call whom: checks, explanations, grants."""

from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.workspaces import invalid
from molecule_platform.services.identity.access_grants import (
    AccessGrants,
    GrantEdge,
    grant_row,
)
from molecule_platform.web.pipeline.calls import Call, Handler, Response
from molecule_platform.web.routes import access_schemas as shapes
from molecule_wire import ids, times


class AccessHandlers:
    """Serves /access and /registry/check-access."""

    def __init__(self, access: AccessGrants) -> None:
        self._access = access

    def handlers(self) -> dict[str, Handler]:
        """The handlers by route."""
        return {
            "access.check": self.check,
            "access.explain": self.explain,
            "grant.create": self.grant,
            "grant.list": self.grants,
            "grant.delete": self.revoke,
        }

    async def check(self, call: Call) -> Response:
        """Whether one may call the other."""
        body: shapes.CheckAccess = call.body
        return Response(await self._access.check(call.principal, body.caller_id, body.target_id))

    async def explain(self, call: Call) -> Response:
        """Why, or why not, rule by rule."""
        asked: shapes.Explain = call.query_params
        return Response(await self._access.explain(call.principal, asked.caller, asked.target))

    async def grant(self, call: Call) -> Response:
        """Let one workspace call another for a while."""
        body: shapes.NewGrant = call.body
        for workspace_id in (body.from_, body.to):
            if not ids.is_uuid(workspace_id):
                raise ApiError("invalid-id", f"{workspace_id[:64]} is not a workspace id: it is a UUID")
        try:
            expires_at = times.parse_time(body.expires_at)
        except ValueError as problem:
            raise invalid("expires_at", str(problem)) from problem
        edge = GrantEdge(body.from_.lower(), body.to.lower(), expires_at, body.reason, body.bidirectional)
        return Response(grant_row(await self._access.grant(call.principal, edge)), 201)

    async def grants(self, call: Call) -> Response:
        """The grants that hold."""
        return Response([grant_row(grant) for grant in await self._access.grants(call.principal)])

    async def revoke(self, call: Call) -> Response:
        """End a grant."""
        await self._access.revoke(call.principal, call.path["grant_id"])
        return Response({"status": "revoked"})
