"""The event link: what changes in the organisation is heard at once, over a WebSocket."""

import logging
from collections.abc import Callable, Iterable
from urllib.parse import urlencode

from websockets.asyncio.client import connect
from websockets.exceptions import WebSocketException

from molecule_runtime.links import tokens
from molecule_runtime.links.platform_client import USER_AGENT
from molecule_runtime.links.time_source import SYSTEM_TIME, TimeSource
from molecule_wire import JSONObject, jsontext

FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 1.0, 30.0
MAX_FRAME_BYTES = 32 * 1024 * 1024
MISSED = "RESYNC_REQUIRED"
"""Events were missed for good: whoever keeps a copy of something reads it again."""

log = logging.getLogger("molecule_runtime")


class EventLink:
    """Listens for events of some types. After a lost connection it goes on with the event after the last."""

    def __init__(
        self,
        platform_url: str,
        types: Iterable[str],
        handle: Callable[[str, JSONObject], None],
        *,
        org_id: str = "",
        time_source: TimeSource = SYSTEM_TIME,
    ) -> None:
        self._url = "ws" + platform_url.removeprefix("http") + "/ws"
        self._types = ",".join(types)
        self._handle = handle
        self._org_id = org_id
        self._time = time_source
        self._last_id = ""
        self._pause = FIRST_PAUSE_SECONDS

    async def run(self) -> None:
        """Listen until cancelled; a platform that is away is tried again after 1 to 30 seconds."""
        while True:
            try:
                await self._listen()
            except (OSError, WebSocketException) as problem:
                log.info("the event link is down: %s; again in %g s", problem, self._pause)
            await self._time.sleep(self._pause * (0.75 + self._time.chance() / 2))
            self._pause = min(self._pause * 2, MAX_PAUSE_SECONDS)

    async def _listen(self) -> None:
        """Hear events until the connection ends, however it ends; the pause after it is the shortest."""
        headers = {"Authorization": f"Bearer {tokens.get_token() or ''}"}
        if self._org_id:
            headers["X-Molecule-Org-Id"] = self._org_id
        query = {"types": self._types, "since": self._last_id}
        url = f"{self._url}?{urlencode({name: value for name, value in query.items() if value})}"
        async with connect(
            url, additional_headers=headers, user_agent_header=USER_AGENT, max_size=MAX_FRAME_BYTES
        ) as socket:
            self._pause = FIRST_PAUSE_SECONDS
            async for frame in socket:
                self._take(frame)

    def _take(self, frame: str | bytes) -> None:
        try:
            event = jsontext.decode(frame.encode() if isinstance(frame, str) else frame)
        except jsontext.NotJSON:
            return
        if not isinstance(event, dict) or not isinstance(name := event.get("event"), str):
            return
        if event_id := event.get("id"):
            self._last_id = str(event_id)
        try:
            self._handle(name, event)
        except Exception:
            log.exception("event %s could not be handled", name)
