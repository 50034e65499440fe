"""`connect`: run a handler as an agent until the workspace is paused or removed."""

import importlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, cast
from urllib.parse import urlsplit

from molecule_agent import client as clients
from molecule_agent import errors, handlers
from molecule_agent.cli import flags
from molecule_agent.inbound import DEFAULT_POLL_INTERVAL, InboundDelivery, PollDelivery, PushDelivery
from molecule_agent.inbox import InboxDelivery

if TYPE_CHECKING:
    from molecule_agent.client import RemoteAgentClient

log = logging.getLogger(__name__)


def resolve_handler(spec: str) -> handlers.MessageHandler:
    """Import `module.path:function`; whatever is wrong with it ends the program with one sentence."""
    module_name, colon, function_name = spec.partition(":")
    if not colon:
        raise SystemExit(f"error: handler spec {spec!r} must be of the form 'module.path:function'")
    if not module_name or not function_name or ":" in function_name:
        raise SystemExit(f"error: handler spec {spec!r} is malformed")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise SystemExit(f"error: could not import {module_name}: {error}") from error
    if not hasattr(module, function_name):
        raise SystemExit(f"error: {module_name} has no attribute {function_name!r}")
    found: object = getattr(module, function_name)
    if not callable(found):
        raise SystemExit(f"error: {spec} is not callable")
    return cast(handlers.MessageHandler, found)


def open_client(args: object) -> "RemoteAgentClient":
    """Make the client that the connection flags describe."""
    workspace_id = flags.required(args, flags.by_name("--workspace-id"))
    token_dir = flags.text(args, "token_dir")
    client = clients.RemoteAgentClient(
        workspace_id=workspace_id,
        platform_url=flags.required(args, flags.by_name("--platform-url")),
        agent_card={"name": flags.text(args, "agent_name") or f"remote-{workspace_id[:8]}"},
        reported_url=flags.text(args, "reported_url"),
        token_dir=Path(token_dir).expanduser() if token_dir else None,
        org_id=flags.text(args, "org_id"),
        origin=None if flags.plain(args, "no_origin") is True else flags.text(args, "origin"),
        enrolment_token=flags.text(args, "enrolment_token") or None,
    )
    if token := flags.text(args, "token"):
        client.save_token(token)
    return client


def connect_command(args: object) -> int:
    """Run `connect`; returns the exit code."""
    try:
        handler = resolve_handler(flags.required(args, flags.by_name("--handler")))
        client = open_client(args)
        kind = delivery_kind(args)
        delivery = make_delivery(kind, client, handler, args)
    except (flags.UsageError, errors.ConfigurationError) as error:
        return _fail(f"error: {error}")
    try:
        if kind == "push" or not client.load_token():
            client.register()
    except Exception as error:  # noqa: BLE001 - whatever it was, there is no agent to run
        delivery.stop()
        return _fail(f"[molecule] register failed: {error}")
    return _run(client, handler, delivery, kind, args)


def delivery_kind(args: object) -> str:
    """Which delivery the flags mean; arguments that know nothing of it mean the original one."""
    named = flags.text(args, "delivery") or "poll"
    if named != "auto":
        return named
    return "poll" if flags.text(args, "cursor_file") else "inbox"


def make_delivery(
    kind: str, client: "RemoteAgentClient", handler: handlers.MessageHandler, args: object
) -> InboundDelivery:
    """Make the delivery of this kind."""
    if kind == "inbox":
        return InboxDelivery(client, wait=flags.number(args, "wait", flags.DEFAULT_WAIT))
    if kind == "push":
        return _push(client, handler)
    cursor_file = flags.text(args, "cursor_file")
    return PollDelivery(
        client,
        interval=flags.number(args, "poll_interval", DEFAULT_POLL_INTERVAL),
        cursor_file=Path(cursor_file).expanduser() if cursor_file else None,
        wait=flags.number(args, "wait", 0.0),
    )


def _push(client: "RemoteAgentClient", handler: handlers.MessageHandler) -> PushDelivery:
    public = urlsplit(client.reported_url)
    if public.scheme not in ("http", "https"):
        raise flags.UsageError("push needs --reported-url (MOLECULE_REPORTED_URL), an http or https address")
    host = "127.0.0.1" if public.hostname in ("127.0.0.1", "localhost") else "0.0.0.0"
    url = client.reported_url
    server = client.start_a2a_server(handler, public_url=url, host=host, port=public.port or 0)
    return PushDelivery(client, server)


def _run(
    client: "RemoteAgentClient",
    handler: handlers.MessageHandler,
    delivery: InboundDelivery,
    kind: str,
    args: object,
) -> int:
    interval = flags.number(args, "poll_interval", DEFAULT_POLL_INTERVAL)
    print(
        f"[molecule] connected as {flags.text(args, 'workspace_id')}"
        f" (platform={flags.text(args, 'platform_url')}, delivery={kind}, interval={interval:g}s)",
        flush=True,
    )
    try:
        with _stopped_by_signals(client):
            status = client.run_agent_loop(handler, delivery)
    except KeyboardInterrupt:
        return 0
    finally:
        client.close()
    if status != "stopped":
        print(f"[molecule] platform reports workspace {status} — exiting", flush=True)
    return 0


@contextmanager
def _stopped_by_signals(client: "RemoteAgentClient") -> Generator[None]:
    """Let SIGINT and SIGTERM end the loop: at once while it waits, else after the message in hand."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: object) -> None:
        asked_before = client.stopping
        client.stop()
        if asked_before or not handlers.work.in_hand:
            _interrupt()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt() -> NoReturn:
    raise KeyboardInterrupt


def _fail(sentence: str) -> int:
    print(sentence, file=sys.stderr)
    return 2
