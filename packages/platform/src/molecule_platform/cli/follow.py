"""What an agent says as it says it: a message or a task, followed in the terminal."""

import contextlib
import json
import sys
import time
from collections.abc import Generator, Iterator
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.status import Status
from rich.text import Text

from molecule_platform.cli import output, sse
from molecule_platform.cli.session import ApiSession
from molecule_wire.a2a import tasks as machine
from molecule_wire.a2a import text as a2a_text

Count = Annotated[int | None, typer.Option(min=1, help="End after so many steps and events.")]

# How much of what an agent says about its work is shown while it works.
MAX_STATUS_LINES = 3
ENDS = frozenset({"answered", "failed", "expired", "cancelled"})
_BAD = frozenset({machine.TaskState.FAILED, machine.TaskState.CANCELED})
_ASKING = frozenset({machine.TaskState.INPUT_REQUIRED, machine.TaskState.AUTH_REQUIRED})
_STEPS = {
    "accepted": "{name} has the message before it …",
    "leased": "{name} is working on it …",
    "retry": "{name} could not do it: it will be tried again …",
    "released": "{name} gave it back: it will be offered again …",
}


class WaitingForReply:
    """How long a reader still waits: so long in all, or without an end."""

    def __init__(self, seconds: float | None, *, renews: bool = False) -> None:
        self._seconds = seconds
        self._renews = renews
        self._began = time.monotonic()

    def left(self) -> float:
        """The seconds that are left."""
        if self._seconds is None:
            return float("inf")
        return self._seconds - (time.monotonic() - self._began)

    def heard(self) -> None:
        """Something came: whoever only waits for a sign of life begins anew."""
        if self._renews:
            self._began = time.monotonic()


class AgentBusy:
    """A line on the terminal that says what is going on, as long as nothing else is said."""

    def __init__(self, session: ApiSession, sentence: str) -> None:
        shown = not session.as_json and sys.stderr.isatty()
        self._console = Console(stderr=True) if shown else None
        self._status: Status | None = None
        self._sentence = sentence

    def __enter__(self) -> "AgentBusy":
        self.say(self._sentence)
        return self

    def __exit__(self, *_problem: object) -> None:
        self.stop()

    def say(self, sentence: str) -> None:
        """What is going on now."""
        if self._console is None:
            return
        # The end of a long sentence is what is new in it; lines above the screen could not be drawn anew.
        words = output.one_line(sentence)
        most = self._console.width * MAX_STATUS_LINES
        shown = Text(words if len(words) <= most else f"…{words[-most:]}")
        if self._status is None:
            self._status = self._console.status(shown)
            self._status.start()
        else:
            self._status.update(shown)

    def stop(self) -> None:
        """Clear the line for what is to be read."""
        if self._status is not None:
            self._status.stop()
            self._status = None


class AnswerPrinter:
    """The words of one message or task: one text on standard output that grows, each word once.

    What the agent says about its work is shown beside it, the newest in the place of the one before.
    """

    def __init__(self, session: ApiSession, name: str, busy: AgentBusy, *, introduces: bool = False) -> None:
        self._as_json = session.as_json
        self._name = name
        self._busy = busy
        # Whether its words stand behind the name of whoever says them.
        self._introduces = introduces
        self._said = ""
        # The text of each artifact, and which of them the last words belong to.
        self._artifacts: dict[str, str] = {}
        self._open_artifact: str | None = None
        self.is_over = False
        # Why the task ended badly, if it did.
        self.failure: str | None = None

    @property
    def has_said(self) -> bool:
        """Whether any words were printed."""
        return bool(self._said.strip())

    def hear(self, event: str, data: dict[str, Any]) -> None:
        """One event of the stream."""
        if event in ENDS:
            self.is_over = True
        elif event in _STEPS:
            self.is_over = False
            self._work(_STEPS[event].format(name=self._name))
        elif event == "artifact":
            self._piece(data["artifactUpdate"])
        elif event == "message":
            self._whole(a2a_text.text_of_message(data["message"]))
        elif event in ("status", "task"):
            self._state(data.get("statusUpdate") or data["task"])

    def _state(self, told: dict[str, Any]) -> None:
        state = machine.state_of(told)
        if state in _BAD:
            reason = a2a_text.text_of(told) or "no reason was given"
            self.failure = f"{state.removeprefix('TASK_STATE_').lower()}: {reason}"
        elif machine.is_settled(told):
            self._whole(a2a_text.text_of(told), asks=state in _ASKING)
        elif words := a2a_text.text_of_message(told["status"].get("message")):
            self._work(words)
        self.is_over = state in machine.TERMINAL

    @property
    def _is_within_line(self) -> bool:
        return bool(self._said) and not self._said.endswith("\n")

    def _work(self, words: str) -> None:
        # A line that is being drawn anew would wipe out the one that the text has come to.
        if not self._is_within_line:
            self._busy.say(words)

    def _piece(self, update: dict[str, Any]) -> None:
        name = str(update["artifact"].get("artifactId"))
        words = "".join(str(part.get("text", "")) for part in update["artifact"].get("parts", []))
        known = self._artifacts.get(name, "")
        whole = known + words if update.get("append") else words
        # A sender that does not know how much of it has come sends all of it anew.
        goes_on = whole.startswith(known) and self._open_artifact == name
        self._write(whole[len(known) :] if goes_on else whole, begins=not goes_on)
        self._artifacts[name], self._open_artifact = whole, name

    def _whole(self, words: str, *, asks: bool = False) -> None:
        """An answer in one piece, unless all of it was said in pieces already."""
        if words not in self._said:
            self._write(words, begins=True, asks=asks)

    def _write(self, words: str, *, begins: bool, asks: bool = False) -> None:
        if not words:
            return
        before = "\n" if begins and self._is_within_line else ""
        introduced = self._introduces and (asks or not self._said)
        self._said += before + words
        if self._as_json:
            return
        self._busy.stop()
        output.write(before)
        if introduced:
            output.label(f"{self._name} asks: " if asks else f"{self._name}: ")
        output.write(words)

    def finish(self) -> None:
        """End the line that was begun."""
        if self._is_within_line and not self._as_json:
            output.write("\n")


@contextlib.contextmanager
def talk(session: ApiSession, name: str, *, introduces: bool = False) -> Generator[AnswerPrinter]:
    """Inside, what is heard is told; the terminal is left in order however it ends."""
    with AgentBusy(session, f"waiting for {name} …") as busy:
        heard = AnswerPrinter(session, name, busy, introduces=introduces)
        try:
            yield heard
        finally:
            busy.stop()
            heard.finish()


def follow(
    session: ApiSession, path: str, heard: AnswerPrinter, waiting: WaitingForReply, count: int | None = None
) -> None:
    """Tell what a stream tells until it is over, the time is, or so many things were told."""
    for number, (event, data) in enumerate(happenings(session, path, heard, waiting), start=1):
        heard.hear(event, data)
        if number == count:
            return


def print_lines(session: ApiSession, path: str, count: int | None) -> AnswerPrinter:
    """The same for a machine: each thing as one line. What was heard by then."""
    heard = AnswerPrinter(session, "", AgentBusy(session, ""))
    for number, (event, data) in enumerate(happenings(session, path, heard, WaitingForReply(None)), start=1):
        heard.hear(event, data)
        output.show_json({"event": event, "data": data}, indent=None)
        if number == count:
            break
    return heard


def happenings(
    session: ApiSession, path: str, heard: AnswerPrinter, waiting: WaitingForReply
) -> Iterator[tuple[str, dict[str, Any]]]:
    """What a stream tells, each thing once, until it is over or nobody waits any longer."""
    told: set[tuple[str, bytes]] = set()
    follower = sse.EventFollower(
        session, path, {}, None, left=waiting.left, is_over=lambda: heard.is_over, met=True
    )
    for event in follower.events():
        if event is not None and event.data:
            # Steps have no number, so a stream that was cut sends them again.
            step = (event.type, event.data)
            if step not in told:
                if event.type in _STEPS or event.type in ENDS:
                    told.add(step)
                waiting.heard()
                yield event.type, json.loads(event.data)
        if waiting.left() <= 0:
            return
