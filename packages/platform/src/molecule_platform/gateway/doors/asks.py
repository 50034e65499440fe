"""What a caller asks for: its request, read and checked, and the wishes in its headers."""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from molecule_platform.api.calls import Call
from molecule_platform.api.nouns.a2a import Binding, who_may
from molecule_platform.domain.workspaces import Workspace, invalid
from molecule_platform.gateway.doors.framing import Framing, Headers
from molecule_platform.gateway.doors.speech import Speech
from molecule_platform.services.authority import Authority
from molecule_platform.services.tasks import Asking
from molecule_wire.a2a import envelopes, errors, extensions, operations, rest, versions
from molecule_wire.a2a.envelopes import Request
from molecule_wire.a2a.push_configs import Spelling
from molecule_wire.values import value

SENDS = (operations.SEND, operations.STREAM)
HOLD_MOST_SECONDS = 1800.0
TIMEOUT_MOST_SECONDS = 86_400
READ_ON_LOOP_BYTES = 256 * 1024
_PRINTABLE = re.compile(r"[\x20-\x7e]{1,255}")
_JSON = ("application/json", "")
_WISHED = frozenset({"x-timeout", "prefer", "idempotency-key", "x-molecule-queue"})
_WAIT = re.compile(r"wait=(\d{1,5})")


@value
class Ask:
    """One operation that somebody asks for, and how it is answered."""

    call: Call
    request: Request
    framing: Framing
    speech: Speech
    workspace: Workspace
    tenant: str = ""
    extensions: tuple[str, ...] = ()

    @property
    def asking(self) -> Asking:
        """Who asks, and where."""
        return Asking(self.call.principal, self.workspace, self.tenant)

    @property
    def echoed(self) -> Headers:
        """The extensions that are active, as the answer names them."""
        if not self.extensions:
            return ()
        active = extensions.activated(self.workspace.agent_card, self.extensions)
        if not active:
            return ()
        listed = ", ".join(active)
        return tuple((name, listed) for name in extensions.HEADERS if name in self.call.headers)


@value
class Wishes:
    """What the headers of a send ask for."""

    hold_seconds: float
    timeout_seconds: int | None
    idempotency_key: str | None
    never_queue: bool


def version_of(call: Call) -> str:
    """The version that a request names."""
    in_query = call.arrival.first("A2A-Version") if call.query else None
    return versions.named(call.headers.get("a2a-version"), in_query)


def check_content_type(headers: Mapping[str, str]) -> None:
    """Refuse a body that says it is no JSON, before anybody reads it."""
    given = headers.get("content-type", "")
    if given in _JSON:
        return
    media = given.partition(";")[0].strip().lower()
    if media not in _JSON and not media.endswith("+json"):
        raise errors.protocol_error(errors.CONTENT_TYPE_NOT_SUPPORTED)


def rpc_request(authority: Authority, call: Call, *, lenient: bool) -> Awaitable[Request]:
    """The JSON-RPC request."""
    return _read(authority, call, partial(_rpc_request, call, lenient))


def rest_request(authority: Authority, call: Call, binding: Binding) -> Awaitable[Request]:
    """The request that a path of the HTTP+JSON binding stands for."""
    return _read(authority, call, partial(_rest_request, call, binding))


async def _read(authority: Authority, call: Call, reading: Callable[[], Request]) -> Request:
    """A large body is read beside the event loop.

    Whoever may not know of an agent is not told what is wrong with a request to it either.
    """
    try:
        return reading() if len(call.raw) <= READ_ON_LOOP_BYTES else await asyncio.to_thread(reading)
    except errors.A2AError:
        await authority.same_org(call.principal, call.path["id"])
        raise


def _rpc_request(call: Call, lenient: bool) -> Request:
    check_content_type(call.headers)
    return envelopes.parse_request(call.raw, version=version_of(call), lenient=lenient)


def _rest_request(call: Call, binding: Binding) -> Request:
    versions.negotiate(version_of(call), binding.dialect, lenient=False)
    if call.raw:
        check_content_type(call.headers)
    query = {name: values[-1] for name, values in call.query.items()}
    return rest.parse_request(rest.Asked(binding.operation, binding.dialect, call.path, query, call.raw))


def rest_media(call: Call) -> str:
    """The type in which a caller of the HTTP+JSON binding is answered."""
    return rest.media(call.headers.get("accept", ""))


async def ask_of(
    authority: Authority, call: Call, request: Request, framing: Framing, spelling: Spelling
) -> Ask:
    """All that is known of an operation before it is done, for whoever may ask the agent for it.

    Which tasks it has for them is decided by each task.
    """
    operation = request.operation
    admission = await authority.admit(
        call.principal, who_may(operation), call.path["id"], to_send=operation in SENDS
    )
    assert admission.workspace is not None
    speech = Speech(spelling, envelopes.history_length(request))
    asked = extensions.asked(call.headers)
    return Ask(call, request, framing, speech, admission.workspace, _tenant(call, request), asked)


def _tenant(call: Call, request: Request) -> str:
    """The tenant, which path and body may both name but not differently."""
    in_path = call.path.get("tenant", "")
    if in_path and request.tenant not in ("", in_path):
        raise errors.invalid_params(errors.Violation("tenant", "is not the one that the path names"))
    return in_path or request.tenant


def wishes(call: Call, request: Request, default_hold: float | None) -> Wishes:
    """What the headers of a send ask for; it waits for the default if they do not say, for None never."""
    headers = call.headers
    hold = _hold(headers.get("prefer", ""), request, default_hold)
    if _WISHED.isdisjoint(headers):
        return Wishes(hold, None, None, never_queue=False)
    timeout = _timeout(headers.get("x-timeout"))
    return Wishes(
        hold_seconds=min(hold, timeout or hold),
        timeout_seconds=timeout,
        idempotency_key=_key(headers.get("idempotency-key")),
        never_queue=headers.get("x-molecule-queue", "").lower() == "never",
    )


def _hold(prefer: str, request: Request, default: float | None) -> float:
    if default is None or not request.blocking or "respond-async" in prefer:
        return 0.0
    if not prefer:
        return default
    asked = _WAIT.search(prefer)
    return min(float(asked[1]), HOLD_MOST_SECONDS) if asked else default


def _timeout(given: str | None) -> int | None:
    if given is None:
        return None
    if not given.isdecimal() or not 1 <= int(given) <= TIMEOUT_MOST_SECONDS:
        raise invalid("X-Timeout", f"X-Timeout is a whole number of seconds from 1 to {TIMEOUT_MOST_SECONDS}")
    return int(given)


def _key(given: str | None) -> str | None:
    if given is not None and not _PRINTABLE.fullmatch(given):
        raise invalid("Idempotency-Key", "Idempotency-Key has 1 to 255 printable characters")
    return given
