"""Turns of a workspace over the bridge: streams, sessions, cancellation, and nothing secret told."""

import asyncio
import json
import logging
from typing import Any

import pytest
from starlette.responses import Response

from molecule_runtime.domain.turns import Caller, TurnEvent
from molecule_runtime.kit.turns.history import HistoryStore
from molecule_runtime.kit.turns.runner import TurnRunner, TurnServices
from molecule_runtime.runtimes.hermes import chat, executor
from molecule_runtime.runtimes.hermes.executor import HermesAgentProxyExecutor
from molecule_runtime.runtimes.hermes.sessions import SESSION_HEADER, SESSION_KEY_HEADER, session_id_of
from molecule_runtime.testing.recording_output import RecordingOutput, request
from packages.runtime.tests.runtimes.hermes.gateways import (
    ChatGateway,
    PluginGateway,
    Queue,
    context,
    delta,
    make_executor,
    says,
    started,
)

STREAMING: dict[str, Any] = {"chat_completions_streaming": True}
SESSIONS = {"session_continuity_header": SESSION_HEADER, "session_key_header": SESSION_KEY_HEADER}


class SignallingOutput(RecordingOutput):
    """Tells when the first text has come."""

    def __init__(self) -> None:
        super().__init__()
        self.has_said = asyncio.Event()

    async def text(self, delta: str, *, run: int, first: bool, last: bool) -> None:
        await super().text(delta, run=run, first=first, last=last)
        self.has_said.set()


def progress(**data: str) -> str:
    return f"event: hermes.tool.progress\ndata: {json.dumps(data)}"


class Workspace:
    """The kit around an executor, as the process has it."""

    def __init__(self, made: HermesAgentProxyExecutor, histories: HistoryStore | None = None) -> None:
        self.events: list[TurnEvent] = []
        self.histories = histories or HistoryStore()
        services = TurnServices(histories=self.histories, observe=self.events.append)
        self.runner = TurnRunner(made, services)

    async def send(self, text: str, context_id: str = "", **more: Any) -> RecordingOutput:
        output = RecordingOutput()
        await self.runner.run(request(text, context_id, **more), output)
        return output


async def test_a_stream_is_passed_on_as_it_comes(chat_gateway: ChatGateway) -> None:
    chat_gateway.features = STREAMING
    chat_gateway.stream(
        progress(tool="ls", label="ls -l", toolCallId="1", status="running"),
        progress(tool="ls", toolCallId="1", status="completed"),
        'data: {"choices": [{"delta": {"reasoning_content": "hidden"}}]}',
        delta("Well"),
        ": keepalive",
        0.2,
        delta(", yes\u2028!"),
        'data: {"choices": [], "model": "m", "usage": {"prompt_tokens": 3, "completion_tokens": 5}}',
        "data: [DONE]",
    )
    workspace, output = Workspace(make_executor()), SignallingOutput()
    turn = asyncio.ensure_future(workspace.runner.run(request("hello"), output))
    await output.has_said.wait()
    assert (output.streamed_text, output.outcomes) == ("Well", [])
    await turn
    assert (output.outcome.state, output.outcome.text, output.streamed_text) == (
        "completed",
        "Well, yes\u2028!",
        "Well, yes\u2028!",
    )
    trace: Any = output.outcome.metadata["tool_trace"]
    assert (trace[0]["tool"], trace[0]["input"]) == ("ls", "ls -l")
    assert chat_gateway.calls[0].body["stream"] is True
    usage = [event.usage for event in workspace.events if event.usage]
    assert [(one.model, one.input_tokens, one.output_tokens) for one in usage] == [("m", 3, 5)]


async def test_a_gateway_is_asked_once_what_it_can_do(
    chat_gateway: ChatGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = Workspace(make_executor())
    for _ in range(2):
        assert (await workspace.send("hello")).outcome.text == "hi"
    assert chat_gateway.paths == ["/v1/capabilities"]
    assert chat_gateway.calls[0].body["stream"] is False
    chat_gateway.features = STREAMING
    monkeypatch.setenv("HERMES_STREAM", "off")
    await Workspace(make_executor()).send("hello")
    assert chat_gateway.calls[-1].body["stream"] is False
    assert len(chat_gateway.paths) == 1


async def test_keepalives_alone_do_not_keep_a_turn(chat_gateway: ChatGateway) -> None:
    chat_gateway.features = STREAMING
    chat_gateway.stream(*(part for _ in range(40) for part in (": keepalive", 0.05)))
    made = make_executor()
    made.idle_timeout = 0.3  # type: ignore[misc] - for this executor alone
    outcome = (await Workspace(made).send("hello")).outcome
    assert (outcome.state, outcome.code) == ("failed", "turn-stalled")
    assert made._work == {}


@pytest.mark.parametrize("broken", [(delta("so far"),), (delta("so far"), "data: {broken")])
async def test_a_stream_that_ends_early_is_a_failure_and_keeps_its_text(
    broken: tuple[str, ...], chat_gateway: ChatGateway
) -> None:
    chat_gateway.features = STREAMING
    chat_gateway.stream(*broken)
    output = await Workspace(make_executor()).send("hello")
    assert output.outcome.state == "failed"
    assert output.outcome.text.startswith("[hermes-agent unreachable] stream ended early [ref ")
    assert output.streamed_text == "so far"


async def test_a_run_that_hermes_gave_up_is_a_failure(chat_gateway: ChatGateway) -> None:
    chat_gateway.features = STREAMING
    failed = '{"choices": [{"delta": {}, "finish_reason": "error"}], "error": {"message": "no credit"}}'
    chat_gateway.stream(f"data: {failed}", "data: [DONE]")
    outcome = (await Workspace(make_executor()).send("hello")).outcome
    assert outcome.state == "failed"
    assert outcome.text.startswith("[hermes-agent error 502] no credit [ref ")


async def test_a_cancel_closes_the_stream(chat_gateway: ChatGateway) -> None:
    chat_gateway.features = STREAMING
    chat_gateway.stream(delta("one"), *(part for number in range(200) for part in (0.05, delta(str(number)))))
    workspace, output, turn_request = Workspace(make_executor()), SignallingOutput(), request("hello")
    turn = asyncio.ensure_future(workspace.runner.run(turn_request, output))
    await output.has_said.wait()
    async with asyncio.timeout(1):
        workspace.runner.cancel(turn_request.task_id)
        await turn
        await chat_gateway.closed.wait()
    assert output.outcome.state == "canceled"


async def test_a_cancel_of_a_whole_answer_says_that_hermes_may_go_on(chat_gateway: ChatGateway) -> None:
    arrived = asyncio.Event()

    async def never(call: Any) -> Response:
        arrived.set()
        await asyncio.sleep(5)
        return says("late")

    chat_gateway.answer = never
    workspace, output, turn_request = Workspace(make_executor()), RecordingOutput(), request("hello")
    turn = asyncio.ensure_future(workspace.runner.run(turn_request, output))
    await arrived.wait()
    async with asyncio.timeout(1):
        workspace.runner.cancel(turn_request.task_id)
        await turn
    assert output.outcome.state == "canceled"
    assert any(event[0] == "status" and "may finish" in event[1] for event in output.events)


async def test_a_session_carries_the_caller(
    chat_gateway: ChatGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_SERVER_KEY", "a-key")
    chat_gateway.features = SESSIONS
    caller = Caller("workspace:w2", "Two", verified=True)
    workspace = Workspace(make_executor())
    await workspace.send("one", "c", caller=caller)
    await workspace.send("two", "c", caller=caller)
    last = chat_gateway.calls[-1]
    assert last.headers[SESSION_KEY_HEADER] == "molecule:ws-1:workspace:w2"
    assert [one["content"] for one in last.body["messages"]] == ["two"]


async def test_a_gateway_without_sessions_gets_the_history(
    chat_gateway: ChatGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_SERVER_KEY", "a-key")
    chat_gateway.features = {}
    workspace = Workspace(make_executor())
    await workspace.send("one", "c")
    history: list[Any] = [{"role": "user", "content": "a"}, {"role": "system", "content": "b"}]
    await workspace.send("two", "c")
    await workspace.send("three", "c", metadata={"history": history})
    sent = [[one["content"] for one in call.body["messages"]] for call in chat_gateway.calls]
    assert sent == [["one"], ["one", "hi", "two"], ["a", "three"]]
    assert all(SESSION_HEADER not in call.headers for call in chat_gateway.calls)


@pytest.mark.parametrize("is_lost", [False, True])
async def test_a_restart_goes_on_with_the_session_or_brings_the_history(
    is_lost: bool, chat_gateway: ChatGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_SERVER_KEY", "a-key")
    chat_gateway.features = SESSIONS
    chat_gateway.answer = lambda call: says("hi", {SESSION_HEADER: "hermes-made-this"})
    workspace = Workspace(make_executor())
    await workspace.send("one", "c")
    assert chat_gateway.calls[0].headers[SESSION_HEADER] == session_id_of("ws-1", "c")
    assert workspace.runner.executor._session_id == "hermes-made-this"
    restored = HistoryStore()
    restored.load(workspace.histories.dump())
    if not is_lost:
        chat_gateway.session_messages["hermes-made-this"] = [{"role": "user", "content": "one"}]
    after = Workspace(make_executor(system_prompt="be kind"), restored)
    await after.send("two", "c")
    await after.send("three", "c")
    second, third = chat_gateway.calls[1:]
    assert second.headers[SESSION_HEADER] == third.headers[SESSION_HEADER] == "hermes-made-this"
    block = "\n\nConversation so far:\nuser: one\nassistant: hi" if is_lost else ""
    assert second.body["messages"][0]["content"] == f"be kind{block}"
    assert third.body["messages"][0]["content"] == "be kind"


async def test_progress_is_told_and_the_caller_is_named(plugin_gateway: PluginGateway) -> None:
    async with started() as made:
        output, workspace = RecordingOutput(), Workspace(made)
        turn_request = request(
            "hello", "c", caller=Caller("workspace:w2", "Two", verified=True), traceparent="00-1"
        )
        turn = asyncio.ensure_future(workspace.runner.run(turn_request, output))
        post = await plugin_gateway.arrived()
        assert (post.body["peer_id"], post.body["peer_name"]) == ("workspace:w2", "Two")
        assert post.body["metadata"] == {
            "context_id": "c",
            "task_id": turn_request.task_id,
            "traceparent": "00-1",
        }
        await plugin_gateway.reply(post, "looking around", metadata={"final": False})
        await plugin_gateway.reply(post, "found it", metadata={"final": True})
        await turn
        assert ("status", "looking around") in output.events
        assert output.outcome.text == "found it"


async def test_a_deadline_is_told_to_the_plugin_and_ends_the_turn(plugin_gateway: PluginGateway) -> None:
    async with started() as made:
        workspace = Workspace(made)
        made.config.runtime_config["timeout"] = 0.2
        outcome = (await Workspace(made).send("hello")).outcome
        assert (outcome.state, outcome.code) == ("failed", "turn-timeout")
        assert "deadline" in plugin_gateway.posts[0].body["metadata"]
        assert len(plugin_gateway.cancelled) == 1
        assert made._pending == {}
        assert workspace.events == []


KEY, SECRET = "canary-key-0123456789", "canary-secret-0123456789"


def strings_in(value: object) -> list[str]:
    return [canary for canary in (KEY, SECRET, "canary") if canary in repr(value)]


async def test_no_text_log_or_event_has_a_key_or_a_secret(
    chat_gateway: ChatGateway,
    plugin_gateway: PluginGateway,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "molecule_runtime")
    monkeypatch.setenv("API_SERVER_KEY", KEY)
    monkeypatch.setenv("MOLECULE_A2A_PLATFORM_SHARED_SECRET", SECRET)
    monkeypatch.setattr(chat, "RETRY_SECONDS", ())
    monkeypatch.setattr(executor, "_PLUGIN_REPLY_TIMEOUT", 0.1)
    outcomes: list[Any] = []

    async def ask(made: HermesAgentProxyExecutor) -> None:
        queue = Queue()
        await made.execute(context(context_id="c"), queue)
        outcomes.extend(queue.events)

    monkeypatch.setenv("MOLECULE_A2A_PLATFORM_ENABLED", "false")
    over_chat = make_executor()
    for reply in (
        Response(f"bad header Authorization: Bearer {KEY} and {SECRET}", status_code=500),
        says(f"the key is {KEY}, the secret {SECRET}"),
        Response(f'{{"{KEY}": "{SECRET}"}}', media_type="application/json"),
        Response(KEY, status_code=403),
    ):
        chat_gateway.answer = lambda call, reply=reply: reply
        await ask(over_chat)
    monkeypatch.setenv("API_SERVER_KEY", f"{KEY}\nX-Evil: 1")
    await ask(over_chat)
    over_chat._base = "http://127.0.0.1:1/v1"
    await ask(over_chat)
    monkeypatch.setenv("MOLECULE_A2A_PLATFORM_ENABLED", "true")
    plugin_gateway.secret = SECRET
    async with started() as over_plugin:
        await ask(over_plugin)
        plugin_gateway.auto = f"the secret is {SECRET}"
        await ask(over_plugin)
        plugin_gateway.statuses = [(500, {})]
        await ask(over_plugin)
    assert len(outcomes) == 9
    assert [found for event in outcomes if (found := strings_in(event))] == []
    logged = [logging.Formatter().format(record) for record in caplog.records]
    assert [line for line in logged if strings_in(line)] == []
