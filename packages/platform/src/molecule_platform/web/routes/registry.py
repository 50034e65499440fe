"""Registering, cards, discovery."""

import hashlib
from typing import Any

import msgspec

from molecule_platform.domain import addresses, authorisation, principals
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.lifecycle import HeartbeatReport
from molecule_platform.domain.workspaces import STATUSES, check_choice, invalid
from molecule_platform.services.identity.authorizer import Authorizer
from molecule_platform.services.workspaces import directory
from molecule_platform.services.workspaces.agent_search import AgentQuery, AgentSearch
from molecule_platform.services.workspaces.directory import Directory, DirectoryQuery
from molecule_platform.services.workspaces.heartbeats import Heartbeats
from molecule_platform.services.workspaces.registration import (
    CARD_MOST_BYTES,
    Registration,
    RegistrationRequest,
    RegistrationResult,
)
from molecule_platform.web.pipeline.calls import Call, Handler, Response
from molecule_platform.web.pipeline.etags import is_known
from molecule_platform.web.pipeline.paging import next_cursor
from molecule_platform.web.routes import registry_schemas as shapes
from molecule_wire import ids, jsontext

MAX_URL_LENGTH = 2048


class RegistryHandlers:
    """Serves /registry, heartbeats aside."""

    def __init__(
        self, registration: Registration, directory: Directory, search: AgentSearch, authority: Authorizer
    ) -> None:
        self._registration = registration
        self._directory = directory
        self._search = search
        self._authority = authority

    def handlers(self) -> dict[str, Handler]:
        """The handlers by route."""
        return {
            "registry.register": self.register,
            "registry.card": self.update_card,
            "registry.discover": self.discover,
            "registry.peers": self.peers,
            "registry.agents": self.agents,
        }

    async def register(self, call: Call) -> Response:
        """Let an agent in, by claim, token or proof."""
        application = _application(call.body, call.request.address)
        if call.caller is not None and call.caller.workspace_id is None:
            raise ApiError("identity-mismatch", "an agent registers with its workspace's own token")
        if call.caller is not None:
            own = authorisation.self_with("ws.runtime")
            authorisation.permit(call.caller, (own,), call.caller.workspace_id, None)
        else:
            await self._check_stranger(call, application.workspace_id)
        membership = await self._registration.register(application, call.caller)
        return Response(_membership(membership))

    async def _check_stranger(self, call: Call, workspace_id: str) -> None:
        """An agent without a credential may not call itself anything else, or be elsewhere."""
        for header in ("x-workspace-id", "x-source-workspace-id"):
            named = call.headers.get(header, workspace_id)
            if named.startswith(principals.FORGED_PREFIXES):
                raise ApiError("forged-identity", "no request may name itself a system identity")
            if named.lower() != workspace_id:
                raise ApiError("identity-mismatch", f"{header} is not the workspace that registers")
        org = call.headers.get("x-molecule-org-id")
        if org is not None:
            await self._authority.check_org_of(workspace_id, org)

    async def update_card(self, call: Call) -> Response:
        """Replace the card of the token's own workspace."""
        body: shapes.UpdateCard = call.body
        _check_card(body.agent_card)
        named = body.workspace_id.lower()
        if call.principal.workspace_id != named:
            raise ApiError("identity-mismatch", "workspace_id is not the workspace of this token")
        authorisation.permit(call.principal, call.route.who, named, None)
        workspace = await self._authority.same_org(call.principal, named)
        signature = await self._registration.update_card(workspace, body.agent_card)
        return Response({"status": "updated", **_signed(signature)})

    async def discover(self, call: Call) -> Response:
        """Where a workspace is reached."""
        return Response(directory.discovered(call.workspace, call.base_url))

    async def peers(self, call: Call) -> Response:
        """Whom this workspace may call."""
        asked: shapes.FindPeers = call.query_params
        wanted = DirectoryQuery(limit=asked.limit or None, cursor=asked.cursor, q=asked.q)
        page = await self._directory.peers(
            call.workspace, call.base_url, wanted, asked.relation, call.principal
        )
        return Response(page.rows, headers=next_cursor(page.next_cursor))

    async def agents(self, call: Call) -> Response:
        """Agents by what they say of themselves, the best first."""
        asked: shapes.FindAgents = call.query_params
        found = await self._search.find(
            call.principal, _question(asked), asked.limit, asked.cursor, call.base_url
        )
        body = msgspec.json.encode(found)
        tag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        headers = (("etag", tag), *next_cursor(found["next_cursor"]))
        if is_known(call, tag):
            return Response(None, 304, headers)
        return Response(body, 200, headers)


def _question(asked: shapes.FindAgents) -> AgentQuery:
    statuses = [check_choice("status", status, STATUSES) for status in asked.status if status]
    return AgentQuery(
        q=(asked.q or "").strip() or None,
        tags=tuple(tag for tag in asked.tag if tag),
        skill=asked.skill,
        capability=asked.capability,
        role=asked.role,
        statuses=tuple(statuses),
    )


def _application(body: shapes.Register, client_address: str) -> RegistrationRequest:
    named = (body.id or body.workspace_id or "").lower()
    if not named:
        raise invalid("id", "id is missing: the id of the workspace to register")
    if not ids.is_uuid(named):
        raise ApiError("invalid-id", f"{named[:64]} is not a workspace id: it is a UUID")
    _check_card(body.agent_card)
    url = addresses.with_plain_scheme((body.url or "").strip())
    if len(url) > MAX_URL_LENGTH:
        raise ApiError("invalid-url", f"url is longer than {MAX_URL_LENGTH} characters")
    return RegistrationRequest(
        workspace_id=named,
        agent_card=body.agent_card,
        url=url,
        delivery_mode=body.delivery_mode,
        protocols=body.protocols,
        enrolment_token=body.enrolment_token,
        recovery_secret=body.recovery_secret,
        dispatch_secret=body.dispatch_secret,
        replaces_worker=body.replaces_worker,
        client_address=client_address,
    )


def _check_card(card: dict[str, Any]) -> None:
    if len(jsontext.encode(card)) > CARD_MOST_BYTES:
        raise invalid("agent_card", f"agent_card is larger than {CARD_MOST_BYTES} bytes")


def _signed(card_signature: str) -> dict[str, Any]:
    """How the signatures of a card are, for whoever brought one that has any."""
    return {} if card_signature == "unsigned" else {"card_signature": card_signature}


def _membership(membership: RegistrationResult) -> dict[str, Any]:
    body: dict[str, Any] = {
        "status": "registered",
        "workspace_id": membership.workspace.id,
        "delivery_mode": membership.workspace.delivery_mode,
    }
    if not membership.applied:
        body["applied"] = False
    else:
        body |= _signed(membership.workspace.card_signature)
    if membership.auth_token is not None:
        body |= {"auth_token": membership.auth_token, "recovery_secret": membership.recovery_secret}
    return body


METADATA_MOST_BYTES = 32 * 1024


class HeartbeatHandler:
    """Serves POST /registry/heartbeat."""

    def __init__(self, heartbeats: Heartbeats) -> None:
        self._heartbeats = heartbeats

    async def handle(self, call: Call) -> Response:
        """Take a heartbeat of the token's own workspace."""
        body: shapes.Heartbeat = call.body
        workspace_id = own_workspace(call, body.workspace_id)
        if body.runtime_metadata and len(jsontext.encode(body.runtime_metadata)) > METADATA_MOST_BYTES:
            raise invalid("runtime_metadata", f"runtime_metadata is larger than {METADATA_MOST_BYTES} bytes")
        heard = await self._heartbeats.beat(workspace_id, _beat(body))
        return Response(heard.body())


def own_workspace(call: Call, named: str) -> str:
    """The workspace that the body names, when it is the token's own."""
    named = named.lower()
    if call.principal.workspace_id is None:
        raise ApiError("forbidden", "only a workspace token may do this")
    if call.principal.workspace_id != named:
        raise ApiError("identity-mismatch", "workspace_id is not the workspace of this token")
    if not call.principal.may("ws.runtime"):
        raise authorisation.scope_required(list(call.route.who))
    return named


def _beat(body: shapes.Heartbeat) -> HeartbeatReport:
    return HeartbeatReport(
        error_rate=body.error_rate or 0.0,
        sample_error=body.sample_error or "",
        active_tasks=body.active_tasks or 0,
        uptime_seconds=int(body.uptime_seconds or 0),
        current_task=body.current_task or "",
        monthly_spend=int(body.monthly_spend or 0),
        runtime_state=body.runtime_state or "",
        runtime_metadata=body.runtime_metadata,
    )
