"""The services over a real SQLite store and the in-process bus; clock and agent link are set by hand."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from molecule_platform.bus.memory import MemoryBus
from molecule_platform.domain import principals, tasks
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.messages import Message
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.ports.activity import ActivityFilter, ActivityRow
from molecule_platform.ports.agents import AgentEvent, Completed, Delivery, DeliveryFailed, InProgress, Tell
from molecule_platform.ports.people import Org
from molecule_platform.ports.provisioner import Provisioner
from molecule_platform.ports.storage import Transaction
from molecule_platform.services.dispatch.cancel_notifier import LISTEN_SECONDS
from molecule_platform.services.dispatch.delivery_attempt import AttemptLimits, DeliveryAttempt
from molecule_platform.services.dispatch.dispatcher import Dispatcher
from molecule_platform.services.events.event_feed import EventFeed
from molecule_platform.services.identity.authentication import AuthenticationService
from molecule_platform.services.identity.authorizer import Authorizer
from molecule_platform.services.identity.login import Login
from molecule_platform.services.identity.tokens import TokenService
from molecule_platform.services.keys.secrets import Sealing, SecretService
from molecule_platform.services.maintenance.sweeps import Sweeps
from molecule_platform.services.messaging.inbox.activity_polling import ActivityPolling
from molecule_platform.services.messaging.inbox.inbox_service import InboxService, LeaseRequest
from molecule_platform.services.messaging.messages.cancellation import CancelService
from molecule_platform.services.messaging.messages.mailbox_capacity import CapacityLimits
from molecule_platform.services.messaging.messages.message_service import DeliveryLimits, MessageService
from molecule_platform.services.messaging.messages.new_message import AcceptedMessage, NewMessage
from molecule_platform.services.messaging.messages.replies import Replies
from molecule_platform.services.messaging.tasks.task_service import TaskService
from molecule_platform.services.messaging.tasks.task_streams import TaskStreams
from molecule_platform.services.support import signals
from molecule_platform.services.support.outcome_waiters import OutcomeWaiters
from molecule_platform.services.support.signals import Signals
from molecule_platform.services.workspaces.directory import Directory
from molecule_platform.services.workspaces.heartbeats import Heartbeats
from molecule_platform.services.workspaces.lifecycle_services import LifecycleServices, LifecycleSettings
from molecule_platform.services.workspaces.provisioning import StartRules
from molecule_platform.services.workspaces.registration import ClaimRules, Registration, RegistrationRequest
from molecule_platform.services.workspaces.workspace_creation import CreatedWorkspace, NewWorkspace
from molecule_platform.storage.sqlite import SqliteStorage
from molecule_platform.testing.provisioner import FakeProvisioner
from molecule_wire import JSONObject
from molecule_wire.a2a import envelopes
from molecule_wire.a2a.envelopes import A2ARequest

if TYPE_CHECKING:
    from packages.platform.tests.conftest import FakeClock

BASE = "http://platform"
REPLICA = "replica-one"
ADMIN_TOKEN = "the-administrator-s-token"
AT_ONCE = LifecycleSettings(start=StartRules(wake_delays=(0.0, 0.0, 0.0), coalesce_seconds=0.0))
HELLO = {"kind": "message", "messageId": "a1", "role": "agent", "parts": [{"kind": "text", "text": "hi"}]}


Scripted = Completed | InProgress | DeliveryFailed | list[AgentEvent]


class ScriptedLink:
    """An agent link that remembers what it carried and answers what it is told to.

    A list is what the agent says as a stream that ends there.
    """

    def __init__(self) -> None:
        self.carried: list[Delivery] = []
        self.answers: list[Scripted] = []
        self.followed: list[str] = []
        self.looks: list[AgentEvent | DeliveryFailed] = []
        self.stopped: list[str] = []
        self.hung_up = 0
        self.in_one_piece = False
        self.free = asyncio.Event()
        self.free.set()

    async def deliver(self, dispatch: Delivery, tell: Tell) -> Completed | InProgress | DeliveryFailed:
        self.carried.append(dispatch)
        try:
            await self.free.wait()
        except asyncio.CancelledError:
            self.hung_up += 1
            raise
        return await self._played(
            self.answers.pop(0) if self.answers else Completed(json.dumps(HELLO).encode()), tell
        )

    async def follow(
        self, dispatch: Delivery, task_id: str, tell: Tell
    ) -> Completed | InProgress | DeliveryFailed:
        self.followed.append(task_id)
        await self.free.wait()
        unable = DeliveryFailed("invalid-agent-response", "the agent does not stream", True, True)
        return await self._played(self.answers.pop(0) if self.answers else unable, tell)

    async def _played(self, answer: Scripted, tell: Tell) -> Completed | InProgress | DeliveryFailed:
        if not isinstance(answer, list):
            return answer
        for said in [answer] if self.in_one_piece else [[one] for one in answer]:
            await tell(said)
        settled = answer[-1].kind == "message" or answer[-1].state in tasks.SETTLED
        return (
            Completed(task_state=answer[-1].state or "completed")
            if settled
            else InProgress(answer[-1].task_id)
        )

    async def look(self, dispatch: Delivery, task_id: str) -> AgentEvent | DeliveryFailed:
        unreachable = DeliveryFailed("peer-unreachable", "nobody answers", True, True)
        return self.looks.pop(0) if self.looks else unreachable

    async def cancel(self, dispatch: Delivery, task_id: str, said: JSONObject | None = None) -> None:
        self.stopped.append(task_id)


class Counted:
    """Figures that a test can read. See `ports.measures.Measures`."""

    def __init__(self) -> None:
        self.waits: list[float] = []
        self.attempts: list[str] = []
        self.expired = 0
        self.phantoms = 0

    def taken(self, waited_seconds: float) -> None:
        self.waits.append(waited_seconds)

    def attempt(self, outcome: str) -> None:
        self.attempts.append(outcome)

    def lease_expired(self) -> None:
        self.expired += 1

    def phantom_busy(self) -> None:
        self.phantoms += 1


class Lines:
    """A log that keeps its lines."""

    def __init__(self) -> None:
        self.said: list[tuple[str, dict[str, Any]]] = []

    def info(self, event: str, **fields: Any) -> None:
        self.said.append((event, fields))

    warning = error = info


def _backwards(plaintext: bytes, bound_to: str) -> tuple[bytes, bytes, str]:
    return b"nonce", plaintext[::-1] + b"|" + bound_to.encode(), "k1"


def _forwards(_nonce: bytes, ciphertext: bytes, key_id: str, bound_to: str) -> bytes:
    sealed, _, place = ciphertext.partition(b"|")
    if key_id != "k1" or place.decode() != bound_to:
        raise ValueError("cannot be opened")
    return sealed[::-1]


async def _check_url(url: str) -> None:
    if "10.0.0.1" in url:
        raise ApiError("invalid-url", "this address is private")


class Rig:
    """Every service of one replica."""

    def __init__(self, storage: SqliteStorage, signals: Signals, clock: FakeClock, org: Org) -> None:
        self.storage, self.signals, self.clock, self.org = storage, signals, clock, org
        self.link, self.log = ScriptedLink(), Lines()
        self.counted, self.signed = Counted(), "verified"
        self.sealing = Sealing(_backwards, _forwards)
        self.provisioner = FakeProvisioner()
        self.lifecycle_services = self.new_lives(self.provisioner)
        self.lifecycle = self.lifecycle_services.lifecycle
        self.identity = AuthenticationService(storage, signals, clock, ADMIN_TOKEN, org.id, shared=False)
        self.authority = Authorizer(storage, clock)
        self.login = Login(storage, clock, self.identity)
        self.tokens = TokenService(storage, clock)
        self.feed = EventFeed(storage, self.clock, signals, self.log)
        self.heartbeats = Heartbeats(storage, clock, self.log, self.feed, 90)
        self.limits = DeliveryLimits(capacity=CapacityLimits(max_open=5, sender_percent=100), max_attempts=2)
        self.streams, self.waiters = TaskStreams(storage, signals), OutcomeWaiters(signals)
        self.dispatcher = self.new_courier(REPLICA)
        self.delivery = MessageService(
            storage, signals, clock, REPLICA, self.limits, self.waiters, self.dispatcher
        )
        self.cancellation = CancelService(
            storage, clock, self.link, self.dispatcher, self.waiters, lambda _: None
        )
        self.replies = Replies(storage, clock, self.delivery, REPLICA)
        self.inbox = InboxService(storage, signals, clock, lambda: 0.5, max_releases=6)
        self.activity = ActivityPolling(storage, signals, clock)
        self.secrets = SecretService(storage, clock, self.sealing, self.lifecycle_services.restarts)
        self.directory = Directory(storage, clock)
        self.tasks = TaskService(storage, clock, self.delivery)
        self.sweeps = Sweeps(storage, clock, REPLICA, self.dispatcher, shared=False, measures=self.counted)
        self.admin = Principal(
            "user:admin", org.id, principals.ADMIN_SCOPES, "admin", "owner", credential="admin"
        )

    def new_courier(
        self,
        replica: str,
        secret: Callable[[Workspace], str | None] = lambda _: None,
        listen_seconds: float = LISTEN_SECONDS,
    ) -> Dispatcher:
        bounds = AttemptLimits(300, lambda: 0.5, listen_seconds)
        delivery_attempt = DeliveryAttempt(
            self.storage, self.clock, self.log, self.link, self.streams, self.waiters, bounds, secret
        )
        return Dispatcher(self.storage, self.signals, self.clock, delivery_attempt, replica, self.counted)

    def new_lives(
        self, provisioner: Provisioner | None, rules: LifecycleSettings = AT_ONCE, replica: str = REPLICA
    ) -> LifecycleServices:
        """The lives of workspaces over another provisioner, with other rules, or on another replica."""
        return LifecycleServices(
            self.storage,
            self.signals,
            self.clock,
            self.log,
            provisioner,
            self.sealing,
            _check_url,
            rules,
            self.counted,
            replica,
        )

    async def judge_card(self, _workspace_id: str, card: dict[str, Any]) -> str:
        """What a card with signatures is taken for; a test may set `signed`."""
        return self.signed if card.get("signatures") else "unsigned"

    def registration(self, **rules: Any) -> Registration:
        return Registration(
            self.storage,
            self.clock,
            ClaimRules(**rules),
            _check_url,
            self.judge_card,
            lambda text, place: f"{place}:{text[::-1]}",
            90,
        )

    async def created(
        self, name: str = "Ada", parent: Workspace | None = None, **plan: Any
    ) -> CreatedWorkspace:
        plan.setdefault("claimable", False)  # what can be claimed is hidden from most
        wanted = NewWorkspace(name=name, parent_id=parent.id if parent else None, **plan)
        return await self.lifecycle_services.creation.create(wanted, self.admin)

    async def agent(
        self, name: str = "Ada", url: str = "", parent: Workspace | None = None, **plan: Any
    ) -> Workspace:
        """A workspace whose agent has registered: by poll, or by push when it has a URL."""
        workspace = (await self.created(name, parent, **plan)).workspace
        application = RegistrationRequest(workspace.id, {"name": name}, url)
        return (await self.registration().register(application, of(workspace))).workspace

    async def restarted(self, workspace: Workspace, reason: str = "a secret changed") -> None:
        """Let something change that its agent starts with."""
        await self.storage.write(
            lambda tx: self.lifecycle_services.restarts.because(tx, workspace.id, reason)
        )

    async def changed(self, workspace: Workspace, **columns: Any) -> Workspace:
        version = (await self.workspace(workspace.id)).version + 1
        await self.storage.write(lambda tx: tx.workspaces.touch(workspace.id, **columns, version=version))
        return await self.workspace(workspace.id)

    async def workspace(self, workspace_id: str) -> Workspace:
        found = await self.storage.read(lambda tx: tx.workspaces.get(workspace_id))
        assert found is not None
        return found

    async def send(
        self, target: Workspace, said: str = "hello", caller: Principal | None = None, **more: Any
    ) -> AcceptedMessage:
        asked = request(
            said, **{name: more.pop(name) for name in ("ref", "context", "role", "dialect") if name in more}
        )
        return await self.delivery.accept(NewMessage(caller or self.admin, target, asked, **more))

    async def message(self, message_id: str) -> Message:
        return await self.delivery.get(message_id)

    async def events(self) -> list[str]:
        found = await self.storage.read(lambda tx: tx.events.after(0, 10_000))
        return [event.event_type for event in found]

    async def rows(self, workspace: Workspace, **wanted: Any) -> list[ActivityRow]:
        return await self.storage.read(lambda tx: tx.activity.rows(workspace.id, ActivityFilter(**wanted)))

    async def lease(self, workspace: Workspace, **wish: Any) -> list[dict[str, Any]]:
        answer = await self.inbox.lease(workspace, BASE, LeaseRequest(**wish), 0, lambda: False)
        return answer["messages"]

    async def at_cursor(self, workspace: Workspace, message: Message) -> None:
        """Deliver a message as a read of the activity log does."""

        def work(tx: Transaction) -> None:
            tx.mailbox.lease(message.id, kind="cursor", at=self.clock.now(), deadline_at=message.deadline_at)

        await self.storage.write(work)


def of(workspace: Workspace) -> Principal:
    """The principal of a workspace's own token."""
    text = principals.workspace_principal(workspace.id)
    return Principal(text, workspace.org_id, principals.WORKSPACE_SCOPES, workspace.name)


def request(
    said: str,
    ref: str | None = None,
    context: str | None = None,
    role: str = "user",
    dialect: str = "0.3",
    **inner: Any,
) -> A2ARequest:
    """A send, as the platform's path reads it."""
    message: dict[str, Any] = {"role": role, "parts": [{"kind": "text", "text": said}], **inner}
    if dialect == "1.0":
        message |= {"role": f"ROLE_{role.upper()}", "parts": [{"text": said}]}
    message |= {} if ref is None else {"messageId": ref}
    message |= {} if context is None else {"contextId": context}
    method = "message/send" if dialect == "0.3" else "SendMessage"
    body = json.dumps({"method": method, "params": {"message": message}}).encode()
    return envelopes.parse_request(body, version=dialect, lenient=True)


@pytest.fixture
async def rig(empty_database: Path, tmp_path: Path, clock: FakeClock) -> AsyncIterator[Rig]:
    """The services of one replica over an empty store with one organisation."""
    bus = MemoryBus()
    await bus.start()
    rung = Signals(bus)
    await rung.start()
    shutil.copy(empty_database, tmp_path / "molecule.db")
    storage = await SqliteStorage.open(tmp_path / "molecule.db", rung.notify)
    org = Org("org-one", "default", "Default organisation", clock.now())
    await storage.write(lambda tx: tx.people.insert_org(org))
    one = Rig(storage, rung, clock, org)
    yield one
    one.link.free.set()
    await one.lifecycle_services.provisioning.close()
    await one.dispatcher.stop()
    await storage.close()
    await bus.close()


@pytest.fixture(scope="session")
def principal_of() -> Callable[[Workspace], Principal]:
    """The principal of a workspace's own token."""
    return of


@pytest.fixture(scope="session")
def make_request() -> Callable[..., A2ARequest]:
    """A send, as the platform's path reads it."""
    return request


@pytest.fixture
def only_bells(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits hears the bell or nothing: nobody looks again on its own before a minute is over."""
    monkeypatch.setattr(signals, "LOOK_AGAIN_SECONDS", 60.0)


Refuses = Callable[[Awaitable[Any], str], Awaitable[ApiError]]


@pytest.fixture(scope="session")
def refuses() -> Refuses:
    """Expect a refusal with that code, and give it."""

    async def expect(work: Awaitable[Any], code: str) -> ApiError:
        with pytest.raises(ApiError) as refused:
            await work
        assert refused.value.code == code, refused.value
        return refused.value

    return expect
