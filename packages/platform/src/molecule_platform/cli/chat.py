"""`molecule chat`: a conversation with one agent, answer by answer as they are made."""

import importlib
import sys
from collections.abc import Iterator
from typing import Annotated, Any
from uuid import uuid4

import typer

from molecule_platform.cli import follow, hints, messaging, output, problems, workspace_lookup
from molecule_platform.cli.follow import WaitingForReply
from molecule_platform.cli.session import ApiSession, command
from molecule_platform.cli.workspaces import Reference
from molecule_wire.a2a import text as a2a_text

chatting = typer.Typer()

POST_SECONDS = 30.0


@command(chatting, "chat", serves=("a2a", "message.events", "message.show", "message.cancel"))
def chat(
    session: ApiSession,
    workspace: Reference,
    context: Annotated[
        str | None, typer.Option(help="Go on with this conversation.", show_default="a new one")
    ] = None,
) -> None:
    """Talk with an agent: each line is a message, and the answer grows below it.

    Ctrl-C stops the answer that is being made, Ctrl-D ends the conversation.

    Without a terminal the lines of standard input are sent one after the other. With --json, each message is
    printed as a line when it has ended.
    """
    row = workspace_lookup.find(session.client, workspace)
    conversation = Conversation(session, row, context or str(uuid4()))
    if conversation.is_typed:
        session.remark(f"talking with {row['name']}: Ctrl-C stops an answer, Ctrl-D ends")
    for line in conversation.lines():
        conversation.turn(line)
    if conversation.is_typed:
        goes_on = session.hint(f"chat {hints.word(workspace)} --context {hints.word(conversation.context)}")
        session.remark(f"`{goes_on}` goes on with this conversation")
    if conversation.has_failed:
        raise problems.Problem("", "failed")


class Conversation:
    """Messages of one context, one after the other; a question of the agent is answered by the next."""

    def __init__(self, session: ApiSession, row: workspace_lookup.Row, context: str) -> None:
        self._session = session
        self._row = row
        self.context = context
        # Whether a person sits here, and not a pipe or a program.
        self.is_typed = output.is_terminal() and not session.as_json
        # The task whose question the next message answers.
        self._asked: str | None = None
        self.has_failed = False

    def lines(self) -> Iterator[str]:
        """What somebody types, or what comes through a pipe; empty lines are nothing."""
        if self.is_typed:
            # It gives `input` its line editing; other commands need not load it.
            importlib.import_module("readline")
        while True:
            try:
                if self.is_typed:
                    line = input("answer: " if self._asked else "you: ")
                elif not (line := sys.stdin.readline()):
                    return
            except EOFError:
                # The prompt stays on a line of its own.
                output.write("\n")
                return
            except KeyboardInterrupt:
                if not self.is_typed:
                    raise
                output.write("\n")
                return
            if line.strip():
                yield line.strip()

    def turn(self, line: str) -> None:
        """Send one message and show its answer; Ctrl-C calls it off."""
        session, name = self._session, str(self._row["name"])
        said = messaging.compose(line, self._asked, self.context)
        accepted = messaging.post(session, self._row, said, POST_SECONDS)
        message_id = accepted.headers["x-molecule-message-id"]
        if away := accepted.object().get("workspace_status"):
            session.remark(f"{name} is {away}: the message waits until it is there, Ctrl-C calls it off")
        is_stopped = False
        with follow.talk(session, name, introduces=self.is_typed) as heard:
            try:
                messaging.listen(session, message_id, heard, WaitingForReply(None))
            except KeyboardInterrupt:
                is_stopped = True
                self._call_off(message_id)
        message = messaging.look(session, message_id)
        self._asked = message["task_id"] if message["task_state"] in messaging.ASKING else None
        self._show(message, name, heard.has_said)
        if is_stopped and not self.is_typed:
            # Whoever stops a script stops all of it.
            raise KeyboardInterrupt

    def _call_off(self, message_id: str) -> None:
        try:
            messaging.cancel(self._session, message_id)
        except problems.Refused as refused:
            # It was answered in this moment.
            if refused.code != "not-cancelable":
                raise

    def _show(self, message: dict[str, Any], name: str, has_said: bool) -> None:
        """What is to be told of a message that has ended, beside the words that were printed as they came."""
        words = a2a_text.text_of(message["result"])
        is_failure = message["status"] not in ("answered", "cancelled")
        self.has_failed |= is_failure
        if self._session.as_json:
            output.show_json(message | {"text": words}, indent=None)
        elif is_failure:
            output.failure(messaging.failure(self._session, message, name), as_json=False)
        elif message["status"] == "cancelled":
            output.note("stopped")
        elif not has_said:
            output.show(words or f"{name} answered without words.")
