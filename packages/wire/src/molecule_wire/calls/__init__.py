"""The calls to the platform as pure functions.

For each call there is one function from its arguments to a `Request`, and one from the `Reply` to its result;
a refusal is raised as `CallFailed`. Nothing here opens a connection, reads a clock or rolls a dice: whoever
sends the requests (`molecule_agent` blocking, the runtime asynchronously) brings those.
"""

from molecule_wire.calls import (
    a2a,
    activity,
    delegations,
    failures,
    inbound,
    inbox,
    platform,
    plugins,
    registry,
    replies,
    retry,
    workspaces,
)
from molecule_wire.calls.delegations import DelegationPage
from molecule_wire.calls.inbound import InboundMessage, InboundSource, Lease
from molecule_wire.calls.registry import HeartbeatAnswer, PeerInfo, Registration
from molecule_wire.calls.retry import RetryPolicy
from molecule_wire.calls.values import CallFailed, Reply, Request
from molecule_wire.calls.workspaces import WorkspaceState

__all__ = [
    "CallFailed",
    "DelegationPage",
    "HeartbeatAnswer",
    "InboundMessage",
    "InboundSource",
    "Lease",
    "PeerInfo",
    "Registration",
    "Reply",
    "Request",
    "RetryPolicy",
    "WorkspaceState",
    "a2a",
    "activity",
    "delegations",
    "failures",
    "inbound",
    "inbox",
    "platform",
    "plugins",
    "registry",
    "replies",
    "retry",
    "workspaces",
]
