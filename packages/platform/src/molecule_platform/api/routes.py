"""The route table. A route outside it cannot be served; a row without a handler stops the start."""

from dataclasses import dataclass
from typing import Literal

from molecule_platform.api import shapes
from molecule_platform.domain.authorisation import (
    ANY,
    PUBLIC,
    Who,
    org_with,
    peer_with,
    self_with,
    workspace_with,
)


@dataclass(frozen=True)
class Route:
    """One operation of the API."""

    name: str
    method: str
    path: str
    who: tuple[Who, ...]
    summary: str
    body: type[shapes.Body] | None = None
    errors: Literal["rest", "jsonrpc"] = "rest"
    a2a_body: bool = False
    # The route tells that an id is unknown or removed before it knows who asks.
    gone_first: bool = False
    # The handler applies `who` itself, because what is asked decides which rules hold.
    admits_itself: bool = False

    @property
    def is_page(self) -> bool:
        """Whether it can be asked for its headers alone: reading it has no effect for anyone."""
        return self.method == "GET" and self.who == (PUBLIC,)

    @property
    def is_public(self) -> bool:
        """Whether no credential is needed."""
        return PUBLIC in self.who


def _inbox(name: str, verb: str, body: type[shapes.Body], summary: str) -> Route:
    path = f"/workspaces/{{id}}/inbox/{{message_id}}/{verb}"
    return Route(name, "POST", path, (self_with("ws.inbox"),), summary, body)


_READ_MESSAGE = (ANY,)
_MANAGE = (self_with("ws.manage"), org_with("org.write"))
_TOKENS = (self_with("ws.manage"), org_with("org.tokens"))
_ORG_TOKENS = (org_with("org.tokens"),)
_WRITE_SECRETS = (self_with("ws.secrets.write"), org_with("org.secrets"))

TABLE: tuple[Route, ...] = (
    Route("health", "GET", "/health", (PUBLIC,), "The process is up."),
    Route("health", "GET", "/healthz", (PUBLIC,), "The same as /health."),
    Route("ready", "GET", "/ready", (PUBLIC,), "It can serve: storage, keys and migrations are fine."),
    Route("ready", "GET", "/readyz", (PUBLIC,), "The same as /ready."),
    Route("login.page", "GET", "/auth/login", (PUBLIC,), "The page that a login link opens."),
    Route(
        "login",
        "POST",
        "/auth/login",
        (PUBLIC,),
        "Exchange a one-time code or a token for a session.",
        shapes.SignIn,
    ),
    Route(
        "login.code",
        "POST",
        "/auth/login-codes",
        (org_with("org.tokens"),),
        "Make a one-time login link for a user.",
        shapes.NewLoginCode,
    ),
    Route("login.session", "GET", "/auth/session", (ANY,), "Who this credential is."),
    Route("login.out", "POST", "/auth/logout", (ANY,), "End the session."),
    Route(
        "registry.register",
        "POST",
        "/registry/register",
        (PUBLIC, self_with("ws.runtime")),
        "Claim a workspace, or say where its agent is now.",
        shapes.Register,
    ),
    Route(
        "registry.heartbeat",
        "POST",
        "/registry/heartbeat",
        (self_with("ws.runtime"),),
        "Say that the agent lives, how busy and how well it is.",
        shapes.Heartbeat,
    ),
    Route(
        "registry.card",
        "POST",
        "/registry/update-card",
        (self_with("ws.runtime"),),
        "Replace the agent card.",
        shapes.UpdateCard,
    ),
    Route(
        "registry.discover",
        "GET",
        "/registry/discover/{id}",
        (peer_with("ws.send"), self_with("ws.send"), org_with("org.read")),
        "Where a workspace is reached, always through the platform.",
    ),
    Route(
        "registry.peers",
        "GET",
        "/registry/{id}/peers",
        (self_with("ws.send"), org_with("org.read")),
        "The workspaces this one may call.",
    ),
    Route(
        "access.check",
        "POST",
        "/registry/check-access",
        (ANY,),
        "Whether one may call the other.",
        shapes.CheckAccess,
    ),
    Route("access.explain", "GET", "/access/explain", (ANY,), "Why one may, or may not, call the other."),
    Route(
        "grant.create",
        "POST",
        "/access/grants",
        (org_with("org.write"),),
        "Let one workspace call another for a while.",
        shapes.NewGrant,
    ),
    Route("grant.list", "GET", "/access/grants", (org_with("org.write"),), "The grants that hold."),
    Route("grant.delete", "DELETE", "/access/grants/{grant_id}", (org_with("org.write"),), "End a grant."),
    Route(
        "workspace.create",
        "POST",
        "/workspaces",
        (org_with("org.write"),),
        "Create a workspace.",
        shapes.CreateWorkspace,
    ),
    Route(
        "workspace.list",
        "GET",
        "/workspaces",
        (workspace_with(""), org_with("org.read")),
        "The organisation; a workspace sees itself and its peers.",
    ),
    Route(
        "workspace.show",
        "GET",
        "/workspaces/{id}",
        (self_with(""), peer_with(""), org_with("org.read")),
        "One workspace.",
    ),
    Route(
        "workspace.delete",
        "DELETE",
        "/workspaces/{id}",
        (org_with("org.write"),),
        "Remove a workspace and all below it.",
    ),
    Route(
        "workspace.state",
        "GET",
        "/workspaces/{id}/state",
        (self_with("ws.runtime"), org_with("org.read")),
        "Whether the agent should go on.",
        gone_first=True,
    ),
    Route("workspace.pause", "POST", "/workspaces/{id}/pause", _MANAGE, "Pause it and all below it."),
    Route(
        "workspace.resume",
        "POST",
        "/workspaces/{id}/resume",
        (org_with("org.write"),),
        "Undo a pause.",
    ),
    Route(
        "workspace.enrol",
        "POST",
        "/workspaces/{id}/enrolment-tokens",
        (org_with("org.tokens"),),
        "A single-use token for a replaced machine.",
        shapes.NewEnrolment,
    ),
    Route("token.list", "GET", "/workspaces/{id}/tokens", _TOKENS, "The living tokens of a workspace."),
    Route(
        "token.create",
        "POST",
        "/workspaces/{id}/tokens",
        _TOKENS,
        "A further token of a workspace.",
        shapes.NewToken,
    ),
    Route(
        "token.create",
        "POST",
        "/admin/workspaces/{id}/tokens",
        (org_with("admin"),),
        "The same, for the platform's administrator.",
        shapes.NewToken,
    ),
    Route(
        "token.rotate",
        "POST",
        "/workspaces/{id}/tokens/rotate",
        (self_with(""),),
        "A new token for the one presented, which ends after an overlap.",
        shapes.RotateToken,
    ),
    Route("token.delete", "DELETE", "/workspaces/{id}/tokens/{token_id}", _TOKENS, "End a token at once."),
    Route("org-token.list", "GET", "/org/tokens", _ORG_TOKENS, "The living tokens of the organisation."),
    Route(
        "org-token.create",
        "POST",
        "/org/tokens",
        _ORG_TOKENS,
        "A token of the organisation.",
        shapes.NewToken,
    ),
    Route("org-token.delete", "DELETE", "/org/tokens/{token_id}", _ORG_TOKENS, "End a token at once."),
    Route(
        "a2a",
        "POST",
        "/workspaces/{id}/a2a",
        (self_with("ws.send"), peer_with("ws.send"), org_with("org.send")),
        "Send a message (JSON-RPC, A2A 0.3 and 1.0).",
        errors="jsonrpc",
        a2a_body=True,
        admits_itself=True,
    ),
    Route("message.show", "GET", "/messages/{message_id}", _READ_MESSAGE, "A message and its outcome."),
    Route(
        "message.show",
        "GET",
        "/workspaces/{id}/a2a/queue/{message_id}",
        _READ_MESSAGE,
        "The same as /messages/{message_id}.",
    ),
    Route(
        "inbox.peek",
        "GET",
        "/workspaces/{id}/inbox",
        (self_with("ws.inbox"), org_with("org.read")),
        "What is open, without any effect.",
    ),
    Route(
        "inbox.lease",
        "POST",
        "/workspaces/{id}/inbox/lease",
        (self_with("ws.inbox"),),
        "Claim the next messages.",
        shapes.LeaseInbox,
    ),
    _inbox("inbox.extend", "extend", shapes.ExtendLease, "Keep a lease longer."),
    _inbox("inbox.answer", "answer", shapes.AnswerMessage, "Answer a message."),
    _inbox("inbox.answer", "reply", shapes.AnswerMessage, "The same as answer."),
    _inbox("inbox.ack", "ack", shapes.AckMessage, "The message was handled, nothing to say."),
    _inbox("inbox.fail", "fail", shapes.FailMessage, "The attempt failed."),
    _inbox("inbox.fail", "nack", shapes.FailMessage, "The same as fail."),
    _inbox("inbox.release", "release", shapes.ReleaseMessage, "Give a message back unstarted."),
    Route(
        "activity.list",
        "GET",
        "/workspaces/{id}/activity",
        (self_with("ws.inbox"), org_with("org.read")),
        "What the workspace did and received.",
    ),
    Route(
        "activity.notify",
        "POST",
        "/workspaces/{id}/notify",
        (self_with("ws.send"),),
        "Tell the people of the organisation something.",
        shapes.Notify,
    ),
    Route("event.list", "GET", "/events", (org_with("org.read"),), "What happened, newest first."),
    Route(
        "event.list",
        "GET",
        "/events/{id}",
        (org_with("org.read"),),
        "What happened to one workspace.",
    ),
    Route("event.live", "GET", "/ws", (org_with("org.read"),), "What happens, live, over a WebSocket."),
    Route(
        "secret.list",
        "GET",
        "/workspaces/{id}/secrets",
        (self_with("ws.secrets.read"), org_with("org.secrets")),
        "The keys that hold a value, never the values.",
    ),
    Route(
        "secret.values",
        "GET",
        "/workspaces/{id}/secrets/values",
        (self_with("ws.secrets.read"),),
        "The values, for the workspace itself and nobody else.",
    ),
    Route(
        "secret.put", "POST", "/workspaces/{id}/secrets", _WRITE_SECRETS, "Keep a value.", shapes.PutSecret
    ),
    Route("secret.put", "PUT", "/workspaces/{id}/secrets", _WRITE_SECRETS, "Keep a value.", shapes.PutSecret),
    Route("secret.delete", "DELETE", "/workspaces/{id}/secrets/{key}", _WRITE_SECRETS, "Forget a value."),
    Route(
        "org-secret.list",
        "GET",
        "/settings/secrets",
        (org_with("org.secrets"),),
        "The keys of the organisation's secrets.",
    ),
    Route(
        "org-secret.put",
        "POST",
        "/settings/secrets",
        (org_with("org.secrets"),),
        "Keep a value for every workspace of the organisation.",
        shapes.PutSecret,
    ),
    Route(
        "org-secret.put",
        "PUT",
        "/settings/secrets",
        (org_with("org.secrets"),),
        "Keep a value for every workspace of the organisation.",
        shapes.PutSecret,
    ),
    Route(
        "org-secret.delete",
        "DELETE",
        "/settings/secrets/{key}",
        (org_with("org.secrets"),),
        "Forget a value of the organisation.",
    ),
)
