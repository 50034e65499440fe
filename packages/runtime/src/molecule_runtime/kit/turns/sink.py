"""What an engine reports while it works. Every report counts as activity; any thread may make one."""

import asyncio
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from molecule_runtime.domain.turns import Usage
from molecule_runtime.kit.turns import messages
from molecule_runtime.ports.output import TextRedactor, TurnOutput
from molecule_wire import JSON, JSONObject, jsontext

MAX_TOOL_CALLS, MAX_INPUT_CHARACTERS, MAX_OUTPUT_CHARACTERS = 200, 500, 300


class ReportAcknowledgement:
    """The result of a report, for those who await it."""

    def __await__(self) -> Generator[Any, None, None]:
        """Give the event loop a moment, so that what was reported can go out."""
        return asyncio.sleep(0).__await__()


class ToolCallId(str):
    """The name of a tool call; it may be awaited, and is itself."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, "ToolCallId"]:
        """The same name."""
        yield from asyncio.sleep(0).__await__()
        return self


@dataclass
class ToolCallRecord:
    """One tool call, as far as it is shown."""

    tool: str
    input: str
    output_preview: str = ""


@dataclass
class _Text:
    pieces: list[str]


@dataclass
class TurnReport:
    """What was reported in one turn, beside what was passed on."""

    tools: dict[str, ToolCallRecord] = field(default_factory=dict[str, ToolCallRecord])
    usage: list[Usage] = field(default_factory=list[Usage])
    attached: list[Path] = field(default_factory=list[Path])

    def tool_trace(self) -> list[JSON]:
        """The tool calls for the metadata of an answer."""
        return [
            {"tool": call.tool, "input": call.input, "output_preview": call.output_preview}
            for call in self.tools.values()
        ]


class Sink:
    """Takes reports in order. Text is passed on redacted; pieces that come quickly go out together."""

    def __init__(self, output: TurnOutput, redact: Callable[[], TextRedactor]) -> None:
        self.reports = TurnReport()
        self.last_activity = time.monotonic()
        self._streamed: list[str] = []
        self._output = output
        self._new_redactor = redact
        self._redactor: TextRedactor | None = None  # most turns stream nothing
        self._pending: deque[_Text | Callable[[], Any]] = deque()
        self._lock = threading.Lock()
        self._loop, self._thread_id = asyncio.get_running_loop(), threading.get_ident()
        self._wake: asyncio.Event | None = None
        self._run, self._is_first, self._closed = 1, True, False
        self._pump: asyncio.Task[None] | None = None

    @property
    def streamed_text(self) -> str:
        """The text that was passed on, redacted."""
        return "".join(self._streamed)

    # What an engine calls

    def text(self, delta: str) -> ReportAcknowledgement:
        """A piece of the answer."""
        if not isinstance(delta, str):  # pyright: ignore[reportUnnecessaryIsInstance] - an engine's word
            raise TypeError(f"a piece of text must be text, not {type(delta).__name__}")
        with self._lock:
            last = self._pending[-1] if self._pending else None
            if isinstance(last, _Text):
                last.pieces.append(delta)
            else:
                self._pending.append(_Text([delta]))
        return self._touched()

    def status(self, line: str) -> ReportAcknowledgement:
        """How far the work is."""
        redacted = messages.redacted_line(self._new_redactor(), line)
        return self._add(lambda: self._output.status(redacted))

    def tool_start(self, name: str, input: object = None, call_id: str | None = None) -> ToolCallId:
        """A tool is called; the run of the model before it is over."""
        named = ToolCallId(call_id or os.urandom(8).hex())
        if len(self.reports.tools) < MAX_TOOL_CALLS:
            input_text = messages.redacted_line(self._new_redactor(), _display_text(input))[
                :MAX_INPUT_CHARACTERS
            ]
            self.reports.tools[named] = ToolCallRecord(name, input_text)
        self._add(self._end_run)
        return named

    def tool_end(self, id: str, output: object = None, error: object = None) -> ReportAcknowledgement:
        """A tool has answered, or failed."""
        call = self.reports.tools.get(id)
        if call is not None:
            output_text = f"error: {_display_text(error)}" if error is not None else _display_text(output)
            call.output_preview = messages.redacted_line(self._new_redactor(), output_text)[
                :MAX_OUTPUT_CHARACTERS
            ]
        return self._touched()

    def artifact(self, name: str, parts: Iterable[JSON]) -> ReportAcknowledgement:
        """A whole artifact, in 1.0 parts."""
        listed = list(parts)
        return self._add(lambda: self._write_artifact(name, listed))

    def usage(
        self, model: str, input_tokens: int, output_tokens: int, cost_usd: float | None = None
    ) -> ReportAcknowledgement:
        """What a model call cost."""
        self.reports.usage.append(Usage(model, input_tokens, output_tokens, cost_usd))
        return self._touched()

    def attach(self, path: str | Path) -> ReportAcknowledgement:
        """A file that goes with the answer."""
        self.reports.attached.append(Path(path))
        return self._touched()

    def touch(self) -> ReportAcknowledgement:
        """The engine did something that is not told."""
        return self._touched()

    # What the kit calls

    async def close(self) -> None:
        """Pass on what is left; reports that come later are dropped."""
        if self._pending:
            self._wake_pump()
        self._closed = True
        if self._pump is not None and self._wake is not None:
            self._wake.set()
            await self._pump

    def abandon(self) -> None:
        """Pass nothing on any more. Harmless after `close`."""
        self._closed = True
        if self._pump is not None:
            self._pump.cancel()

    def _touched(self) -> ReportAcknowledgement:
        self.last_activity = time.monotonic()
        if threading.get_ident() == self._thread_id:
            self._wake_pump()
        else:
            self._loop.call_soon_threadsafe(self._wake_pump)
        return ReportAcknowledgement()

    def _wake_pump(self) -> None:
        """Many turns report nothing: they need no task for it."""
        if self._wake is None and not self._closed:
            self._wake = asyncio.Event()
            self._pump = self._loop.create_task(self._pass_on(self._wake))
        if self._wake is not None:
            self._wake.set()

    def _add(self, write: Callable[[], Any]) -> ReportAcknowledgement:
        with self._lock:
            self._pending.append(write)
        return self._touched()

    async def _pass_on(self, wake: asyncio.Event) -> None:
        while True:
            await wake.wait()
            wake.clear()
            while self._pending:
                with self._lock:
                    event = self._pending.popleft()
                if isinstance(event, _Text):
                    redactor = self._redactor = self._redactor or self._new_redactor()
                    for place, piece in enumerate(messages.slices("".join(event.pieces))):
                        if place:  # others have their turn while a long text is redacted
                            await asyncio.sleep(0)
                        await self._write(redactor.feed(piece))
                else:
                    await event()
            if self._closed:
                await self._end_run()
                return

    async def _write_artifact(self, name: str, parts: list[JSON]) -> None:
        items: list[JSON] = []
        for part in parts:
            text = part.get("text") if isinstance(part, dict) else None
            if isinstance(part, dict) and isinstance(text, str):
                part = {**part, "text": await messages.redacted(self._new_redactor(), text)}
            items.append(part)
        await self._output.artifact(name, items)

    async def _write(self, text: str, *, last: bool = False) -> None:
        if text or (last and not self._is_first):
            await self._output.text(text, run=self._run, first=self._is_first, last=last)
            self._streamed.append(text)
            self._is_first = False

    async def _end_run(self) -> None:
        """The text so far is one artifact; what follows is another."""
        await self._write(self._redactor.flush() if self._redactor else "", last=True)
        if not self._is_first:
            self._run, self._is_first = self._run + 1, True


def _display_text(value: object) -> str:
    if isinstance(value, str):
        return value
    try:
        encodable: JSONObject = {"v": value}  # type: ignore[dict-item]
        return jsontext.encode(encodable)[5:-1].decode()
    except (TypeError, ValueError):
        return type(value).__name__
