"""The senders of the soak: each asks with the same key until its message has an outcome."""

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import aiohttp

from molecule_wire.a2a import text
from scripts.soak.fleet import ADMIN_TOKEN

HOLD_SECONDS = 3
CALL_SECONDS = 10.0
PAUSE_SECONDS = (0.02, 0.2)
TERMINAL = ("answered", "failed", "expired", "cancelled")
_HEADERS = {"Authorization": f"Bearer {ADMIN_TOKEN}"}


class Outcome(NamedTuple):
    """What the platform told: the words of the answer, or the code of the failure."""

    answered: bool
    said: str


@dataclass
class Errand:
    """One message: where it goes, and what its sender was told about it."""

    number: int
    temper: str
    target_id: str
    message_id: str = ""
    told: list[Outcome] = field(default_factory=list[Outcome])

    @property
    def words(self) -> str:
        return f"{self.temper}-{self.number}"

    def request(self) -> dict[str, Any]:
        """Return the body that sends it."""
        parts = [{"kind": "text", "text": self.words}]
        message = {"role": "user", "messageId": f"m-{self.number}", "parts": parts}
        return {"jsonrpc": "2.0", "id": self.number, "method": "message/send", "params": {"message": message}}

    def hear(self, outcome: Outcome) -> None:
        """Keep what is new: an errand that was told two different things is what we look for."""
        if outcome not in self.told:
            self.told.append(outcome)


class Sender:
    """Runs errands against any process of the platform."""

    def __init__(self, session: aiohttp.ClientSession, urls: list[str]) -> None:
        self._session = session
        self._urls = urls

    async def run(self, errand: Errand) -> None:
        """Send, and go on asking until there is an outcome."""
        while not errand.told:
            outcome = await self.post(errand)
            if outcome is None and errand.message_id:
                outcome = await self.look(errand, wait=HOLD_SECONDS)
            if outcome is not None:
                errand.hear(outcome)
            else:
                await asyncio.sleep(random.uniform(*PAUSE_SECONDS))

    async def post(self, errand: Errand) -> Outcome | None:
        """The outcome as the sending call tells it, if it does."""
        headers = {"Idempotency-Key": f"soak-{errand.number}", "Prefer": f"wait={HOLD_SECONDS}"}
        path = f"/workspaces/{errand.target_id}/a2a"
        body = await self._call("POST", path, headers=headers, json=errand.request())
        if body is None:
            return None
        errand.message_id = body.get("message_id") or errand.message_id
        if "error" in body:
            return Outcome(False, str(body.get("code"))) if body.get("message_id") else None
        return None if body.get("queued") else Outcome(True, text.text_of(body["result"]))

    async def look(self, errand: Errand, wait: float = 0) -> Outcome | None:
        """The outcome as the row of the message tells it, if it has one."""
        row = await self._call("GET", f"/messages/{errand.message_id}?wait={wait}")
        if row is None or row.get("status") not in TERMINAL:
            return None
        if row["status"] == "answered":
            return Outcome(True, text.text_of(row["result"]))
        return Outcome(False, row["error"]["code"])

    async def events(self, kind: str) -> list[str]:
        """The message ids of every event of that kind."""
        found: list[str] = []
        since = "0"
        while True:
            rows = await self._call("GET", f"/events?since={since}&limit=1000&type={kind}")
            if not rows:
                return found
            found += [row["payload"]["message_id"] for row in rows]
            since = rows[-1]["id"]

    async def _call(self, method: str, path: str, **request: Any) -> Any:
        """The JSON that came back; None when the platform was not there to answer."""
        headers = _HEADERS | request.pop("headers", {})
        url = random.choice(self._urls) + path
        try:
            async with self._session.request(method, url, headers=headers, **request) as answer:
                return await answer.json()
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
            return None
