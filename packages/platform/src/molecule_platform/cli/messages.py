"""`molecule send` and `molecule message`: say something to an agent and read what it answers."""

import functools
from typing import Annotated, Any

import typer
from rich.console import RenderableType
from rich.table import Table

from molecule_platform.cli import client, events, follow, hints, messaging, output, workspace_lookup
from molecule_platform.cli.follow import WaitingForReply
from molecule_platform.cli.session import ApiSession, command
from molecule_platform.cli.workspaces import Reference
from molecule_wire.a2a import text as a2a_text

speaking = typer.Typer()
messages = typer.Typer(no_args_is_help=True, help="What was sent, and what became of it.")

PATIENCE_SECONDS = 30.0
POLL_SECONDS = 20.0
OPEN = ("accepted", "leased")

Wait = Annotated[
    float | None, typer.Option(metavar="SECONDS", min=0, help="How long to wait for the answer.")
]
Id = Annotated[str, typer.Argument(metavar="MESSAGE", help="The id that `molecule send` gave.")]


@command(speaking, "send", serves=("a2a", "message.events", "message.show"))
def send(
    session: ApiSession,
    workspace: Reference,
    text: Annotated[str, typer.Argument(help="What to say.")],
    wait: Wait = None,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Do not wait for the answer.")] = False,
    task: Annotated[
        str | None, typer.Option(help="Go on with this task, for instance when it waits for more.")
    ] = None,
    context: Annotated[
        str | None, typer.Option(help="Go on with this conversation.", show_default="a new one")
    ] = None,
) -> None:
    """Send a message and print the answer as it comes.

    Without --wait, patience ends after 30 seconds of silence, or at once if the agent is paused or away.

    The message is kept in any case, and answered when the agent is there. With --json, the whole message is
    printed at the end.
    """
    row = workspace_lookup.find(session.client, workspace)
    said = messaging.compose(text, task, context)
    accepted = messaging.post(session, row, said, PATIENCE_SECONDS if wait is None else wait)
    receipt, message_id = accepted.object(), accepted.headers["x-molecule-message-id"]
    waiting = _watchdog(receipt, wait, no_wait)
    has_said = False
    try:
        if waiting is not None:
            with follow.talk(session, row["name"]) as heard:
                messaging.listen(session, message_id, heard, waiting)
            has_said = heard.has_said
        message = messaging.look(session, message_id)
    except KeyboardInterrupt:
        raise messaging.left_alone(session, message_id) from None
    _tell(session, message, row["name"], receipt.get("workspace_status") or "", has_said)


@command(messages, "show", serves=("message.show",))
def show(
    session: ApiSession,
    message_id: Id,
    wait: Wait = None,
    history: Annotated[bool, typer.Option("--history", help="Show what was said before it, too.")] = False,
) -> None:
    """Show what became of a message."""
    message = _wait(session, message_id, wait or 0.0, history)
    if history and not session.as_json:
        output.show(*_said_before(message["history"]))
    _tell(session, message, "the agent", "", has_said=False)


@command(messages, "list", serves=("message.list",))
def list_messages(
    session: ApiSession,
    workspace: Reference,
    sent: Annotated[bool, typer.Option("--sent", help="Only what it sent.")] = False,
    received: Annotated[bool, typer.Option("--received", help="Only what it received.")] = False,
    status: Annotated[
        list[str] | None, typer.Option(help="Only with this status, such as failed; or several.")
    ] = None,
    peer: Annotated[str | None, typer.Option(metavar="WORKSPACE", help="Only with this one.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=200, help="How many at most.")] = 20,
) -> None:
    """List what a workspace sent and received, newest first."""
    row = workspace_lookup.find(session.client, workspace)
    direction = {(True, False): "out", (False, True): "in"}.get((sent, received))
    peer_id = None if peer is None else workspace_lookup.find(session.client, peer)["id"]
    asked = {
        "direction": direction,
        "status": ",".join(status or ()),
        "peer_id": peer_id,
        "limit": str(limit),
    }
    query = {name: value for name, value in asked.items() if value}
    found = session.client.get(workspace_lookup.path(row["id"], "/messages"), query).object()
    rows: list[dict[str, Any]] = found["messages"]
    if rows:
        session.answer(found, functools.partial(_table, session, rows))
    else:
        hint = session.hint(f"send {workspace} 'Hello'")
        session.answer(found, f"No such messages of {row['name']}.", output.steps([(hint, "sends it one")]))


@command(messages, "watch", serves=("message.events", "message.show"))
def watch(session: ApiSession, message_id: Id, count: follow.Count = None) -> None:
    """Follow a message until it has ended; Ctrl-C stops only the watching.

    With --json, each step and each event is a line.
    """
    name = events.Names(session).of(messaging.look(session, message_id)["target_id"])
    path = f"/messages/{client.segment(message_id)}/events"
    has_said = False
    try:
        if session.as_json:
            follow.print_lines(session, path, count)
        else:
            with follow.talk(session, name) as heard:
                messaging.listen(session, message_id, heard, WaitingForReply(None), count)
            has_said = heard.has_said
    except KeyboardInterrupt:
        return
    message = messaging.look(session, message_id)
    if not session.as_json:
        _tell(session, message, name, "", has_said)
    elif message["status"] in follow.ENDS - {"answered"}:
        raise messaging.failure(session, message, name)


@command(messages, "cancel", serves=("message.cancel",))
def cancel(
    session: ApiSession,
    message_id: Id,
    reason: Annotated[str | None, typer.Option(help="Why; both sides are told.")] = None,
) -> None:
    """Call a message off."""
    done = messaging.cancel(session, message_id, reason)
    session.answer(done, "The message is called off; its sender and its agent are told.")


def _watchdog(receipt: dict[str, Any], wait: float | None, no_wait: bool) -> WaitingForReply | None:
    if no_wait or wait == 0:
        return None
    if wait is not None:
        return WaitingForReply(wait)
    return None if receipt.get("workspace_status") else WaitingForReply(PATIENCE_SECONDS, renews=True)


def _wait(session: ApiSession, message_id: str, seconds: float, history: bool) -> dict[str, Any]:
    """The message as soon as it has an outcome, or as it is when the time is over."""
    waiting = WaitingForReply(seconds)
    with follow.AgentBusy(session, "the agent is working on it …"):
        while True:
            hold = max(0.0, min(POLL_SECONDS, waiting.left()))
            message = messaging.look(session, message_id, hold, history)
            if message["status"] not in OPEN or waiting.left() <= 0:
                return message


def _tell(
    session: ApiSession, message: dict[str, Any], name: str, workspace_status: str, has_said: bool
) -> None:
    said = a2a_text.text_of(message["result"])
    if message["status"] in OPEN:
        session.answer(message | {"text": None}, *_still_open(session, message, name, workspace_status))
    elif message["status"] == "answered":
        words: list[RenderableType] = [] if has_said else [said or f"{name} answered without words."]
        session.answer(message | {"text": said}, *words, *_asked_back(session, message, name))
    else:
        raise messaging.failure(session, message, name)


def _asked_back(session: ApiSession, message: dict[str, Any], name: str) -> list[str]:
    if message["task_state"] not in messaging.ASKING:
        return []
    answers = session.hint(f"send {hints.word(name)} 'your answer' --task {message['task_id']}")
    return [f"\n{name} waits for more before it goes on.", output.steps([(answers, "answers it")])]


def _still_open(session: ApiSession, message: dict[str, Any], name: str, workspace_status: str) -> list[str]:
    why = f"{name} is {workspace_status}" if workspace_status else f"{name} has not answered yet"
    return [
        f"The message is kept until {output.moment(message['deadline_at'])}: {why}.",
        output.steps(
            [
                (session.hint(f"message show {message['id']}"), "looks for the answer"),
                (session.hint(f"message watch {message['id']}"), "waits for it"),
                (session.hint(f"message cancel {message['id']}"), "calls it off"),
            ]
        ),
    ]


def _table(session: ApiSession, rows: list[dict[str, Any]]) -> Table:
    names = events.Names(session)
    names.learn(row["target_id"] for row in rows)
    lines = [
        (
            output.moment(row["created_at"]),
            row["caller_name"] or row["caller"],
            names.of(row["target_id"]),
            row["kind"],
            output.status(row["status"]),
            row["id"],
            _outcome(row),
        )
        for row in rows
    ]
    if output.is_narrow():
        return output.table(("from", "to", "status", "id"), [(*line[1:3], *line[4:6]) for line in lines])
    return output.table(("when", "from", "to", "kind", "status", "id", "details"), lines)


def _outcome(row: dict[str, Any]) -> str:
    """The first words of the answer, or why there is none."""
    if row["error"] is not None and row["status"] not in OPEN:
        return output.one_line(str(row["error"]["message"]))
    return output.one_line(a2a_text.text_of(row["result"]))


def _said_before(history: list[dict[str, Any]]) -> list[str]:
    """The conversation up to a message, oldest first."""
    return [f"{output.moment(turn['at'])} {turn['role']}: {turn['text']}" for turn in history]
