"""What is known of the chat API of one gateway: its features, and the sessions of conversations."""

import logging
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from molecule_runtime.kit.turns.executor import Turn
from molecule_runtime.runtimes.hermes import chat, sessions
from molecule_runtime.runtimes.hermes.a2a_sdk_bridge import TurnOrigin

MAX_SESSIONS = 1000
STATE_NAME = "session_id"
"""Where the session stands in the state of a context, which is kept in the snapshot."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ChatSession:
    """The session of a turn."""

    id: str
    headers: Mapping[str, str]
    is_active: bool
    """Whether hermes loads the history itself, so that it is not sent."""
    is_restored: bool
    """Whether it comes from the process before, and was not used in this one."""


class ChatSessions:
    """Features of a gateway, and its session for each chat; the one used longest ago is forgotten."""

    def __init__(self, workspace_id: str) -> None:
        self._workspace_id = workspace_id
        self._features: dict[str, Any] | None = None
        self._is_probed = False
        self._is_refused = False
        self._is_answered: bool | None = None
        self._known: OrderedDict[str, str] = OrderedDict()

    @property
    def can_stream(self) -> bool:
        """Whether the gateway says that it streams answers."""
        return bool((self._features or {}).get("chat_completions_streaming"))

    def take_features(self, features: dict[str, Any] | None) -> None:
        """Remember what a probe has found: None for a gateway that does not say what it can do."""
        self._features, self._is_probed = features, True

    def forget_features(self) -> None:
        """The gateway was not reached: the next one may be another version."""
        self._features, self._is_probed = None, False

    async def probe(self, base: str, headers: Mapping[str, str], timeout: float) -> None:
        """Ask the gateway what it can do, unless it is known."""
        if not self._is_probed:
            self.take_features(await chat.probe_features(base, headers, timeout))

    def session_of(self, turn: Turn, origin: TurnOrigin) -> ChatSession | None:
        """The session to send; None where the gateway keeps none, and the history is sent instead."""
        features = self._features
        if self._is_refused or not origin.chat_id:
            return None
        is_reported = bool((features or {}).get("session_continuity_header"))
        if features is not None and not is_reported:
            return None
        kept = turn.state.get(STATE_NAME)
        restored = kept if isinstance(kept, str) and sessions.is_session_id(kept) else ""
        used = self._known.get(origin.chat_id, "")
        named = used or restored or sessions.session_id_of(self._workspace_id, origin.chat_id)
        headers = {sessions.SESSION_HEADER: named}
        if (features or {}).get("session_key_header"):
            caller = turn.caller.principal if turn.caller is not None and turn.caller.verified else ""
            headers[sessions.SESSION_KEY_HEADER] = sessions.session_key_of(
                self._workspace_id, caller or origin.chat_id
            )
        # A gateway that does not say what it can do is believed until an answer comes without a session.
        is_active = is_reported or self._is_answered is not False
        return ChatSession(named, headers, is_active, is_restored=bool(restored) and not used)

    async def is_lost(
        self, session: ChatSession, base: str, headers: Mapping[str, str], timeout: float
    ) -> bool:
        """Whether hermes no longer has a session that an earlier process used."""
        if not (session.is_active and session.is_restored):
            return False
        return await chat.knows_session(base, headers, session.id, timeout) is False

    def refuse_sessions(self) -> None:
        """The gateway refused the header: it is not sent any more."""
        self._is_refused = True
        log.warning("the gateway refuses %s; histories are sent instead", sessions.SESSION_HEADER)

    def record(self, turn: Turn, origin: TurnOrigin, session: ChatSession | None, answered: str) -> None:
        """Remember the session that an answer names."""
        if session is None:
            return
        self._is_answered = bool(answered)
        self._known[origin.chat_id] = answered or session.id
        self._known.move_to_end(origin.chat_id)
        if len(self._known) > MAX_SESSIONS:
            self._known.popitem(last=False)
        if answered:
            turn.state[STATE_NAME] = answered
