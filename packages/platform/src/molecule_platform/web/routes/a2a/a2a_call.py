"""What a caller asks for: its request, read and checked, and the wishes in its headers."""

import re
from collections.abc import Callable, Mapping

from molecule_platform.domain.workspaces import Workspace, invalid
from molecule_platform.services.identity.authorizer import Authorizer
from molecule_platform.services.messaging.tasks.task_service import TaskQuery
from molecule_platform.services.support.worker_thread import run_in_thread_if_large
from molecule_platform.web.pipeline.calls import Call
from molecule_platform.web.routes.a2a.response_writer import A2AResponseWriter, Headers
from molecule_platform.web.routes.a2a.schemas import who_may
from molecule_wire.a2a import extensions
from molecule_wire.a2a.envelopes import A2ARequest
from molecule_wire.a2a.errors import A2AError
from molecule_wire.a2a.server.renderer import Renderer
from molecule_wire.a2a.server.requests import SENDS, Invocation
from molecule_wire.values import value

MAX_HOLD_SECONDS = 1800.0
MAX_TIMEOUT_SECONDS = 86_400
_PRINTABLE = re.compile(r"[\x20-\x7e]{1,255}")
_WISHED = frozenset({"x-timeout", "prefer", "idempotency-key", "x-molecule-queue"})
_WAIT = re.compile(r"wait=(\d{1,5})")


@value
class A2ACall:
    """One operation that somebody asks for, and how it is answered."""

    call: Call
    invocation: Invocation
    framing: A2AResponseWriter
    workspace: Workspace
    extensions: tuple[str, ...] = ()

    @property
    def request(self) -> A2ARequest:
        """The request that was read."""
        return self.invocation.request

    @property
    def renderer(self) -> Renderer:
        """What the caller reads."""
        return self.invocation.renderer

    @property
    def asking(self) -> TaskQuery:
        """Who asks, and where."""
        return TaskQuery(self.call.principal, self.workspace, self.invocation.tenant)

    @property
    def echoed(self) -> Headers:
        """The extensions that are active, as the answer names them."""
        if not self.extensions:
            return ()
        active = ", ".join(extensions.activated(self.workspace.agent_card, self.extensions))
        return tuple((name, active) for name in extensions.HEADERS if active and name in self.call.headers)


@value
class SendOptions:
    """What the headers of a send ask for."""

    hold_seconds: float
    timeout_seconds: int | None
    idempotency_key: str | None
    never_queue: bool


def query(call: Call) -> Mapping[str, str]:
    """The last value of each query parameter."""
    return {name: values[-1] for name, values in call.query.items()} if call.query else {}


async def read(authority: Authorizer, call: Call, reading: Callable[[], Invocation]) -> Invocation:
    """Read a request, a large one beside the event loop. Raises A2AError.

    Whoever may not know of an agent is not told what is wrong with a request to it either.
    """
    try:
        return await run_in_thread_if_large(len(call.raw), reading)
    except A2AError:
        await authority.same_org(call.principal, call.path["id"])
        raise


async def read_call(
    authority: Authorizer, call: Call, invocation: Invocation, framing: A2AResponseWriter
) -> A2ACall:
    """All that is known of an operation before it is done, for whoever may ask the agent for it.

    Which tasks it has for them is decided by each task.
    """
    operation = invocation.request.operation
    admission = await authority.authorize(
        call.principal, who_may(operation), call.path["id"], to_send=operation in SENDS
    )
    assert admission.workspace is not None
    return A2ACall(call, invocation, framing, admission.workspace, extensions.asked(call.headers))


def send_options(call: Call, request: A2ARequest, default_hold: float | None) -> SendOptions:
    """What the headers of a send ask for; it waits for the default if they do not say, for None never."""
    headers = call.headers
    hold = _hold(headers.get("prefer", ""), request, default_hold)
    if _WISHED.isdisjoint(headers):
        return SendOptions(hold, None, None, never_queue=False)
    timeout = _timeout(headers.get("x-timeout"))
    return SendOptions(
        hold_seconds=min(hold, timeout or hold),
        timeout_seconds=timeout,
        idempotency_key=_key(headers.get("idempotency-key")),
        never_queue=headers.get("x-molecule-queue", "").lower() == "never",
    )


def responds_async(call: Call) -> bool:
    """Whether the caller wants a receipt and no more (RFC 7240)."""
    return "respond-async" in call.headers.get("prefer", "")


def _hold(prefer: str, request: A2ARequest, default: float | None) -> float:
    if default is None or not request.blocking or "respond-async" in prefer:
        return 0.0
    if not prefer:
        return default
    asked = _WAIT.search(prefer)
    return min(float(asked[1]), MAX_HOLD_SECONDS) if asked else default


def _timeout(given: str | None) -> int | None:
    if given is None:
        return None
    if not given.isdecimal() or not 1 <= int(given) <= MAX_TIMEOUT_SECONDS:
        raise invalid("X-Timeout", f"X-Timeout is a whole number of seconds from 1 to {MAX_TIMEOUT_SECONDS}")
    return int(given)


def _key(given: str | None) -> str | None:
    if given is not None and not _PRINTABLE.fullmatch(given):
        raise invalid("Idempotency-Key", "Idempotency-Key has 1 to 255 printable characters")
    return given
