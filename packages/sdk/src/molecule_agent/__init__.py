"""The remote-agent SDK: a Python program, anywhere, becomes a workspace of a Molecule organisation."""

from importlib import import_module
from typing import TYPE_CHECKING

from molecule_agent import errors
from molecule_agent.client import RemoteAgentClient, make_idempotency_key, strip_a2a_boundary
from molecule_agent.errors import (
    A2AError,
    AccessDeniedError,
    AmbiguousPeerError,
    ApiError,
    AuthenticationError,
    BadRequestError,
    BudgetExceededError,
    CallerAssertionError,
    ConfigurationError,
    ConflictError,
    CursorLostError,
    DeadlineExceededError,
    DelegationLimitError,
    EnrolmentError,
    Fail,
    GoneError,
    IdempotencyConflictError,
    IdentityError,
    LeaseLostError,
    LockMismatchError,
    MailboxFullError,
    MoleculeError,
    NeedInput,
    NotFoundError,
    PayloadTooLargeError,
    PeerBusyError,
    PeerWakingError,
    PermissionDeniedError,
    PlatformTimeoutError,
    PlatformUnreachableError,
    PluginError,
    PluginIntegrityError,
    PluginManifestError,
    PluginNameError,
    PluginNotAllowedError,
    PluginRejectedError,
    PluginRevokedError,
    PluginSignatureError,
    PreconditionError,
    RateLimitedError,
    ScopeError,
    ServerError,
    SHA256MismatchError,
    TokenRejectedError,
    TokenStoreError,
    UnavailableError,
    UnprocessableError,
    UnsafeArchiveError,
    UnsupportedMediaTypeError,
    UpstreamError,
    WorkspaceRemovedError,
)
from molecule_wire.calls import InboundMessage, InboundSource, Lease, PeerInfo, RetryPolicy, WorkspaceState

if TYPE_CHECKING:
    from molecule_agent.a2a_server import A2AServer
    from molecule_agent.handlers import MessageHandler
    from molecule_agent.inbound import DEFAULT_POLL_INTERVAL, InboundDelivery, PollDelivery, PushDelivery
    from molecule_agent.inbox import InboxDelivery
    from molecule_agent.plugin_policy import PluginPolicy
    from molecule_agent.plugins.management import InstalledPlugin
    from molecule_plugin.digest import compute_plugin_sha256, verify_plugin_sha256
    from molecule_wire.answers import Answer
    from molecule_wire.calls.conversations import HistoryItem, Sender

__version__ = "0.1.0"

_ON_FIRST_USE = {
    "A2AServer": "molecule_agent.a2a_server",
    "Answer": "molecule_wire.answers",
    "DEFAULT_POLL_INTERVAL": "molecule_agent.inbound",
    "HistoryItem": "molecule_wire.calls.conversations",
    "InboundDelivery": "molecule_agent.inbound",
    "InboxDelivery": "molecule_agent.inbox",
    "InstalledPlugin": "molecule_agent.plugins.management",
    "MessageHandler": "molecule_agent.handlers",
    "PluginPolicy": "molecule_agent.plugin_policy",
    "PollDelivery": "molecule_agent.inbound",
    "PushDelivery": "molecule_agent.inbound",
    "Sender": "molecule_wire.calls.conversations",
    "compute_plugin_sha256": "molecule_plugin.digest",
    "verify_plugin_sha256": "molecule_plugin.digest",
}
"""What a program that only calls out never needs, and therefore does not load."""

__all__ = [
    "A2AError",
    "A2AServer",
    "AccessDeniedError",
    "AmbiguousPeerError",
    "Answer",
    "ApiError",
    "AuthenticationError",
    "BadRequestError",
    "BudgetExceededError",
    "CallerAssertionError",
    "ConfigurationError",
    "ConflictError",
    "CursorLostError",
    "DEFAULT_POLL_INTERVAL",
    "DeadlineExceededError",
    "DelegationLimitError",
    "EnrolmentError",
    "Fail",
    "GoneError",
    "HistoryItem",
    "IdempotencyConflictError",
    "IdentityError",
    "InboundDelivery",
    "InboundMessage",
    "InboundSource",
    "InboxDelivery",
    "InstalledPlugin",
    "Lease",
    "LeaseLostError",
    "LockMismatchError",
    "MailboxFullError",
    "MessageHandler",
    "MoleculeError",
    "NeedInput",
    "NotFoundError",
    "PayloadTooLargeError",
    "PeerBusyError",
    "PeerInfo",
    "PeerWakingError",
    "PermissionDeniedError",
    "PlatformTimeoutError",
    "PlatformUnreachableError",
    "PluginError",
    "PluginIntegrityError",
    "PluginManifestError",
    "PluginNameError",
    "PluginNotAllowedError",
    "PluginPolicy",
    "PluginRejectedError",
    "PluginRevokedError",
    "PluginSignatureError",
    "PollDelivery",
    "PreconditionError",
    "PushDelivery",
    "RateLimitedError",
    "RemoteAgentClient",
    "RetryPolicy",
    "SHA256MismatchError",
    "ScopeError",
    "Sender",
    "ServerError",
    "TokenRejectedError",
    "TokenStoreError",
    "UnavailableError",
    "UnprocessableError",
    "UnsafeArchiveError",
    "UnsupportedMediaTypeError",
    "UpstreamError",
    "WorkspaceRemovedError",
    "WorkspaceState",
    "__version__",
    "compute_plugin_sha256",
    "errors",
    "make_idempotency_key",
    "strip_a2a_boundary",
    "verify_plugin_sha256",
]


def __getattr__(name: str) -> object:
    if name not in _ON_FIRST_USE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_ON_FIRST_USE[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
