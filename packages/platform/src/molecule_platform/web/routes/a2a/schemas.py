"""The standard A2A base of every workspace: JSON-RPC at its root, HTTP+JSON below, 1.0 and 0.3 side by side.

The paths are those of the protocol, so the rows are made from its table of operations.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from molecule_platform.domain import cards
from molecule_platform.domain.authorisation import ANY, Who, org_with, peer_with, self_with, workspace_with
from molecule_platform.domain.message_access import ANSWERERS
from molecule_platform.web.pipeline.route import EVENT_STREAM, Route
from molecule_platform.web.pipeline.schemas import RpcEnvelope
from molecule_wire.a2a import operations, versions
from molecule_wire.a2a.operations import Dialect, Operation

BASE = "/agents/{id}"
SENDERS = (self_with("ws.send"), peer_with("ws.send"), org_with("org.send"))

# How an agent's attempt may end while its sender waits, and why a message may not be taken.
_OF_SENDING = (
    "budget-exceeded",
    "hierarchy-denied",
    "idempotency-conflict",
    "mailbox-full",
    "peer-busy",
    "peer-unavailable",
    "peer-waking",
    "peer-unreachable",
    "unsafe-url",
    "invalid-agent-response",
    "skill-failed",
    "skill-timeout",
    "agent-busy",
    "deadline-exceeded",
    "delegation-limit",
)
_SUMMARIES = {
    operations.SEND: "Send a message to the agent",
    operations.STREAM: "Send a message and follow its task",
    operations.GET: "A task as it stands",
    operations.LIST: "The caller's tasks, the newest status first",
    operations.CANCEL: "Cancel a task",
    operations.SUBSCRIBE: "Follow a task, from its last seen event or from now",
    operations.PUSH_CREATE: "Have a task's events sent to a URL",
    operations.PUSH_GET: "One push config of a task",
    operations.PUSH_LIST: "The push configs of a task",
    operations.PUSH_DELETE: "Forget a push config",
}
_SENDS = (operations.SEND, operations.STREAM)
_STREAMS = (operations.STREAM, operations.SUBSCRIBE)
# Which tasks exist for somebody is decided by each task: for anyone else it does not, whatever they hold.
_READERS = (*ANSWERERS, org_with(""))
_STEERERS = (workspace_with("ws.send"), org_with(""))
_WHO = {
    operations.SEND: SENDERS,
    operations.STREAM: SENDERS,
    operations.GET: _READERS,
    operations.LIST: _READERS,
    operations.SUBSCRIBE: _READERS,
    operations.CANCEL: _STEERERS,
    operations.PUSH_CREATE: _STEERERS,
    operations.PUSH_GET: _READERS,
    operations.PUSH_LIST: _READERS,
    operations.PUSH_DELETE: _STEERERS,
    operations.EXTENDED_CARD: cards.READERS,
}


@dataclass(frozen=True)
class Binding:
    """What a row of the HTTP+JSON binding stands for."""

    operation: Operation
    dialect: Dialect


def who_may(operation: Operation | None) -> tuple[Who, ...]:
    """Who may ask for an operation at either door; what nobody knows, anybody is told."""
    return (ANY,) if operation is None else _WHO[operation]


def _bindings() -> Iterator[tuple[str, str, Binding]]:
    for operation in _SUMMARIES:
        for dialect in versions.SUPPORTED:
            path = operation.path(dialect)
            if path is None:
                continue
            path = path.replace("{id}", "{task_id}").replace("{cid}", "{config_id}")
            for verb in operation.verbs:
                yield verb, f"{BASE}{path}", Binding(operation, dialect)
                if dialect == "1.0":
                    yield verb, f"{BASE}/{{tenant}}{path}", Binding(operation, dialect)


BINDINGS = {(verb, path): binding for verb, path, binding in _bindings()}
"""(method, path) → what it stands for."""


def _row(verb: str, path: str, binding: Binding) -> Route:
    operation = binding.operation
    tenant = ", for a tenant" if "{tenant}" in path else ""
    return Route(
        "agent.rest",
        verb,
        path,
        who_may(operation),
        f"{_SUMMARIES[operation]} (A2A {binding.dialect}{tenant}).",
        reply=dict[str, Any],
        refusals=_OF_SENDING if operation in _SENDS else (),
        media=EVENT_STREAM if operation in _STREAMS else "application/json",
        errors="a2a",
        limit="a2a" if verb == "POST" else "api",
        admits_itself=True,
        quiet=True,
    )


ROUTES = (
    Route(
        "agent.rpc",
        "POST",
        BASE,
        SENDERS,
        "Every operation of A2A, as JSON-RPC (1.0 and 0.3).",
        reply=RpcEnvelope,
        refusals=_OF_SENDING,
        errors="a2a-rpc",
        limit="a2a",
        admits_itself=True,
        quiet=True,
    ),
    *(_row(verb, path, binding) for (verb, path), binding in BINDINGS.items()),
)
