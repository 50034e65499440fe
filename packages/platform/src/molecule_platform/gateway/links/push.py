"""Push: hand a message to an agent at the URL it registered."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from molecule_platform.domain import inbox
from molecule_platform.domain.messages import Message
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.egress import exchange, guard
from molecule_platform.egress.connector import Outbound
from molecule_platform.egress.exchange import Exchanged
from molecule_platform.gateway.links import replies
from molecule_platform.ports.links import Answered, Dispatch, Unanswered
from molecule_wire import JSON, jsontext, times
from molecule_wire.a2a import envelopes, text
from molecule_wire.a2a.operations import Dialect

LEGACY_PATH = "/a2a/inbound"


class PushLink:
    """See `ports.links.AgentLink`."""

    def __init__(self, outbound: Outbound, most_bytes: int, now: Callable[[], datetime]) -> None:
        self._outbound = outbound
        self._most_bytes = most_bytes
        self._now = now

    async def deliver(self, dispatch: Dispatch) -> Answered | Unanswered:
        """POST to the registered URL exactly as registered, and read the answer."""
        target, message = dispatch.target, dispatch.message
        dialect = dialect_of(target, message.dialect)
        try:
            answer = await exchange.exchange(
                self._outbound,
                "POST",
                target.url,
                headers=self._headers(dispatch, dialect),
                data=body_for(target, message, dialect),
                seconds=dispatch.seconds,
                most_bytes=self._most_bytes,
            )
        except guard.UnsafeUrl as problem:
            return Unanswered("unsafe-url", str(problem), retryable=False)
        except exchange.NoAnswer as problem:
            code = "invalid-agent-response" if problem.sent else "peer-unreachable"
            return Unanswered(code, f"{target.name}: {problem}", True, delivery_confirmed=problem.sent)
        except exchange.AnswerTooLarge as problem:
            return Unanswered(
                "invalid-agent-response", str(problem), retryable=False, delivery_confirmed=True
            )
        return self._read(answer, message, dialect)

    def _headers(self, dispatch: Dispatch, dialect: Dialect) -> dict[str, str]:
        message = dispatch.message
        headers = {
            "Content-Type": "application/json",
            "X-Molecule-Message-Id": message.id,
            "X-Molecule-Attempt": str(message.attempts),
            "X-Molecule-Deadline": times.format_time(message.deadline_at),
            "X-Timeout": str(max(1, int((message.deadline_at - self._now()).total_seconds()))),
        }
        if message.traceparent is not None:
            headers["traceparent"] = message.traceparent
        if dialect == "1.0":
            headers["A2A-Version"] = "1.0"
        if dispatch.dispatch_secret is not None:
            headers["Authorization"] = f"Bearer {dispatch.dispatch_secret}"
        return headers

    def _read(self, answer: Exchanged, message: Message, dialect: Dialect) -> Answered | Unanswered:
        return replies.read(answer.status, answer.headers, answer.body, message, dialect)


def dialect_of(target: Workspace, callers: str) -> Dialect:
    """The dialect to speak to an agent: the caller's where the agent has it, else 0.3."""
    spoken = set(target.protocols or ()) | _card_versions(target.agent_card or {})
    return "1.0" if callers == "1.0" and any(version.startswith("1.") for version in spoken) else "0.3"


def _card_versions(card: dict[str, Any]) -> set[str]:
    versions: list[JSON] = [card.get("protocolVersion")]
    interfaces: JSON = card.get("supportedInterfaces")
    for interface in interfaces if isinstance(interfaces, list) else ():
        if isinstance(interface, dict):
            versions.append(interface.get("protocolVersion"))
    return {version for version in versions if isinstance(version, str)}


def body_for(target: Workspace, message: Message, dialect: Dialect) -> bytes:
    """The stored bytes, converted when the agent lacks the dialect; with old members for an old server."""
    version = "1.0" if message.dialect == "1.0" else None
    request = envelopes.parse_request(message.body, version=version, lenient=True)
    body = envelopes.body_in(request, dialect)
    if not target.url.split("?", 1)[0].rstrip("/").endswith(LEGACY_PATH):
        return body
    old = {
        "task_id": message.task_id,
        "sender": message.caller,
        "message": text.text_of_message(inbox.received_message(message)),
        "idempotency_key": message.id,
    }
    return jsontext.set_members(body, (), old)
