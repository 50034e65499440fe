"""Who is calling: principals, their scopes, and what a role may do."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime

# The user that the platform's own token stands for; administrator wherever it is a member.
ADMINISTRATOR = "admin"
WORKSPACE_SCOPES = frozenset({"workspace"})
ADMIN_SCOPES = frozenset({"admin"})
# Acting as a workspace opens all it may do, but never what it alone may know.
IMPERSONATED_SCOPES = frozenset(
    {
        "ws.runtime",
        "ws.inbox",
        "ws.send",
        "ws.memory",
        "ws.secrets.write",
        "ws.plugins",
        "ws.manage",
        "ws.events",
    }
)

ROLE_SCOPES = {
    "viewer": frozenset({"org.read"}),
    "member": frozenset({"org.read", "org.send", "org.approve"}),
    "admin": frozenset(
        {
            "org.read",
            "org.send",
            "org.approve",
            "org.write",
            "org.secrets",
            "org.tokens",
            "org.audit",
            "metrics.read",
        }
    ),
    "owner": frozenset({"org", "metrics.read"}),
}

KNOWN_SCOPES = frozenset(
    {
        "workspace",
        *IMPERSONATED_SCOPES,
        "ws.secrets",
        "ws.secrets.read",
        "ws",
        "org",
        "org.read",
        "org.send",
        "org.approve",
        "org.write",
        "org.secrets",
        "org.tokens",
        "org.audit",
        "org.impersonate",
        "metrics.read",
        "grants:mint",
        "admin",
    }
)
ORG_TOKEN_SCOPES = ("org.read", "org.send", "org.write", "org.secrets", "org.approve")

FORGED_PREFIXES = ("system:", "webhook:", "channel:", "test:")


@dataclass(frozen=True)
class Principal:
    """An identity that a credential proved. `org_id` is the organisation it acts in."""

    text: str
    org_id: str
    scopes: frozenset[str]
    name: str
    role: str = ""
    expires_at: datetime | None = None
    # The token that proved it, when it speaks for itself.
    token_id: str | None = None
    # Who acts as this workspace; empty when the workspace's own token speaks.
    acted_by: str = ""
    # The kind and the digest of what proved it: streams and tickets end together with it.
    credential: str = field(default="", repr=False, compare=False)
    # The workspace behind the credential, if it is a workspace token.
    workspace_id: str | None = field(init=False, compare=False)

    def __post_init__(self) -> None:
        kind, _, rest = self.text.partition(":")
        object.__setattr__(self, "workspace_id", rest if kind == "workspace" else None)

    @property
    def is_admin(self) -> bool:
        """Whether this is the platform administrator, who may act in every organisation."""
        return "admin" in self.scopes

    def may(self, scope: str) -> bool:
        """Whether the scopes held imply `scope`."""
        return implies(self.scopes, scope)


def implies(held: Iterable[str], wanted: str) -> bool:
    """Whether a held scope implies the wanted one: itself, its umbrella, `admin` for all but `ws.*`."""
    if held == WORKSPACE_SCOPES:
        return wanted == "workspace" or is_workspace_scope(wanted)
    for scope in held:
        if scope == wanted or wanted.startswith(scope + "."):
            return True
        if scope == "workspace" and is_workspace_scope(wanted):
            return True
        if scope == "admin" and not wanted.startswith("ws."):
            return True
    return False


def grantable_scopes(held: Collection[str]) -> frozenset[str]:
    """The scopes of a workspace that a person or a token of the organisation may pass on.

    They hold them only by acting as the workspace, and what it alone may know only with the right to secrets.
    """
    return handed_out_scopes(held) if implies(held, "org.impersonate") else frozenset()


def handed_out_scopes(held: Collection[str]) -> frozenset[str]:
    """The scopes of the token that comes with a workspace, for whoever creates it."""
    return WORKSPACE_SCOPES if implies(held, "org.secrets") else IMPERSONATED_SCOPES


def is_workspace_scope(scope: str) -> bool:
    """Whether a scope is one of a workspace's own."""
    return scope in ("workspace", "ws") or scope.startswith("ws.")


def workspace_principal(workspace_id: str) -> str:
    """The text form of a workspace as a principal."""
    return f"workspace:{workspace_id}"
