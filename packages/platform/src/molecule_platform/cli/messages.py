"""`molecule send` and `molecule message`: say something to an agent and read what it answers."""

import contextlib
import sys
import time
from typing import Annotated, Any
from uuid import uuid4

import typer
from rich.console import Console, RenderableType

from molecule_platform.cli import client, problems, screen, tree
from molecule_platform.cli.session import Session, command
from molecule_platform.cli.workspaces import Reference
from molecule_wire.a2a import text as a2a_text

speaking = typer.Typer()
messages = typer.Typer(no_args_is_help=True, help="What was sent, and what became of it.")

PATIENCE_SECONDS = 30.0
POLL_SECONDS = 20.0
RETRY_SECONDS = 0.5
OPEN = ("accepted", "leased")

Wait = Annotated[
    float | None, typer.Option(metavar="SECONDS", min=0, help="How long to wait for the answer.")
]


@command(speaking, "send", serves=("a2a", "message.show"))
def send(
    session: Session,
    workspace: Reference,
    text: Annotated[str, typer.Argument(help="What to say.")],
    wait: Wait = None,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Do not wait for the answer.")] = False,
) -> None:
    """Send a message and print the answer.

    Without --wait, patience ends after 30 seconds, or at once if the agent is paused or away.

    The message is kept in any case, and answered when the agent is there.
    """
    row = tree.find(session.client, workspace)
    receipt = _post(session, row, text, PATIENCE_SECONDS if wait is None else wait)
    seconds = _patience(receipt, wait, no_wait)
    try:
        message = _follow(session, receipt["message_id"], seconds, row["name"])
    except KeyboardInterrupt:
        session.remark(_safe(session, receipt["message_id"]))
        raise
    _tell(session, message, row["name"], receipt.get("workspace_status") or "")


@command(messages, "show", serves=("message.show",))
def show(
    session: Session,
    message_id: Annotated[str, typer.Argument(metavar="MESSAGE", help="The id that `molecule send` gave.")],
    wait: Wait = None,
) -> None:
    """Show what became of a message."""
    message = _follow(session, message_id, wait or 0.0, "the agent")
    _tell(session, message, "the agent", "")


def _post(session: Session, row: tree.Row, text: str, seconds: float) -> dict[str, Any]:
    """Hand the message over, also when the platform is away for a moment after it was just there."""
    said = {"role": "user", "messageId": str(uuid4()), "parts": [{"kind": "text", "text": text}]}
    body = {"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": {"message": said}}
    path = tree.path(row["id"], "/a2a")
    # The call itself is not held: the id is known at once, so that an interrupted wait loses nothing.
    request = client.Request("POST", path, body, {"Prefer": "respond-async"})
    deadline = time.monotonic() + seconds
    while True:
        try:
            return session.client.send(request).object()
        except problems.Unreachable as lost:
            if time.monotonic() >= deadline:
                sentence = f"{lost}; whether it took the message before it went away is not known"
                raise problems.Unreachable(sentence, lost.code) from lost
            # It may have taken it: the same body again is the same message there, not a second one.
            time.sleep(RETRY_SECONDS)


def _patience(receipt: dict[str, Any], wait: float | None, no_wait: bool) -> float:
    if no_wait:
        return 0.0
    if wait is not None:
        return wait
    return 0.0 if receipt.get("workspace_status") else PATIENCE_SECONDS


def _follow(session: Session, message_id: str, seconds: float, name: str) -> dict[str, Any]:
    """The message as soon as it has an outcome, or as it is when the time is over."""
    path = f"/messages/{client.segment(message_id)}"
    deadline = time.monotonic() + seconds
    with _busy(session, f"{name} is working on it …"):
        while True:
            hold = max(0.0, min(POLL_SECONDS, deadline - time.monotonic()))
            timeout = hold + client.TIMEOUT_SECONDS
            try:
                message = session.client.get(path, {"wait": f"{hold:.3f}"}, timeout=timeout).object()
            except problems.Unreachable as lost:
                if time.monotonic() >= deadline:
                    raise _out_of_sight(session, lost, message_id) from lost
                time.sleep(RETRY_SECONDS)
                continue
            if message["status"] not in OPEN or time.monotonic() >= deadline:
                return message


def _safe(session: Session, message_id: str) -> str:
    return f"the message is safe: `{session.hint(f'message show {message_id}')}` looks for the answer"


def _out_of_sight(session: Session, lost: problems.Unreachable, message_id: str) -> problems.Problem:
    sentence = f"{lost}; {_safe(session, message_id)}"
    return problems.Problem(sentence, lost.code, extras={"message_id": message_id})


def _busy(session: Session, sentence: str) -> contextlib.AbstractContextManager[object]:
    if session.as_json or not sys.stderr.isatty():
        return contextlib.nullcontext()
    return Console(stderr=True).status(sentence)


def _tell(session: Session, message: dict[str, Any], name: str, workspace_status: str) -> None:
    said = a2a_text.text_of(message["result"])
    if message["status"] in OPEN:
        session.answer(message | {"text": None}, *_still_open(session, message, name, workspace_status))
    elif message["status"] == "answered":
        words: RenderableType = said or f"{name} answered without words."
        session.answer(message | {"text": said}, words)
    else:
        raise _failure(message, name)


def _still_open(session: Session, message: dict[str, Any], name: str, workspace_status: str) -> list[str]:
    why = f"{name} is {workspace_status}" if workspace_status else f"{name} has not answered yet"
    return [
        f"The message is kept until {screen.moment(message['deadline_at'])}: {why}.",
        screen.steps([(session.hint(f"message show {message['id']}"), "looks for the answer")]),
    ]


def _failure(message: dict[str, Any], name: str) -> problems.Problem:
    error: dict[str, Any] = message["error"] or {}
    reason = error.get("message") or "no reason was given"
    return problems.Problem(
        f"the message to {name} ended as {message['status']}: {reason}",
        error.get("code") or message["status"],
        extras={"message_id": message["id"], "status": message["status"]},
    )
