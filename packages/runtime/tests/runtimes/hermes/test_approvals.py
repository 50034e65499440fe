"""What is recorded of an approval that hermes asked for."""

import asyncio
import json
from typing import Any

import pytest

from molecule_runtime.domain.turns import TurnOutcome
from molecule_runtime.kit.turns.runner import TurnRunner, TurnServices
from molecule_runtime.runtimes.hermes.approvals import DENIED, held_back
from molecule_runtime.testing.recording_output import RecordingOutput, request
from packages.runtime.tests.runtimes.hermes.gateways import (
    ChatGateway,
    PluginGateway,
    delta,
    make_executor,
    started,
)

HELD = json.dumps({"status": "pending_approval", "approval_pending": True, "command": "rm -rf x"})


@pytest.mark.parametrize(
    ("messages", "commands"),
    [
        ([], []),
        ([{"role": "user"}, {"role": "tool", "content": HELD}, {"role": "assistant"}], ["rm -rf x"]),
        ([{"role": "tool", "content": HELD}, {"role": "user"}], []),
        ([{"role": "tool", "content": text} for text in ("{", "[]", None, 7, "{}")], []),
        ([{"role": "tool", "content": '{"approval_pending": true}'}], ["a command"]),
        (["no message", {"role": "tool", "content": '{"approval_pending": "yes"}'}], []),
    ],
)
def test_commands_that_wait_are_found_in_the_last_turn(messages: list[Any], commands: list[str]) -> None:
    assert held_back(messages) == commands


class Recorded:
    """A turn with a transcript."""

    def __init__(self) -> None:
        self.lines: list[Any] = []
        self.output = RecordingOutput()

    async def run(self, executor: Any) -> TurnOutcome:
        runner = TurnRunner(executor, TurnServices(record=self._record))
        return await runner.run(request("hello", "context", as_task=True), self.output)

    def _record(self, context_id: str, question: Any, answer: Any) -> None:
        assert context_id == "context"
        self.lines += [question["text"], answer["text"]]


async def test_a_chat_turn_with_tools_is_looked_through(
    chat_gateway: ChatGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_SERVER_KEY", "key")
    chat_gateway.features = {"chat_completions_streaming": True, "session_continuity_header": "x"}
    chat_gateway.session_messages["session-1"] = [{"role": "tool", "content": HELD}]
    tool = 'event: hermes.tool.progress\ndata: {"tool": "terminal", "toolCallId": "1", "status": "running"}'
    session = {"X-Hermes-Session-Id": "session-1"}
    for events, lines in (((), 0), ((tool,), 2)):
        chat_gateway.stream(*events, delta("done"), "data: [DONE]", headers=session)
        turn = Recorded()
        assert (await turn.run(make_executor())).text == "done"
        assert turn.lines[:-2] == ["hermes asks for an approval: rm -rf x", DENIED][:lines]
        assert any(DENIED in event[1] for event in turn.output.events if event[0] == "status") is bool(lines)


async def test_the_plugin_reports_what_it_denied(plugin_gateway: PluginGateway) -> None:
    async with started() as made:
        turn = Recorded()
        running = asyncio.ensure_future(turn.run(made))
        post = await plugin_gateway.arrived()
        await plugin_gateway.reply(post, "rm -rf x", metadata={"final": False, "approval": "denied"})
        await plugin_gateway.reply(post, "half done", metadata={"final": False})
        await plugin_gateway.reply(post, "done")
        assert (await running).text == "done"
        assert turn.lines == ["hermes asks for an approval: rm -rf x", DENIED, "hello", "done"]
        assert ("status", "half done") in turn.output.events
