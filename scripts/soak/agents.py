"""The agents of the soak. Whenever one is asked it says something new: two answers can be told apart."""

import asyncio
import random
import secrets
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import aiohttp
from aiohttp import web

from molecule_wire.a2a import text

SLOW_SECONDS = (0.1, 1.0)
BUSY_SHARE = 0.3
UP_SECONDS = (1.0, 4.0)
DOWN_SECONDS = (0.5, 2.0)
LEASE_SECONDS = 10
POLL_SECONDS = 2
POLL_PAUSE_SECONDS = 0.2

Seen: TypeAlias = defaultdict[str, Counter[str]]
"""What an agent was given: for the words of a message, how often under which message id of the platform."""


def new_seen() -> Seen:
    return defaultdict(Counter)


def reply_to(words: str) -> str:
    return f"re: {words} {secrets.token_hex(4)}"


class PushAgent:
    """An agent with a URL on loopback. `temper` decides what happens to a request before it is answered."""

    def __init__(self, seen: Seen, temper: Callable[[], Awaitable[web.Response | None]]) -> None:
        self._seen = seen
        self._temper = temper
        self._runner: web.AppRunner | None = None
        self._port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/"

    async def open(self) -> None:
        """Listen: the first time on any port, later on the same one."""
        app = web.Application()
        app.router.add_post("/", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self._port, reuse_address=True)
        await site.start()
        self._port = self._runner.addresses[0][1]

    async def close(self) -> None:
        """Stop listening and drop whoever is connected."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _handle(self, request: web.Request) -> web.Response:
        body = await request.json()
        words = text.text_of_message(body["params"]["message"])
        self._seen[words][request.headers["X-Molecule-Message-Id"]] += 1
        instead = await self._temper()
        return instead or web.json_response(_result(body["id"], reply_to(words)))


def _result(rpc_id: Any, words: str) -> dict[str, Any]:
    parts = [{"kind": "text", "text": words}]
    message = {"kind": "message", "messageId": secrets.token_hex(8), "role": "agent", "parts": parts}
    return {"jsonrpc": "2.0", "id": rpc_id, "result": message}


async def prompt() -> web.Response | None:
    """Answer at once."""
    return None


async def slow() -> web.Response | None:
    """Answer after a while."""
    await asyncio.sleep(random.uniform(*SLOW_SECONDS))
    return None


async def busy() -> web.Response | None:
    """Now and then there is no time."""
    if random.random() >= BUSY_SHARE:
        return None
    return web.json_response({"error": "busy"}, status=503, headers={"Retry-After": "1"})


async def flap(agent: PushAgent) -> None:
    """Take the agent down and up again, for ever."""
    while True:
        await asyncio.sleep(random.uniform(*UP_SECONDS))
        await agent.close()
        await asyncio.sleep(random.uniform(*DOWN_SECONDS))
        await agent.open()


class PollAgent:
    """An agent that leases its mail; whatever the platform says to an answer, it goes on."""

    def __init__(self, seen: Seen, workspace_id: str, token: str, urls: list[str]) -> None:
        self._seen = seen
        self._inbox = f"/workspaces/{workspace_id}/inbox"
        self._headers = {"Authorization": f"Bearer {token}"}
        self._urls = urls

    async def run(self, session: aiohttp.ClientSession) -> None:
        """Work until cancelled."""
        while True:
            ask = {"limit": 10, "wait": POLL_SECONDS, "lease": LEASE_SECONDS, "worker": "soak"}
            leased = await self._post(session, f"{self._inbox}/lease", ask)
            if leased is None:
                await asyncio.sleep(POLL_PAUSE_SECONDS)
                continue
            for row in leased["messages"]:
                await self._answer(session, row)

    async def _answer(self, session: aiohttp.ClientSession, row: dict[str, Any]) -> None:
        words = row["text"]
        self._seen[words][row["message_id"]] += 1
        answer = {"lease_token": row["lease"]["token"], "text": reply_to(words)}
        for _ in range(20):  # an answer whose receipt was lost is given again
            if await self._post(session, f"{self._inbox}/{row['message_id']}/answer", answer) is not None:
                return
            await asyncio.sleep(POLL_PAUSE_SECONDS)

    async def _post(self, session: aiohttp.ClientSession, path: str, body: Any) -> dict[str, Any] | None:
        """The answer of the platform, an empty one for a refusal, None when it did not answer."""
        url = random.choice(self._urls) + path
        try:
            async with session.post(url, json=body, headers=self._headers) as answer:
                if answer.status >= 500:
                    return None
                return await answer.json() if answer.status < 300 else {"messages": []}
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError):
            return None
