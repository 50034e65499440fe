"""The last three checks of the install proof: a gateway that starts, answers, and leaves nothing behind."""

import asyncio
import contextlib
import os
import secrets
import signal
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from molecule_runtime.domain.turns import TurnError
from molecule_runtime.kit.files.atomic_files import read_limited
from molecule_runtime.runtimes.hermes import client, reply_server
from molecule_runtime.runtimes.hermes.client import HermesUnreachable, as_object
from molecule_runtime.runtimes.hermes.errors import HermesError
from molecule_runtime.runtimes.hermes.gateway import Gateway, check_ports
from molecule_runtime.runtimes.hermes.gateway_settings import GatewaySettings
from molecule_runtime.runtimes.hermes.plugin_link import (
    SECRET_HEADER,
    PluginAddress,
    PluginLimits,
    PluginLink,
)
from molecule_wire import redaction

READY_SECONDS = 40.0
"""A fresh home takes 20 s on two busy cores. A failure shall be told within a minute, of which the checks
before and the stop of the gateway may take some 15 s."""
ROUND_TRIP_SECONDS = 55.0
TURN_SECONDS = 40.0
EXIT_SECONDS = 5.0
MAX_LOG_BYTES = 1024 * 1024
MAX_LOG_LINES = 5

_CALLBACK_PATH = "/a2a/reply"


class SelftestGateway:
    """A gateway on a home of its own, between its start and its end."""

    def __init__(self, settings: GatewaySettings, env: Mapping[str, str]) -> None:
        self._gateway = Gateway(settings, env)

    @property
    def settings(self) -> GatewaySettings:
        """What it was started with."""
        return self._gateway.settings

    async def start(self, seconds: float) -> str:
        """Check 4: the gateway starts, and its plugin says within these seconds that it takes messages."""
        await self._gateway.start()
        began, url = time.monotonic(), self._address().url("/a2a/health")
        try:
            await self._gateway.wait_ready(seconds)
        except HermesError:
            # Its log is removed with the home, so the end of it is told.
            raise HermesError(
                f"{url} did not answer 200 within {seconds:.0f} s: the gateway ran without its plugin, or "
                f"not at all. The end of its log: {self._log_end()}"
            ) from None
        return f"{url} answered 200 after {time.monotonic() - began:.1f} s"

    async def round_trip(self) -> str:
        """Check 5: a message comes back with its own answer, a wrong secret does not pass, memory lasts."""
        pending: dict[str, asyncio.Future[str]] = {}
        link, secret = PluginLink(pending), self.settings.secret

        async def handle(request: reply_server.ReplyRequest) -> reply_server.ReplyResponse:
            # Only a reply whose `reply_to` is the id of a waiting message resolves it.
            return await reply_server.handle_reply(request, secret, pending, link.report_progress)

        server = reply_server.ReplyServer(_CALLBACK_PATH, handle, lambda: len(pending))
        site, port = await reply_server.listen("127.0.0.1", 0, server)
        word, chat_id = secrets.token_hex(8), f"hermes-proof-{uuid.uuid4().hex}"

        async def ask(text: str) -> str:
            message = _message(chat_id, text, f"http://127.0.0.1:{port}{_CALLBACK_PATH}")
            limits = PluginLimits(10.0, TURN_SECONDS, time.monotonic() + TURN_SECONDS)
            return await link.ask(self._address(), message, limits, lambda text, metadata: None)

        try:
            async with asyncio.timeout(ROUND_TRIP_SECONDS):
                first = await ask(f"the word is {word}")
                if word not in first:
                    raise HermesError("the reply to a message was not the answer of the model.")
                await self._check_wrong_secret()
                if word not in await ask("which word?"):
                    raise HermesError("the second turn of a chat did not remember the first one.")
        except TurnError as problem:
            raise HermesError(f"no answer came back: {problem.public_text}.") from None
        except TimeoutError:
            raise HermesError(f"two turns were not answered in {ROUND_TRIP_SECONDS:.0f} s.") from None
        finally:
            await site.stop()
        refused = "a wrong secret was refused" if secret else "no secret is used"
        return f"two turns of one chat were answered, the second remembers the first; {refused}"

    async def stop(self) -> str:
        """Check 6: the end of the gateway leaves no process and no port."""
        await self._gateway.stop()
        until = time.monotonic() + EXIT_SECONDS
        while (left := self._left_processes()) and time.monotonic() < until:  # noqa: ASYNC110 - nobody signals it
            await asyncio.sleep(0.05)
        for pid in left:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        if left:
            process_ids = ", ".join(map(str, left))
            raise HermesError(f"after the stop of the gateway processes were left and killed: {process_ids}.")
        try:
            check_ports(self.settings)
        except HermesError as problem:
            raise HermesError(f"after the stop of the gateway a port was left: {problem}") from None
        return f"no process is left, ports {self.settings.api_port} and {self.settings.plugin_port} are free"

    async def _check_wrong_secret(self) -> None:
        if not self.settings.secret:
            return
        headers = {"Content-Type": "application/json", SECRET_HEADER: "wrong"}
        body = _message("hermes-proof-wrong-secret", "never run", f"http://127.0.0.1:9{_CALLBACK_PATH}")
        try:
            reply = await client.send("POST", self._address().url("/a2a/inbound"), headers, 10.0, body)
        except HermesUnreachable as problem:
            raise HermesError(f"a message with a wrong secret was not answered: {problem}.") from None
        if (reply.status, as_object(reply.json()).get("ok")) != (401, False):
            raise HermesError(f"a message with a wrong secret got HTTP {reply.status} instead of 401.")

    def _address(self) -> PluginAddress:
        return PluginAddress(self.settings.plugin_host, self.settings.plugin_port, self.settings.secret)

    def _left_processes(self) -> list[int]:
        """Processes of the gateway; only Linux tells. Its process group was killed on every system."""
        left = list[int]()
        mark = f"HERMES_HOME={self.settings.home}".encode()
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark in (folder / "environ").read_bytes().split(b"\0"):
                    left.append(int(folder.name))
        return sorted(left)

    def _log_end(self) -> str:
        """The last lines of hermes' log that tell of a problem, else the last ones, without secrets."""
        try:
            text = read_limited(self.settings.home / "logs" / "gateway.log", MAX_LOG_BYTES).decode(
                errors="replace"
            )
        except OSError:
            return "there is none."
        lines = text.splitlines()
        problems = [line for line in lines if " WARNING " in line or " ERROR " in line]
        excerpt = " | ".join((problems or lines)[-MAX_LOG_LINES:])
        return redaction.redact(excerpt, redaction.LOG, self.settings.secret_values())


def _message(chat_id: str, content: str, callback_url: str) -> dict[str, Any]:
    return {
        "chat_id": chat_id,
        "peer_id": "hermes-proof",
        "peer_name": "hermes-proof",
        "content": content,
        "message_id": uuid.uuid4().hex,
        "callback_url": callback_url,
    }
