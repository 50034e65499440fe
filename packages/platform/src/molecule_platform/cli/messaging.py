"""One message to an agent: handed over, followed while it is answered, looked at."""

import time
from typing import Any
from uuid import uuid4

from molecule_platform.cli import client, problems, workspace_lookup
from molecule_platform.cli import follow as cli_follow
from molecule_platform.cli.follow import AnswerPrinter, WaitingForReply
from molecule_platform.cli.session import ApiSession

RETRY_SECONDS = 0.5
ASKING = ("input-required", "auth-required")


def compose(text: str, task: str | None = None, context: str | None = None) -> dict[str, Any]:
    """A message of A2A with an id of its own, in a task or a conversation that goes on, or in a new one."""
    message: dict[str, Any] = {
        "role": "user",
        "messageId": str(uuid4()),
        "parts": [{"kind": "text", "text": text}],
    }
    if task is not None:
        message["taskId"] = task
    if context is not None or task is None:
        # Named here, so that the agent knows a conversation by the name with which it can be gone on with.
        message["contextId"] = context or str(uuid4())
    return message


def post(
    session: ApiSession, row: workspace_lookup.Row, message: dict[str, Any], seconds: float
) -> client.ApiResponse:
    """Hand the message over, also when the platform is away for a moment after it was just there.

    What comes back is a receipt, or, if an earlier try arrived and was answered by now, the answer itself.
    """
    # An agent with a URL that streams is asked for a stream, so that there is something to follow.
    body = {"jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": {"message": message}}
    path = workspace_lookup.path(row["id"], "/a2a")
    # The call itself is not held: the id is known at once, so that an interrupted wait loses nothing.
    request = client.ApiRequest("POST", path, body, {"Prefer": "respond-async"})
    deadline = time.monotonic() + seconds
    while True:
        try:
            return session.client.send(request)
        except problems.Unreachable as lost:
            if time.monotonic() >= deadline:
                sentence = f"{lost}; whether it took the message before it went away is not known"
                raise problems.Unreachable(sentence, lost.code) from lost
            # It may have taken it: the same body again is the same message there, not a second one.
            time.sleep(RETRY_SECONDS)


def listen(
    session: ApiSession,
    message_id: str,
    heard: AnswerPrinter,
    waiting: WaitingForReply,
    count: int | None = None,
) -> None:
    """Print what the agent says as it says it."""
    try:
        path = f"/messages/{client.segment(message_id)}/events"
        cli_follow.follow(session, path, heard, waiting, count)
    except problems.Unreachable as lost:
        raise _out_of_sight(session, lost, message_id) from lost


def look(session: ApiSession, message_id: str, seconds: float = 0.0, history: bool = False) -> dict[str, Any]:
    """The message as it stands; with `seconds`, as soon as it has an outcome."""
    query = {"wait": f"{seconds:.3f}"} | ({"include": "history"} if history else {})
    path = f"/messages/{client.segment(message_id)}"
    try:
        return session.client.get(path, query, timeout=seconds + client.TIMEOUT_SECONDS).object()
    except problems.Unreachable as lost:
        raise _out_of_sight(session, lost, message_id) from lost


def cancel(session: ApiSession, message_id: str, reason: str | None = None) -> dict[str, Any]:
    """Call a message off."""
    body = {} if reason is None else {"reason": reason}
    return session.client.post(f"/messages/{client.segment(message_id)}/cancel", body).object()


def left_alone(session: ApiSession, message_id: str) -> problems.Problem:
    """What to tell somebody who no longer waits."""
    return problems.Problem(_safe(session, message_id), "interrupted", extras={"message_id": message_id})


def failure(session: ApiSession, message: dict[str, Any], name: str) -> problems.Problem:
    """Why a message that has ended was not answered."""
    error: dict[str, Any] = message["error"] or {}
    reason = str(error.get("message") or "no reason was given").rstrip(".")
    redrives = session.hint(f"dead-letter redrive {message['id']}")
    again = f". `{redrives}` lets it be tried again" if message["dead_letter"] else ""
    return problems.Problem(
        f"the message to {name} ended as {message['status']}: {reason}{again}",
        error.get("code") or message["status"],
        extras={"message_id": message["id"], "status": message["status"]},
    )


def _safe(session: ApiSession, message_id: str) -> str:
    return f"the message is safe: `{session.hint(f'message watch {message_id}')}` goes on where this was"


def _out_of_sight(session: ApiSession, lost: problems.Unreachable, message_id: str) -> problems.Problem:
    sentence = f"{lost}; {_safe(session, message_id)}"
    return problems.Problem(sentence, lost.code, extras={"message_id": message_id})
