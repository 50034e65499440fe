"""`molecule up`: the platform in this process, from the first line of settings to the last child stopped."""

import asyncio
import gc
import logging
import os
import signal
import socket
import webbrowser
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from molecule_platform import settings as platform_settings
from molecule_platform.cli import connection, lock, output, problems, welcome
from molecule_platform.cli.session import DataDir, JsonFlag
from molecule_platform.settings import Settings

# What serves is heavy to import; the other commands do not pay for it.
if TYPE_CHECKING:
    from molecule_platform.app import Platform
    from molecule_platform.cli.demo_processes import DemoProcesses

starting = typer.Typer()


@dataclass(frozen=True)
class UpOptions:
    """What the flags of `up` ask for beside the settings."""

    demo: bool
    open_browser: bool
    as_json: bool


@starting.command("up")
def up(
    host: Annotated[
        str | None,
        typer.Option(help="Address to listen on.", show_default="MOLECULE_BIND_HOST, else 127.0.0.1"),
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="Port to listen on.", show_default="PORT, else 8080")
    ] = None,
    data_dir: DataDir = None,
    demo: Annotated[
        bool, typer.Option("--demo/--no-demo", help="Start a small organisation of agents too.")
    ] = False,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the canvas in a browser.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """Start Molecule on this machine.

    Ctrl-C stops everything. Starting again continues where it was.
    """
    settings = _load(host, port, data_dir, as_json=as_json)
    os.umask(0o077)  # whatever is made from here on is for the owner alone
    with lock.hold(settings.data_dir):
        _run(settings, UpOptions(demo, open_browser, as_json))


def _load(host: str | None, port: int | None, data_dir: Path | None, *, as_json: bool) -> Settings:
    lock.check(connection.data_folder(data_dir, os.environ))
    flags = {"MOLECULE_BIND_HOST": host, "PORT": port, "MOLECULE_DATA_DIR": data_dir}
    try:
        settings, warnings = platform_settings.load(flags, os.environ)
    except platform_settings.SettingProblem as problem:
        raise problems.Problem(str(problem), "setting") from problem
    for warning in warnings:
        output.warning(warning, as_json=as_json)
    return settings


def _run(settings: Settings, wishes: UpOptions) -> None:
    from molecule_a2a.http_server import new_event_loop
    from molecule_platform.cli import serving

    listener = serving.listen(settings.bind_host, settings.port)
    from molecule_platform import app  # takes a second, which a port in use need not cost

    try:
        with listener, asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(_serve(settings, wishes, listener))
    except app.StartProblem as problem:
        raise problems.Problem(str(problem), "start") from problem


async def _serve(settings: Settings, wishes: UpOptions, listener: socket.socket) -> None:
    from molecule_platform import app
    from molecule_platform.cli import serving
    from molecule_platform.logs import LibraryLog

    platform = await app.Platform.open(settings)
    logging.getLogger().addHandler(LibraryLog(platform.log))
    # What is here now stays: no collection need look at it again.
    gc.collect()
    gc.freeze()
    try:
        server = serving.make_server(platform)
        await server.start(listener)
        try:
            await _live(settings, wishes, platform)
            await platform.drain()
        finally:
            await server.stop(serving.GRACE_SECONDS)
    finally:
        await platform.close()


async def _live(settings: Settings, wishes: UpOptions, platform: "Platform") -> None:
    """From the first request to the wish to stop; the demo's agents live a little shorter than that."""
    crew = _crew(settings) if wishes.demo else None
    stop = asyncio.Event()
    _stop_on_signals(stop, crew)
    try:
        if crew is not None:
            await crew.gather()
            crew.start()
        await _welcome(settings, wishes, platform, () if crew is None else crew.names)
        await stop.wait()
        if not wishes.as_json:
            output.note("stopping …")
    finally:
        if crew is not None:
            await crew.stop()


def _crew(settings: Settings) -> "DemoProcesses":
    from molecule_platform.cli import demo, demo_processes, serving

    return demo_processes.DemoProcesses(
        demo.Demo(settings, serving.base_url(settings.bind_host, settings.port))
    )


async def _welcome(
    settings: Settings, wishes: UpOptions, platform: "Platform", members: Sequence[str]
) -> None:
    from molecule_platform.cli import serving

    url = settings.external_platform_url or serving.base_url(settings.bind_host, settings.port)
    login_url = await platform.login_url(url)
    if wishes.as_json:
        output.show_json(welcome.as_json(settings, url, login_url), indent=None)
    else:
        welcome.show(settings, url, login_url, members)
    if wishes.open_browser:
        await asyncio.to_thread(webbrowser.open, login_url)


def _stop_on_signals(stop: asyncio.Event, crew: "DemoProcesses | None") -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, _stopper(stop, crew))


def _stopper(stop: asyncio.Event, crew: "DemoProcesses | None") -> Callable[[], None]:
    def stop_or_force() -> None:
        if stop.is_set():
            if crew is not None:
                crew.kill()
            os._exit(130)  # nothing accepted is lost: every step of the house survives a sudden end
        stop.set()

    return stop_or_force
