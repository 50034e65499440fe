"""One turn without a platform: for `chat` and `smoke`."""

import asyncio
import os
import sys
from dataclasses import dataclass, field
from typing import Any

from molecule_runtime.domain.turns import TurnOutcome, TurnRequest
from molecule_runtime.kit.setup.adapter import BaseAdapter
from molecule_runtime.kit.setup.engine import start_executor
from molecule_runtime.kit.state.known_secrets import known_secret_values
from molecule_runtime.kit.state.watchdog import health_problem
from molecule_runtime.kit.turns.runner import TurnRunner, TurnServices
from molecule_runtime.main.reload import adapter_config
from molecule_runtime.registry.adapters import get_adapter
from molecule_runtime.settings.config import load_config
from molecule_runtime.settings.environment import Environment
from molecule_wire import JSON, redaction

SMOKE_TEXT = "smoke test"
FAULTS_OF_A_BUILD = ("ImportError", "ModuleNotFoundError")


@dataclass
class TerminalOutput:
    """Prints a turn as it goes, the answer to stdout and the rest to stderr; keeps the events."""

    is_quiet: bool = False
    events: list[JSON] = field(default_factory=list[JSON])
    _printed: str = ""

    async def working(self) -> None:
        """The turn begins."""
        self.events.append({"event": "working"})

    async def status(self, line: str) -> None:
        """How far the work is."""
        self.events.append({"event": "status", "text": line})
        self._show(f"[{line}]\n", sys.stderr)

    async def text(self, delta: str, *, run: int, first: bool, last: bool) -> None:
        """A piece of the answer."""
        self.events.append({"event": "text", "text": delta, "run": run})
        self._printed += delta
        self._show(delta + "\n" * last, sys.stdout)

    async def artifact(self, name: str, parts: list[JSON]) -> None:
        """A whole artifact."""
        self.events.append({"event": "artifact", "name": name, "parts": parts})
        self._show(f"[artifact {name}]\n", sys.stderr)

    async def end(self, outcome: TurnOutcome) -> None:
        """The outcome, unless it was streamed."""
        self.events.append({"event": "end", "state": outcome.state, "text": outcome.text})
        if outcome.text.strip() != self._printed.strip():
            self._show(f"{outcome.text}\n", sys.stdout)

    def _show(self, text: str, stream: Any) -> None:
        if not self.is_quiet:
            stream.write(text)
            stream.flush()


def make_adapter(environment: Environment) -> BaseAdapter:
    """The adapter that config.yaml names."""
    config = load_config(str(environment.config_dir), environment.variables)
    adapter: Any = get_adapter(config.runtime)
    return adapter()


async def take_turn(
    environment: Environment, adapter: BaseAdapter, text: str, output: TerminalOutput, *, smoke: bool = False
) -> TurnOutcome:
    """Set the adapter up, let it answer one message, and close it."""
    config = adapter_config(environment, load_config(str(environment.config_dir), environment.variables))
    config.smoke = smoke
    secrets = known_secret_values(environment.variables, config_dir=environment.config_dir)
    try:
        executor = await start_executor(adapter, config)
        try:
            services = TurnServices(
                redactor=lambda: redaction.StreamRedactor(secrets),
                prompt=lambda: config.system_prompt or "",
            )
            name = os.urandom(8).hex()
            request = TurnRequest(name, name, name, [{"text": text}])
            return await TurnRunner(executor, services).run(request, output)
        finally:
            await executor.stop()
    finally:
        await adapter.close()


async def smoke_problem(environment: Environment, adapter: BaseAdapter, *, deep: bool = False) -> str:
    """What went wrong when the engine was built and asked once; an engine without a model may well fail.

    Raises ImportError when a package is missing, also in the turn. `deep` starts the engine for real and asks
    for its health.
    """
    try:
        async with asyncio.timeout(environment.smoke_timeout_seconds):
            outcome = await take_turn(
                environment, adapter, SMOKE_TEXT, TerminalOutput(is_quiet=True), smoke=not deep
            )
            if deep and (reason := await health_problem(adapter)):
                return reason
    except ImportError:
        raise
    except TimeoutError:
        return f"the turn did not end within {environment.smoke_timeout_seconds} s"
    except Exception as problem:  # noqa: BLE001 - whatever an engine without its model says
        return f"{type(problem).__name__}: {problem}"
    if outcome.code in FAULTS_OF_A_BUILD:
        raise ImportError(f"a package is missing: {outcome.text}")
    return outcome.text if outcome.state == "failed" else ""
