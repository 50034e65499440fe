"""Skill SDK: write an agent as a class of typed async functions.

The same class runs in a unit test, on a laptop and behind A2A; only the `RunContext` changes.
Every public name is loaded on first use, so that importing the package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from molecule_skill.a2a_client import (
        A2AClient,
        CallResult,
        HttpA2AClient,
        InMemoryA2AClient,
        InProcessA2AClient,
        PlatformA2AClient,
    )
    from molecule_skill.agent import (
        A2AAgent,
    )
    from molecule_skill.auth import APIKeyAuthResolver, JWTAuthResolver, NoAuthResolver, PlatformResolver
    from molecule_skill.card import (
        AgentCard,
        CardSkill,
        SkillPolicy,
    )
    from molecule_skill.context import (
        RunContext,
    )
    from molecule_skill.declarations import (
        AgentEndpoint,
        AgentRuntime,
        Availability,
        EgressPolicy,
        Lifecycle,
        Pricing,
        Resources,
        State,
    )
    from molecule_skill.decorator import (
        skill,
        tool,
    )
    from molecule_skill.discovery import (
        DiscoveredAgent,
        DiscoveryClient,
        InMemoryDiscovery,
        RegistryDiscovery,
    )
    from molecule_skill.errors import (
        A2AError,
        AuthError,
        CallLimitExceeded,
        CallTimeout,
        CancelledByCaller,
        CapabilityUnavailable,
        Declined,
        GrantDelegationDenied,
        GrantInvalid,
        InsufficientBudget,
        InteractionTimeout,
        MissingScopes,
        OverlayConflict,
        RetryableError,
        RunRefused,
        SandboxRuntimeError,
        SandboxTimeout,
        SandboxUnavailable,
        ScopeDenied,
        ScopeExpansionNotAllowed,
        SkillInputError,
        SkillInvocationError,
        SkillNotFound,
        SkillOutputError,
        SkillTimeout,
        StateConflict,
        WorkspaceDenied,
    )
    from molecule_skill.events import (
        AgentEvent,
        ArtifactRef,
    )
    from molecule_skill.files import (
        FileUpload,
        UploadedFile,
    )
    from molecule_skill.hosted import (
        HostedRunContext,
        Invocation,
        RunGate,
    )
    from molecule_skill.identity import (
        APIKeyAuth,
        AuthResolver,
        JWTAuth,
        NoAuth,
        PlatformAuth,
    )
    from molecule_skill.interactions import (
        Decline,
    )
    from molecule_skill.lifecycle import (
        LifecycleContext,
    )
    from molecule_skill.local_context import (
        LocalRunContext,
    )
    from molecule_skill.sandbox import (
        SandboxClient,
    )
    from molecule_skill.spec import (
        SkillSpec,
    )
    from molecule_skill.store import (
        MemoryRunStore,
        RunStore,
        SqliteRunStore,
    )
    from molecule_skill.workspace import (
        WorkspaceAccess,
        WorkspaceClient,
        WorkspaceMode,
    )

__version__ = "0.1.0"

_HOMES = {
    "a2a_client": "A2AClient CallResult HttpA2AClient InMemoryA2AClient InProcessA2AClient PlatformA2AClient",
    "agent": "A2AAgent",
    "auth": "APIKeyAuthResolver JWTAuthResolver NoAuthResolver PlatformResolver",
    "card": "AgentCard CardSkill SkillPolicy",
    "context": "RunContext",
    "declarations": "AgentEndpoint AgentRuntime Availability EgressPolicy Lifecycle Pricing Resources State",
    "decorator": "skill tool",
    "discovery": "DiscoveredAgent DiscoveryClient InMemoryDiscovery RegistryDiscovery",
    "errors": "A2AError AuthError CallLimitExceeded CallTimeout CancelledByCaller CapabilityUnavailable "
    "Declined GrantDelegationDenied GrantInvalid InsufficientBudget InteractionTimeout "
    "MissingScopes OverlayConflict RetryableError RunRefused SandboxRuntimeError SandboxTimeout "
    "SandboxUnavailable ScopeDenied ScopeExpansionNotAllowed SkillInputError "
    "SkillInvocationError SkillNotFound SkillOutputError SkillTimeout StateConflict "
    "WorkspaceDenied",
    "events": "AgentEvent ArtifactRef",
    "files": "FileUpload UploadedFile",
    "hosted": "HostedRunContext Invocation RunGate",
    "identity": "APIKeyAuth AuthResolver JWTAuth NoAuth PlatformAuth",
    "interactions": "Decline",
    "lifecycle": "LifecycleContext",
    "local_context": "LocalRunContext",
    "sandbox": "SandboxClient",
    "spec": "SkillSpec",
    "store": "MemoryRunStore RunStore SqliteRunStore",
    "workspace": "WorkspaceAccess WorkspaceClient WorkspaceMode",
}
_HOME_OF = {name: f"molecule_skill.{home}" for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "A2AAgent",
    "A2AClient",
    "A2AError",
    "APIKeyAuth",
    "APIKeyAuthResolver",
    "AgentCard",
    "AgentEndpoint",
    "AgentEvent",
    "AgentRuntime",
    "ArtifactRef",
    "AuthError",
    "AuthResolver",
    "Availability",
    "CallLimitExceeded",
    "CallResult",
    "CallTimeout",
    "CancelledByCaller",
    "CapabilityUnavailable",
    "CardSkill",
    "Decline",
    "Declined",
    "DiscoveredAgent",
    "DiscoveryClient",
    "EgressPolicy",
    "FileUpload",
    "GrantDelegationDenied",
    "GrantInvalid",
    "HostedRunContext",
    "HttpA2AClient",
    "InMemoryA2AClient",
    "InMemoryDiscovery",
    "InProcessA2AClient",
    "InsufficientBudget",
    "InteractionTimeout",
    "Invocation",
    "JWTAuth",
    "JWTAuthResolver",
    "Lifecycle",
    "LifecycleContext",
    "LocalRunContext",
    "MemoryRunStore",
    "MissingScopes",
    "NoAuth",
    "NoAuthResolver",
    "OverlayConflict",
    "PlatformA2AClient",
    "PlatformAuth",
    "PlatformResolver",
    "Pricing",
    "RegistryDiscovery",
    "Resources",
    "RetryableError",
    "RunContext",
    "RunGate",
    "RunRefused",
    "RunStore",
    "SandboxClient",
    "SandboxRuntimeError",
    "SandboxTimeout",
    "SandboxUnavailable",
    "ScopeDenied",
    "ScopeExpansionNotAllowed",
    "SkillInputError",
    "SkillInvocationError",
    "SkillNotFound",
    "SkillOutputError",
    "SkillPolicy",
    "SkillSpec",
    "SkillTimeout",
    "SqliteRunStore",
    "State",
    "StateConflict",
    "UploadedFile",
    "WorkspaceAccess",
    "WorkspaceClient",
    "WorkspaceDenied",
    "WorkspaceMode",
    "__version__",
    "skill",
    "tool",
]


def __getattr__(name: str) -> object:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
