"""The command that prepares and runs a hermes gateway: `python -m molecule_runtime.runtimes.hermes.start`.

With a command after `--` it runs that one beside the gateway, with the variables that it needs to reach it,
and ends with it: the command first, then the gateway.
"""

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from molecule_runtime.kit.files.workspace_paths import CONFIG_MOUNT
from molecule_runtime.runtimes.hermes.errors import HermesError
from molecule_runtime.runtimes.hermes.gateway import STOP_SECONDS, Gateway
from molecule_runtime.runtimes.hermes.gateway_settings import GatewaySettings
from molecule_runtime.runtimes.hermes.selftest_file import with_proven_default
from molecule_runtime.runtimes.hermes.tools_endpoint import ToolsAddress, new_token
from molecule_runtime.runtimes.hermes.yaml_config import read_config

READY_SECONDS = 120.0
USAGE = "usage: python -m molecule_runtime.runtimes.hermes.start [-- command …]"

log = logging.getLogger(__name__)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until the command ends, or SIGTERM or SIGINT; the exit code."""
    argv = list(sys.argv[1:] if arguments is None else arguments)
    if argv and argv[0] != "--":
        sys.stderr.write(USAGE + "\n")
        return 2
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)-7s %(message)s")
    try:
        return asyncio.run(run(argv[1:]))
    except (HermesError, RuntimeError) as problem:
        log.error("%s", problem)
        return 1


async def run(command: Sequence[str]) -> int:
    """Start the gateway, run the command beside it, and stop both."""
    settings = GatewaySettings.read(await with_proven_default(os.environ), _workspace_model())
    if command and settings.bridge_tools:
        # The runtime serves them; hermes finds it there as soon as it calls one.
        settings = replace(settings, tools=ToolsAddress(f"http://127.0.0.1:{_free_port()}", new_token()))
    gateway = Gateway(settings)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        await gateway.start()
        ready = asyncio.create_task(gateway.wait_ready(READY_SECONDS))
        stopped = asyncio.create_task(stop.wait())
        await asyncio.wait({ready, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not ready.done():
            ready.cancel()
            return 0
        ready.result()
        log.info("hermes gateway is ready")
        if not command:
            await stopped
            return 0
        return await _run_beside(command, gateway.settings, stopped)
    finally:
        await gateway.stop()


async def _run_beside(
    command: Sequence[str], settings: GatewaySettings, stopped: "asyncio.Task[bool]"
) -> int:
    environment = {**os.environ, **settings.for_runtime()}
    process = await asyncio.create_subprocess_exec(*command, env=environment)
    ended = asyncio.create_task(process.wait())
    await asyncio.wait({ended, stopped}, return_when=asyncio.FIRST_COMPLETED)
    if not ended.done():
        await _end(process)
        return 0
    return ended.result()


async def _end(process: Process) -> None:
    """Let the command end by itself; kill it when it does not."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        await asyncio.wait_for(process.wait(), 3 * STOP_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _workspace_model() -> str:
    """The model of the workspace: `MODEL_PROVIDER`, else of its config.yaml."""
    if model_name := os.environ.get("MODEL_PROVIDER", "").strip():
        return model_name
    folder = Path(os.environ.get("WORKSPACE_CONFIG_PATH") or CONFIG_MOUNT)
    model = read_config(folder / "config.yaml").get("model")
    return model if isinstance(model, str) else ""


if __name__ == "__main__":
    sys.exit(main())
