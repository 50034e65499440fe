"""The adapter of `echo`, whose turns write a line to the file `TURN_LINES` when they start and when they end.

A turn takes a moment, so that it can be cut; a turn that is cut has no second line. Beside that file,
`idle.txt` says how many seconds a turn may be silent.
"""

import asyncio
import json
import os
import time
from pathlib import Path

from molecule_runtime.domain.turns import TurnResult
from molecule_runtime.kit.setup.adapter import AdapterConfig
from molecule_runtime.kit.turns.executor import Turn
from molecule_runtime.runtimes.echo.adapter import EchoAdapter
from molecule_runtime.runtimes.echo.executor import EchoExecutor

TURN_SECONDS = 0.3


class RecordingExecutor(EchoExecutor):
    """Answers as `echo` does, and leaves the lines."""

    async def run_turn(self, turn: Turn) -> TurnResult | str:
        """Answer one message."""
        self._record(turn, "start")
        await asyncio.sleep(TURN_SECONDS)
        answer = await super().run_turn(turn)
        self._record(turn, "end")
        return answer

    def _record(self, turn: Turn, event: str) -> None:
        line = {
            "message_id": turn.message_id,
            "workspace_id": os.environ["WORKSPACE_ID"],
            "text": turn.text,
            "event": event,
            "attempt": turn.attempt,
            "pid": os.getpid(),
            "at": time.time(),
        }
        # One write of a short line is not torn, neither by other processes nor by SIGKILL.
        file = os.open(os.environ["TURN_LINES"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, json.dumps(line).encode() + b"\n")
        finally:
            os.close(file)


class RecordingAdapter(EchoAdapter):
    """See the module."""

    def idle_timeout_override(self) -> int | None:
        """What the file says now."""
        file = Path(os.environ["TURN_LINES"]).with_name("idle.txt")
        return int(file.read_text()) if file.exists() else None

    async def create_executor(self, config: AdapterConfig) -> RecordingExecutor:
        """The executor."""
        self._executor = RecordingExecutor(config, adapter=self)
        return self._executor


Adapter = RecordingAdapter
