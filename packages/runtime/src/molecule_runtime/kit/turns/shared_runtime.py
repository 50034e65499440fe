"""What executors of the first generation share: reading a request, and saying who the peers are.

Programs import this module as `molecule_runtime.adapters.shared_runtime` or
`molecule_runtime.shared_runtime`; both are this very module.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from molecule_runtime.domain.peers import peer_of
from molecule_runtime.kit.setup.prompt import PEERS_HEADING, peer_section
from molecule_runtime.kit.turns.error_summaries import brief_task
from molecule_runtime.kit.turns.message_text import history_of, member, text_of_parts
from molecule_wire import JSONObject

__all__ = [
    "append_peer_guidance",
    "brief_task",
    "build_peer_section",
    "build_task_text",
    "extract_history",
    "extract_message_text",
    "format_conversation_history",
    "set_current_task",
    "summarize_peer_cards",
]


def extract_message_text(ctx_or_parts: Any) -> str:
    """The text of a request context, or of a list of parts, joined by one space."""
    message = member(ctx_or_parts, "message")
    parts = member(message, "parts") if message is not None else member(ctx_or_parts, "parts")
    return text_of_parts(ctx_or_parts if parts is None else parts)


def extract_history(ctx: Any) -> list[tuple[str, str]]:
    """The earlier words of the conversation as `("human"|"ai", text)`."""
    return history_of(ctx)


def format_conversation_history(history: Iterable[tuple[str, str]]) -> str:
    """The conversation in lines `User: …` and `Agent: …`."""
    return "\n".join(f"{'User' if role == 'human' else 'Agent'}: {text}" for role, text in history)


def build_task_text(user_message: str, history: Sequence[tuple[str, str]]) -> str:
    """The message with the conversation before it, for engines that keep none themselves."""
    if not history:
        return user_message
    transcript = format_conversation_history(history)
    return f"Conversation so far:\n{transcript}\n\nCurrent request: {user_message}"


def summarize_peer_cards(peers: Iterable[JSONObject]) -> list[dict[str, Any]]:
    """The peers that have a card as `{id, name, status, skills}`."""
    known = [peer for peer in map(peer_of, peers) if peer.has_card]
    return [
        {"id": peer.id, "name": peer.name, "status": peer.status, "skills": list(peer.skill_names)}
        for peer in known
    ]


def build_peer_section(
    peers: Iterable[JSONObject], *, heading: str = PEERS_HEADING, instruction: str = ""
) -> str:
    """The section of a prompt about peers, with a sentence on how to reach them; empty without peers."""
    section = peer_section(peers, heading)
    return f"{section}\n\n{instruction}" if section and instruction else section


def append_peer_guidance(
    base_text: str | None,
    peers_info: str,
    *,
    default_text: str = "",
    tool_name: str = "delegate_to_workspace",
) -> str:
    """A prompt with what is known of peers at its end, and the tool to reach them."""
    text = base_text or default_text
    if not peers_info.strip():
        return text
    return f"{text}\n\n## Peers\n{peers_info}\n\nUse {tool_name} to give a peer a task.".strip()


async def set_current_task(heartbeat: Any, task: str) -> None:
    """Show on the heartbeat what the agent works on; an empty text clears it. The kit counts the turns."""
    if heartbeat is not None:
        heartbeat.current_task = task
