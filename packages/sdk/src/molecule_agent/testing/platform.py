"""`FakePlatform`: a platform in memory, to test agents against."""

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, TypeAlias

from molecule_agent import clocks
from molecule_agent.testing import callers, loopback_server, views
from molecule_agent.testing.clock import FakeClock
from molecule_agent.testing.faults import ConnectionDropped, Faults, error_answer
from molecule_agent.testing.http_messages import (
    PlatformRequest,
    PlatformResponse,
    RequestRejected,
    SeenRequest,
)
from molecule_agent.testing.inbox import Inbox
from molecule_agent.testing.mailbox import Mailbox, failure
from molecule_agent.testing.members import Members
from molecule_agent.testing.organisation import Organisation
from molecule_agent.testing.plugins import PluginCatalogue
from molecule_agent.testing.responses import FakeSession
from molecule_agent.testing.routes import Routes
from molecule_wire import JSON, JSONObject

if TYPE_CHECKING:
    from molecule_plugin.keys import SigningKey

UnpinnedPolicy: TypeAlias = Literal["lock", "deny", "float"]
_Objection: TypeAlias = Callable[[str], None]


class FakePlatform:
    """Registration, heartbeats, state, secrets, peers, the durable inbox and plugin downloads, in memory.

    Any other route is 404. Its clock runs, and `advance` moves it ahead. With `strict=True` a request that no
    route serves, that lacks its token, or that shows a token to another origin, raises `AssertionError`.
    """

    def __init__(
        self,
        *,
        clock: clocks.Clock | None = None,
        unpinned_policy: UnpinnedPolicy = "lock",
        strict: bool = False,
    ) -> None:
        self.clock = FakeClock(clock)
        self.requests: list[SeenRequest] = []
        self._strict = strict
        self._organisation = Organisation(self.clock)
        self._mailbox = Mailbox(self.clock)
        self._catalogue = PluginCatalogue(unpinned_policy)
        self._faults = Faults()
        self._signer = callers.Signer(self.clock)
        members = Members(self._organisation, self._mailbox, self.clock)
        inbox = Inbox(self._organisation, self._mailbox, self.clock)
        self._routes = Routes(self._organisation, members, inbox, self._catalogue)
        self._origin = ""
        self._complaints: list[str] = []

    # How it is reached

    def session(self) -> FakeSession:
        """A session for `RemoteAgentClient(session=…)`; the first origin it calls is the platform's."""
        return FakeSession(self._from_session)

    @contextmanager
    def serve(self) -> Generator[str]:
        """Serve at a loopback address, which this gives, for as long as it is entered."""
        with loopback_server.listening(self._from_network, self.clock) as url:
            self._origin = url
            yield url
        if self._complaints:
            raise AssertionError("; ".join(self._complaints))

    def _from_session(self, request: PlatformRequest) -> PlatformResponse:
        if self._origin in ("", request.base):
            if self._routes.serves(request):
                self._origin = request.base
            return self._answer(request, refuse=self._raise)
        if request.bearer:
            self._object(f"a token was sent to {request.base}, which is not the platform", self._raise)
        raise ConnectionDropped

    def _from_network(self, request: PlatformRequest) -> PlatformResponse:
        return self._answer(request, refuse=self._complaints.append)

    def _answer(self, request: PlatformRequest, refuse: _Objection) -> PlatformResponse:
        with self.clock.changed:
            self.requests.append(request.seen())
            struck = self._faults.strike(request)
            if struck is not None:
                return struck
            if self._signer.serves(request):
                return self._signer.keys(request)
            self._inspect(request, refuse)
            self._organisation.notice_silence()
            self._mailbox.catch_up()
            try:
                return self._routes.answer(request)
            except RequestRejected as refusal:
                return refusal.answer()

    def _inspect(self, request: PlatformRequest, refuse: _Objection) -> None:
        if not self._routes.serves(request):
            self._object(f"the fake platform has no route {request.method} {request.path}", refuse)
        elif self._routes.needs_token(request) and not request.bearer:
            self._object(f"{request.method} {request.path} was sent without a token", refuse)

    def _object(self, sentence: str, refuse: _Objection) -> None:
        if self._strict:
            refuse(sentence)

    def _raise(self, sentence: str) -> None:
        raise AssertionError(sentence)

    # What there is

    def create_workspace(
        self, name: str = "agent", parent: str | None = None, role: str = "", external: bool = True
    ) -> str:
        """A new workspace, unclaimed; returns its id."""
        with self.clock.changed:
            return self._organisation.create(name, parent, role, external).id

    def connection(self, workspace_id: str) -> JSONObject:
        """What the creator of a workspace gets, with a new token, for `RemoteAgentClient.from_connection`.

        Its address is the served one, or one that a session of this platform answers for.
        """
        with self.clock.changed:
            workspace = self._organisation.living(workspace_id)
            claimed = workspace.claimed
            token, _ = self._organisation.mint(workspace)
            workspace.claimed = claimed  # by its first use, not by its making
        return {
            "workspace_id": workspace.id,
            "name": workspace.name,
            "platform_url": self._origin or "https://molecule.test",
            "auth_token": token,
        }

    def set_secret(self, workspace_id: str, key: str, value: str) -> None:
        """Give a workspace a secret."""
        with self.clock.changed:
            self._organisation.living(workspace_id).secrets[key] = value

    def add_plugin(
        self,
        name: str,
        files: Mapping[str, bytes],
        source: str | None = None,
        sign_with: "SigningKey | None" = None,
    ) -> str:
        """Put a plugin on the shelf, as `local://<name>` or where `source` says; returns its content digest.

        Another one under the same source is its next version. Without a `plugin.yaml` one is made that names
        the digest. `sign_with` is a key of `molecule_plugin` and needs the extra `crypto`.
        """
        with self.clock.changed:
            return self._catalogue.add(name, files, source, sign_with).content_sha256

    # What happens to it

    def pause(self, workspace_id: str) -> None:
        """Pause a workspace and all below it; what it holds waits again."""
        with self.clock.changed:
            for member in self._organisation.subtree(self._organisation.living(workspace_id)):
                member.status = "paused"
                for message in self._mailbox.of(member.id):
                    if message.status == "leased":
                        self._mailbox.release(message)

    def resume(self, workspace_id: str) -> None:
        """Undo a pause, for everything below too."""
        with self.clock.changed:
            self._organisation.resume(self._organisation.living(workspace_id))
            self.clock.changed.notify_all()

    def delete(self, workspace_id: str) -> None:
        """Remove a workspace and all below it for good."""
        with self.clock.changed:
            for member in reversed(self._organisation.subtree(self._organisation.living(workspace_id))):
                member.status, member.removed_at, member.url = "removed", self.clock.time(), ""
                self._organisation.end_tokens(member, "workspace-removed")
                error = failure("workspace-removed", f"workspace {member.name} was removed")
                for message in self._mailbox.of(member.id):
                    if message.is_open:
                        self._mailbox.end(message, "cancelled", error)

    def revoke_tokens(self, workspace_id: str) -> None:
        """Revoke every token of a workspace, and the recovery secrets with them."""
        with self.clock.changed:
            self._organisation.end_tokens(self._organisation.living(workspace_id), "revoked")

    def issue_enrolment_token(self, workspace_id: str) -> str:
        """A token with which an agent joins again, once, within the hour."""
        with self.clock.changed:
            return self._organisation.issue_enrolment(self._organisation.living(workspace_id))

    # Messages

    def send_user_message(self, workspace_id: str, text: str) -> str:
        """Put a person's message into an inbox; returns its id."""
        with self.clock.changed:
            target = self._organisation.living(workspace_id)
            return self._mailbox.send(target, "user:admin", "admin", text).id

    def send_peer_message(self, source_id: str, target_id: str, text: str) -> str:
        """Put one workspace's message into another's inbox, if the tree allows it; returns its id."""
        with self.clock.changed:
            source, target = (self._organisation.living(one) for one in (source_id, target_id))
            if source is not target and not self._organisation.relation(source, target):
                raise ValueError(f"the org tree does not let {source_id} reach {target_id}")
            return self._mailbox.send(target, f"workspace:{source.id}", source.name, text).id

    def outcome(self, message_id: str) -> views.MessageView:
        """A message as it stands now: its status and, once it has one, its answer or error."""
        with self.clock.changed:
            self._mailbox.catch_up()
            message = self._mailbox.messages.get(message_id)
            if message is None:
                raise ValueError(f"no message {message_id} was sent here")
            mode = self._organisation.workspaces[message.target_id].delivery_mode
            return views.message_row(message, mode)

    # Trouble

    def fail_next(
        self,
        method: str,
        path_glob: str,
        status: int = 503,
        times: int = 1,
        retry_after: float | str | None = None,
        body: JSON | bytes = None,
    ) -> None:
        """Answer the next requests that fit with an error, in the platform's form unless a body is given."""
        with self.clock.changed:
            self._faults.add(method, path_glob, times, error_answer(status, retry_after, body))

    def drop_next(self, method: str, path_glob: str, times: int = 1) -> None:
        """Break the connection of the next requests that fit, without an answer."""
        with self.clock.changed:
            self._faults.add(method, path_glob, times, None)

    def advance(self, seconds: float) -> None:
        """Move the clock ahead: sleeps and waits on it end, leases run out, back-offs are over."""
        self.clock.advance(seconds)
