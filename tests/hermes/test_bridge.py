"""The bridge and the real gateway together, on both transports: every turn has its own answer and memory."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
import requests

from molecule_runtime.kit.turns.runner import TurnRunner, TurnServices
from molecule_runtime.runtimes.hermes.approvals import DENIED
from molecule_runtime.testing.recording_output import RecordingOutput, request
from molecule_runtime.testing.scripted_model import (
    ModelReply,
    ModelRequest,
    ScriptedModel,
    ToolCall,
    by_text,
    recall,
)
from tests.hermes.bridges import HEAD, Bridge, text_of
from tests.hermes.gateway_process import GatewayProcess

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,  # hermes needs 8 s to start, and as many to start again
]

CONVERSATIONS = ("amber", "basalt", "coral")
TURNS = 10
COMMANDS = ("/status", "restart gateway")


async def test_ten_turns_in_three_conversations_on_both_transports_and_a_kill(
    bridges: list[Bridge], gateway: GatewayProcess, model: ScriptedModel
) -> None:
    for bridge in bridges:
        turns = [(CONVERSATIONS[number % 3], f"{bridge.transport} stone {number}") for number in range(TURNS)]
        # The first turn of a conversation is among them: a hint of hermes would not be what was said.
        own = [await bridge.take_turn(*turn) for turn in turns]
        at_once = await _ask_at_once(bridge)
        reached = [await _command_reaches_the_model(bridge, model, text) for text in COMMANDS]
        print(
            f"\n{bridge.transport}: {sum(own)} of {TURNS} turns in {len(CONVERSATIONS)} conversations with "
            f"their own answer, {len(CONVERSATIONS)} first turns answered by the model; {at_once} of 3 "
            f"messages at once answered; {sum(reached)} of {len(COMMANDS)} commands reached the model"
        )
    interrupted = await _kill_during_turns(bridges, gateway, model)
    for bridge in bridges:
        known = [await bridge.take_turn(name, f"{bridge.transport} again {name}") for name in CONVERSATIONS]
        goes_on = await bridge.ask("interrupted", "what now?")
        assert goes_on.startswith(f"{HEAD}begun\n")
        assert goes_on.endswith("\nwhat now?")
        seconds, words = interrupted[bridge.transport]
        print(
            f"{bridge.transport}: after kill -9 {sum(known)} of {len(CONVERSATIONS)} conversations go on; "
            f"the turn that ran was told as retryable after {seconds:.1f} s: {words}"
        )


async def test_an_approval_is_denied_and_recorded(
    bridges: list[Bridge], model: ScriptedModel, tmp_path: Path
) -> None:
    for bridge in bridges:
        victim = tmp_path / bridge.transport
        victim.mkdir()
        command = f"rm -rf {victim}"
        call = ModelReply(tool_calls=(ToolCall("terminal", {"command": command}),))

        def script(request: ModelRequest, call: ModelReply = call) -> ModelReply | str:
            # A request without tools asks this model whether the command is harmless; it does not know.
            return call if request.tools and not request.tool_results else "I was not allowed to."

        model.script = script
        lines, output = list[Any](), RecordingOutput()
        services = TurnServices(
            record=lambda _, question, answered, lines=lines: lines.extend([question, answered])
        )
        runner = TurnRunner(bridge.executor, services)
        outcome = await runner.run(request("delete it", f"approval-{bridge.transport}", as_task=True), output)
        # Hermes streams two line ends between a tool and what it says then.
        assert (outcome.state, outcome.text.lstrip()) == ("completed", "I was not allowed to.")
        assert victim.exists()
        note = f"hermes asks for an approval: {command}"
        assert [line["text"] for line in lines] == [note, DENIED, "delete it", outcome.text]
        assert ("status", f"{note} ({DENIED})") in output.events


async def _ask_at_once(bridge: Bridge) -> int:
    """Three messages to one chat at the same time; how many got an answer of their own."""
    texts = [f"{bridge.transport} at once {number}" for number in range(3)]
    answers = await asyncio.gather(*(bridge.ask("burst", text) for text in texts))
    for text, answer in zip(texts, answers, strict=True):
        assert answer.startswith(HEAD)
        assert answer.endswith(f"\n{text}")
    # Each was a turn of its own: one remembers none, one remembers one, one both of the others.
    assert sorted(answer.count("at once") for answer in answers) == [1, 2, 3]
    return len(set(answers))


async def _command_reaches_the_model(bridge: Bridge, model: ScriptedModel, text: str) -> bool:
    """Whether a text that hermes would run as a command is given to the model."""
    before = len(model.requests)
    answer = await bridge.ask(f"commands {text}", text)
    prompts = [request.last_user_text for request in model.requests[before:] if request.tools]
    assert [words.endswith(text) for words in prompts] == [True]
    assert answer == HEAD + prompts[0]
    return True


async def _kill_during_turns(
    bridges: list[Bridge], gateway: GatewayProcess, model: ScriptedModel
) -> dict[str, tuple[float, str]]:
    """Kill the gateway under a turn of each bridge, and wait until its supervisor has brought it back.

    When and with which words each turn was told that it failed.
    """
    for bridge in bridges:
        await bridge.ask("interrupted", "begun")
    model.script = by_text({"hang on": ModelReply("never", silent=True)})
    turns = {
        bridge.transport: asyncio.create_task(bridge.outcome("interrupted", f"{bridge.transport} hang on"))
        for bridge in bridges
    }
    for transport in turns:
        await asyncio.to_thread(model.wait_for, f"{transport} hang on")
    before, outcomes = gateway.hermes(), dict[str, tuple[float, str]]()
    killed = time.monotonic()
    before.kill()
    for transport, turn in turns.items():
        failed = (await asyncio.wait_for(turn, 5)).metadata["molecule"]
        assert (failed["state"], failed["retryable"]) == ("failed", True)
        outcomes[transport] = time.monotonic() - killed, text_of(turn.result())
    assert "[hermes-agent unreachable]" in outcomes["chat"][1]
    assert "[hermes plugin error] the hermes gateway ended before it answered" in outcomes["plugin"][1]
    model.script = recall
    await asyncio.to_thread(before.wait, 10)
    until = time.monotonic() + 60
    while not await asyncio.to_thread(_is_ready, gateway):
        assert time.monotonic() < until, gateway.log
        await asyncio.sleep(0.1)
    assert gateway.hermes().pid != before.pid
    return outcomes


def _is_ready(gateway: GatewayProcess) -> bool:
    try:
        return requests.get(f"{gateway.plugin_url}/a2a/health", timeout=5).status_code == 200
    except requests.ConnectionError:
        return False
