"""The doors of cards: served from memory, with everything that lets a reader keep its copy."""

from email.utils import format_datetime
from typing import Any

from molecule_platform.domain.authorisation import PUBLIC, Who, org_with
from molecule_platform.domain.cards import READERS, Form
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.services.cards import card_service
from molecule_platform.services.cards.card_service import CardService
from molecule_platform.web.pipeline.calls import Call, Handler, Response
from molecule_platform.web.pipeline.route import Route
from molecule_wire.a2a import errors, rest, versions
from molecule_wire.a2a.operations import Dialect

_AGENT = "/agents/{id}"
# What a credential may be refused for, on a route that also serves those without one.
_CREDENTIALS = (
    "unauthenticated",
    "invalid-token",
    "token-revoked",
    "token-expired",
    "forbidden",
    "scope-required",
    "identity-mismatch",
    "forged-identity",
    "not-found",
)


def _card(name: str, path: str, who: tuple[Who, ...], summary: str, *status: int, **more: Any) -> Route:
    return Route(
        name,
        "GET",
        _AGENT + path,
        who,
        summary,
        reply=dict[str, Any],
        status=(200, *status),
        errors="a2a",
        quiet=True,
        **more,
    )


def _well_known(path: str, summary: str) -> Route:
    who = (PUBLIC, *READERS)
    return _card("card.show", path, who, summary, 304, refusals=_CREDENTIALS, has_head=True)


ROUTES = (
    _well_known("/.well-known/agent-card.json", "The card of an agent; everybody's, if it is public."),
    _well_known("/.well-known/agent.json", "The card at its former address."),
    _card(
        "card.original",
        "/.well-known/agent-card.original.json",
        (org_with("org.read"),),
        "The card as the agent registered it.",
        304,
    ),
    _card("card.extended", "/extendedAgentCard", READERS, "The card for callers who are known.", 304),
    _card("card.extended", "/{tenant}/extendedAgentCard", READERS, "The same, for a tenant.", 304),
    _card("card.extended-0.3", "/v1/card", READERS, "The card for callers who are known, in 0.3.", 304),
)


class CardHandlers:
    """Serves /agents/{id}/.well-known and the extended card over HTTP+JSON."""

    def __init__(self, shown: CardService) -> None:
        self._cards = shown

    def handlers(self) -> dict[str, Handler]:
        """The handlers by route."""
        return {
            "card.show": self.show,
            "card.original": self.original,
            "card.extended": self.extended,
            "card.extended-0.3": self.extended_0_3,
        }

    async def show(self, call: Call) -> Response:
        """The card in the form that the request names; the merged one when it names none."""
        workspace = await self._cards.readable(call.caller, call.path["id"])
        try:
            form: Form = versions.supported(_version(call)) or "merged"
        except errors.A2AError as error:
            return _refused(error)
        page = self._cards.page(workspace, form, call.base_url)
        return _kept(call, workspace, page.body, page.etag)

    async def original(self, call: Call) -> Response:
        """The card that the agent registered, for operators."""
        body = card_service.original(call.workspace)
        return _kept(call, call.workspace, body, card_service.etag_of(body), private=True)

    async def extended(self, call: Call) -> Response:
        """The whole card, in 1.0."""
        return self._extended(call, "1.0")

    async def extended_0_3(self, call: Call) -> Response:
        """The whole card, in 0.3."""
        return self._extended(call, "0.3")

    def _extended(self, call: Call, dialect: Dialect) -> Response:
        try:
            versions.negotiate(_version(call), dialect, lenient=False)
        except errors.A2AError as error:
            return _refused(error)
        page = self._cards.page(call.workspace, dialect, call.base_url)
        media = rest.media(call.headers.get("accept", ""))
        return _kept(call, call.workspace, page.body, page.etag, private=True, media=media)


def _version(call: Call) -> str:
    return versions.named(call.headers.get("a2a-version"), call.request.first("A2A-Version"))


def _kept(
    call: Call,
    workspace: Workspace,
    body: bytes,
    etag: str,
    *,
    private: bool = False,
    media: str = rest.JSON_MEDIA,
) -> Response:
    """A reply that can be kept for a minute, or word that the reader's copy is still right."""
    open_to_all = workspace.visibility == "public" and not private
    headers = (
        ("etag", etag),
        ("cache-control", "max-age=60" if open_to_all else "private, max-age=60"),
        ("last-modified", format_datetime(workspace.updated_at, usegmt=True)),
        ("vary", "A2A-Version, Authorization"),
    )
    kept = call.headers.get("if-none-match")
    if kept is not None and _names(kept, etag):
        return Response(None, 304, headers, media)
    return Response(body, 200, headers, media)


def _names(header: str, etag: str) -> bool:
    """Whether a list of entity tags has ours; for reading, a weak one is as good."""
    return header.strip() == "*" or any(tag.strip().removeprefix("W/") == etag for tag in header.split(","))


def _refused(error: errors.A2AError) -> Response:
    return Response(error.to_rest(), error.http_status)
