"""The routes that a fake platform has, who may call them, and the way of a request to its handler."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias
from urllib.parse import unquote

from molecule_agent.testing.http_messages import (
    PlatformRequest,
    PlatformResponse,
    RequestRejected,
    RouteCall,
    workspace_not_found,
)
from molecule_agent.testing.inbox import Inbox
from molecule_agent.testing.members import FORGED, Members, gone, removed
from molecule_agent.testing.organisation import Organisation
from molecule_agent.testing.plugins import PluginCatalogue
from molecule_agent.testing.records import Workspace
from molecule_wire import ids

Handler: TypeAlias = Callable[[RouteCall], PlatformResponse]

MAX_BYTES, MAX_ANSWER_BYTES = 1024 * 1024, 16 * 1024 * 1024


class Route(NamedTuple):
    """One row of the table; `{id}` is a workspace and `{name}` whatever stands there."""

    method: str
    path: str
    handle: Handler
    most_bytes: int = MAX_BYTES


class Routes:
    """Finds the handler of a request, after asking who calls."""

    def __init__(
        self, organisation: Organisation, members: Members, inbox: Inbox, catalogue: PluginCatalogue
    ) -> None:
        self._organisation = organisation
        self._members = members
        self._table = (*_of_members(members), *_of_inbox(inbox), *_of_plugins(catalogue))

    def serves(self, request: PlatformRequest) -> bool:
        """Whether there is such a route."""
        return self._is_register(request) or self._matched(request) is not None

    def needs_token(self, request: PlatformRequest) -> bool:
        """Whether the route is closed to strangers; registering and what is gone are not."""
        matched = self._matched(request)
        return matched is not None and not self._tells_gone(matched[0], matched[1])

    def answer(self, request: PlatformRequest) -> PlatformResponse:
        """Answer one request. Raises `Refused`."""
        if self._is_register(request):
            caller = self._caller(request, tells_removed=True) if request.bearer else None
            return self._members.register(request, caller)
        matched = self._matched(request)
        if matched is None:
            raise RequestRejected("not-found", f"nothing is served at {request.path[:200]}")
        route, found = matched
        if len(request.body) > route.most_bytes:
            most = route.most_bytes
            raise RequestRejected(
                "payload-too-large", f"the body is larger than {most} bytes", limit_bytes=most
            )
        if self._tells_gone(route, found):
            raise gone(found["id"].lower())
        caller = self._caller(request, tells_removed="id" not in found)
        return route.handle(RouteCall(request, self._of_path(caller, found), found.get("name", "")))

    def _is_register(self, request: PlatformRequest) -> bool:
        return (request.method, request.path.rstrip("/")) == ("POST", "/registry/register")

    def _matched(self, request: PlatformRequest) -> tuple[Route, dict[str, str]] | None:
        segments = [unquote(part) for part in request.path.strip("/").split("/")]
        for route in self._table:
            found = _names_in(route.path, segments)
            if found is not None and route.method == request.method:
                return route, found
        return None

    def _tells_gone(self, route: Route, found: dict[str, str]) -> bool:
        """Whether this is the question for the state of a workspace that is unknown or removed."""
        if not route.path.endswith("/state"):
            return False
        known = self._organisation.workspaces.get(found["id"].lower())
        return known is None or known.removed_at is not None

    # Who calls

    def _caller(self, request: PlatformRequest, *, tells_removed: bool) -> Workspace:
        if not request.bearer:
            raise RequestRejected(
                "unauthenticated", "this needs a credential: send `Authorization: Bearer <token>`"
            )
        token = self._organisation.tokens.get(request.bearer)
        if token is None:
            raise RequestRejected("invalid-token", "this token is not known here")
        workspace = self._organisation.workspaces[token.workspace_id]
        if token.ended == "workspace-removed":
            if tells_removed:
                raise removed(workspace)
            raise RequestRejected("token-revoked", "this token ended when its workspace was removed")
        if token.ended:
            raise RequestRejected("token-revoked", "this token was revoked")
        _check_names(request, workspace)
        return workspace

    def _of_path(self, caller: Workspace, found: dict[str, str]) -> Workspace:
        """The workspace of the path, which must be the caller's own."""
        if "id" not in found:
            return caller
        named = found["id"]
        if not ids.is_uuid(named):
            raise RequestRejected("invalid-id", f"{named[:64]} is not a workspace id: it is a UUID")
        workspace = self._organisation.workspaces.get(named.lower())
        if workspace is None:
            raise workspace_not_found(named.lower())
        if workspace.removed_at is not None:
            raise removed(workspace)
        if workspace is not caller:
            raise RequestRejected("forbidden", f"workspace:{caller.id} may not do this")
        return workspace


def _check_names(request: PlatformRequest, workspace: Workspace) -> None:
    for header in ("X-Workspace-ID", "X-Source-Workspace-Id"):
        named = request.headers.get(header, "")
        if named.startswith(FORGED):
            raise RequestRejected(
                "forged-identity", "no request may name itself a system, webhook or channel identity"
            )
        if named and named.lower() != workspace.id:
            raise RequestRejected("identity-mismatch", "the named workspace is not the one of this token")


def _names_in(template: str, segments: list[str]) -> dict[str, str] | None:
    """What stands at the names of a template, when the path is one of it."""
    steps = template.strip("/").split("/")
    if len(steps) != len(segments):
        return None
    pairs = list(zip(steps, segments, strict=True))
    if any(want != have for want, have in pairs if not want.startswith("{")):
        return None
    return {want[1:-1]: have for want, have in pairs if want.startswith("{")}


def _of_members(members: Members) -> tuple[Route, ...]:
    return (
        Route("POST", "/registry/heartbeat", members.heartbeat),
        Route("GET", "/registry/{id}/peers", members.peers),
        Route("GET", "/workspaces/{id}/state", members.state),
        Route("GET", "/workspaces/{id}/secrets/values", members.secrets),
    )


def _of_inbox(inbox: Inbox) -> tuple[Route, ...]:
    message = "/workspaces/{id}/inbox/{name}"
    return (
        Route("GET", "/workspaces/{id}/inbox", inbox.peek),
        Route("POST", "/workspaces/{id}/inbox/lease", inbox.lease),
        Route("POST", f"{message}/extend", inbox.extend),
        Route("POST", f"{message}/progress", inbox.progress, MAX_ANSWER_BYTES),
        Route("POST", f"{message}/answer", inbox.answer, MAX_ANSWER_BYTES),
        Route("POST", f"{message}/reply", inbox.answer, MAX_ANSWER_BYTES),
        Route("POST", f"{message}/ack", inbox.ack),
        Route("POST", f"{message}/fail", inbox.fail),
        Route("POST", f"{message}/nack", inbox.fail),
        Route("POST", f"{message}/release", inbox.release),
    )


def _of_plugins(catalogue: PluginCatalogue) -> tuple[Route, ...]:
    return (
        Route("GET", "/workspaces/{id}/plugins/{name}/download", catalogue.download),
        Route("POST", "/workspaces/{id}/plugins", catalogue.report),
        Route("DELETE", "/workspaces/{id}/plugins/{name}", catalogue.forget),
        Route("GET", "/plugins/revocations", catalogue.revocations),
    )
