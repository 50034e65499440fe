"""Cards: who may see one, and its bytes, rewritten and signed once for as long as it stays the same."""

import hashlib
import time
from dataclasses import dataclass

from molecule_platform.domain import cards
from molecule_platform.domain.cards import Form
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.signing import Signer
from molecule_platform.ports.storage import Storage
from molecule_platform.services.identity.authorizer import Authorizer
from molecule_platform.services.keys.active_signers import ActiveSigners
from molecule_platform.services.keys.caller_assertions import encoded
from molecule_platform.services.support.signals import CARDS, Signals
from molecule_wire import JSON, JSONObject, jcs, jsontext

ALGORITHM = "ES256"
FRESH_SECONDS = 0.8  # whatever changes is seen within a second
MAX_REMEMBERED = 10_000
MOST_BYTES = 32 * 1024 * 1024


@dataclass
class ServedCard:
    """A card ready to send; it is right as long as what it was made from is the same."""

    body: bytes
    etag: str
    source: Workspace
    kid: str = ""

    def is_of(self, workspace: Workspace, kid: str) -> bool:
        """Whether the card would come out the same; `source` is moved on so that the next look is quick."""
        if self.kid != kid:
            return False
        if self.source is not workspace:
            if (self.source.agent_card, self.source.name) != (workspace.agent_card, workspace.name):
                return False
            self.source = workspace
        return True


class CardService:
    """Shows agents' cards as the gateway serves them. It never asks the agent."""

    def __init__(
        self, storage: Storage, signals: Signals, authority: Authorizer, keys: ActiveSigners, *, push: bool
    ) -> None:
        self._storage = storage
        self._authority = authority
        self._keys = keys
        self._push = push
        self._let_in: dict[str, dict[Principal | None, tuple[Workspace, float]]] = {}
        self._readers = 0
        self._changes = 0
        self._pages: dict[tuple[str, Form, str], ServedCard] = {}
        self._bytes = 0
        signals.watch(CARDS, self._forget)

    def _forget(self, workspace_id: str) -> None:
        self._changes += 1
        self._readers -= len(self._let_in.pop(workspace_id, ()))

    async def readable(self, caller: Principal | None, workspace_id: str) -> Workspace:
        """The workspace, if its card may be read; what was seen counts for a moment at most."""
        now = time.monotonic()
        readers = self._let_in.get(workspace_id)
        if readers is not None:
            for reader in (None, caller):
                seen = readers.get(reader)
                if seen is not None and seen[1] > now:
                    return seen[0]
        changes = self._changes
        workspace, everybody = await self._look(caller, workspace_id)
        if self._changes == changes:  # what changed while we looked may not be in what we saw
            self._remember(None if everybody else caller, workspace, now + FRESH_SECONDS)
        return workspace

    def _remember(self, reader: Principal | None, workspace: Workspace, until: float) -> None:
        if self._readers >= MAX_REMEMBERED:
            self._let_in.clear()
            self._readers = 0
        readers = self._let_in.setdefault(workspace.id, {})
        self._readers += reader not in readers
        readers[reader] = (workspace, until)

    async def _look(self, caller: Principal | None, workspace_id: str) -> tuple[Workspace, bool]:
        workspace = await self._storage.read(lambda tx: tx.workspaces.get(workspace_id))
        if workspace is not None and self._authority.is_public(workspace):
            return workspace, True
        if caller is None:
            # The same for a workspace that does not exist: a stranger learns nothing of ids.
            raise ApiError("unauthenticated", "this card is not public: send `Authorization: Bearer <token>`")
        admission = await self._authority.authorize(caller, cards.READERS, workspace_id)
        assert admission.workspace is not None
        return admission.workspace, False

    def page(self, workspace: Workspace, form: Form, base_url: str) -> ServedCard:
        """The card of a workspace in a form, signed; pure forms serve as extended cards too."""
        signer = self._keys.signer(ALGORITHM)
        key = (workspace.id, form, base_url)
        page = self._pages.get(key)
        if page is None or not page.is_of(workspace, signer.kid):
            page = self._keep(key, self._made(workspace, form, base_url, signer))
        return page

    def _made(self, workspace: Workspace, form: Form, base_url: str, signer: Signer) -> ServedCard:
        url = f"{base_url}/agents/{workspace.id}"
        card = cards.rewritten(workspace.agent_card or {}, workspace.name, url, push=self._push)
        protected = _protected(signer.kid, base_url)
        signatures = [_signature(signer, protected, part) for part in cards.signed_over(card, form)]
        body = jsontext.encode({**cards.in_form(card, form), "signatures": signatures})
        return ServedCard(body, etag_of(body), workspace, signer.kid)

    def _keep(self, key: tuple[str, Form, str], page: ServedCard) -> ServedCard:
        if self._bytes + len(page.body) > MOST_BYTES or len(self._pages) >= MAX_REMEMBERED:
            self._pages.clear()
            self._bytes = 0
        old = self._pages.get(key)
        self._bytes += len(page.body) - (0 if old is None else len(old.body))
        self._pages[key] = page
        return page


def etag_of(body: bytes) -> str:
    """A strong entity tag."""
    return f'"{hashlib.sha256(body).hexdigest()[:32]}"'


def original(workspace: Workspace) -> bytes:
    """The card as the agent registered it, with signatures of its own."""
    if workspace.agent_card is None:
        raise ApiError("not-found", f"the agent of {workspace.name} has not registered a card yet")
    return jsontext.encode(workspace.agent_card)


def _protected(kid: str, base_url: str) -> bytes:
    jku = f"{base_url}/.well-known/jwks.json"
    header: JSONObject = {"alg": ALGORITHM, "typ": "JOSE", "kid": kid, "jku": jku}
    return encoded(jsontext.encode(header))


def _signature(signer: Signer, protected: bytes, part: JSONObject) -> JSON:
    signed = signer.sign(protected + b"." + encoded(jcs.canonical(part)))
    return {"protected": protected.decode(), "signature": encoded(signed).decode()}
