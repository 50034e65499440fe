"""A command-line program as an agent: it reads the conversation, what it writes is the answer."""

import os
import shutil
from asyncio.subprocess import PIPE

from molecule_runtime.adapters.base import AdapterConfig, BaseAdapter
from molecule_runtime.executor_kit import Turn, TurnError, TurnExecutor, spawn


class CommandExecutor(TurnExecutor):
    """Starts the program for each message."""

    interrupt_grace = 0.0  # a program that is cancelled is killed at once

    async def run_turn(self, turn: Turn) -> None:
        conversation = [f"{item.role}: {item.text}\n" for item in turn.history] + [f"user: {turn.text}\n"]
        told, work_dir = self.config.runtime_config, self.config.work_dir
        environment = {"PATH": os.environ["PATH"]}  # and none of the workspace's secrets
        program = await spawn(
            told["command"], *told["args"], stdin=PIPE, stdout=PIPE, cwd=work_dir, env=environment
        )
        assert program.stdin is not None
        assert program.stdout is not None
        program.stdin.write("".join(conversation).encode())
        program.stdin.close()
        async for line in program.stdout:
            await turn.sink.text(line.decode(errors="replace"))
        if await program.wait() != 0:
            raise TurnError("program-failed", f"The program ended with code {program.returncode}.")


class CommandAdapter(BaseAdapter):
    """Says what the engine is, and makes its executor."""

    name = staticmethod(lambda: "command")
    display_name = staticmethod(lambda: "Command line")
    description = staticmethod(lambda: "Runs a program for each message.")

    async def setup(self, config: AdapterConfig) -> None:
        command = config.runtime_config.get("command", "")
        if shutil.which(command) is None:
            raise RuntimeError(f"runtime_config.command names no program: {command!r}")

    async def create_executor(self, config: AdapterConfig) -> CommandExecutor:
        self._executor = CommandExecutor(config, adapter=self)
        return self._executor


Adapter = CommandAdapter
