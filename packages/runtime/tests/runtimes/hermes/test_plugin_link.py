"""The plugin transport: each reply reaches its own caller, and nobody waits for ever."""

import asyncio
import logging
import socket
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from molecule_runtime.kit.state import engine_health
from molecule_runtime.runtimes.hermes import executor
from molecule_runtime.runtimes.hermes.executor import SECRET_HEADER, HermesAgentProxyExecutor
from molecule_runtime.testing.recording_output import RecordingOutput, request
from packages.runtime.tests.runtimes.hermes.gateways import (
    PluginGateway,
    Queue,
    context,
    free_port,
    make_executor,
    started,
)


def asking(
    made: HermesAgentProxyExecutor, text: str = "hello", **members: Any
) -> tuple[Queue, "asyncio.Task[None]"]:
    queue = Queue()
    return queue, asyncio.ensure_future(made.execute(context(text, **members), queue))


async def test_a_message_has_what_the_plugin_needs(plugin_gateway: PluginGateway) -> None:
    async with started() as made:
        queue, turn = asking(made, task_id="t", context_id="c")
        post = await plugin_gateway.arrived()
        assert list(made._pending) == [post.body["message_id"]]
        assert (await plugin_gateway.reply(post, "the answer")).json() == {"ok": True}
        await turn
        assert (queue.text, queue.state, made._pending) == ("the answer", "", {})
        assert made._callback_port not in (0, 8646)
        assert post.body == {
            "chat_id": "c",
            "peer_id": "c",
            "peer_name": "c",
            "content": "hello",
            "message_id": post.body["message_id"],
            "callback_url": f"http://127.0.0.1:{made._callback_port}/a2a/reply",
            "metadata": {"context_id": "c", "task_id": "t"},
        }
        assert SECRET_HEADER not in post.headers


async def test_the_secret_is_sent_and_required(
    plugin_gateway: PluginGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOLECULE_A2A_PLATFORM_SHARED_SECRET", "open sesame")
    async with started() as made:
        queue, turn = asking(made)
        post = await plugin_gateway.arrived()
        assert post.headers[SECRET_HEADER] == "open sesame"
        for wrong in ("", "open", "OPEN SESAME"):
            plugin_gateway.secret = wrong
            refused = await plugin_gateway.reply(post, "forged")
            assert (refused.status_code, refused.json()) == (401, {"ok": False, "error": "unauthorized"})
        plugin_gateway.secret = "open sesame"
        await plugin_gateway.reply(post, "genuine")
        await turn
        assert queue.text == "genuine"


async def test_replies_in_reverse_order_reach_their_own_callers(plugin_gateway: PluginGateway) -> None:
    async with started() as made:
        turns = [asking(made, f"message {number}", context_id="one chat") for number in (1, 2)]
        await plugin_gateway.arrived(2)
        for post in reversed(plugin_gateway.posts):
            await plugin_gateway.reply(post, f"answer to {post.body['content']}")
        await asyncio.gather(*(turn for _, turn in turns))
        assert [queue.text for queue, _ in turns] == ["answer to message 1", "answer to message 2"]


async def test_late_and_repeated_replies_are_stale(
    plugin_gateway: PluginGateway, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(executor, "_PLUGIN_REPLY_TIMEOUT", 0.1)
    async with started() as made:
        queue, turn = asking(made)
        post = await plugin_gateway.arrived()
        await turn
        assert queue.text.startswith("[hermes plugin reply timeout after 0s] [ref ")
        assert queue.events[0].metadata["molecule"]["code"] == "turn-timeout"
        assert made._pending == {}
        assert (await plugin_gateway.reply(post, "late")).json() == {"ok": True, "stale": True}
        message_id = post.body["message_id"]
        assert f"hermes plugin: reply timeout for message_id={message_id}" in caplog.text
        assert f"hermes plugin: reply for unknown message_id={message_id}" in caplog.text


async def test_the_first_reply_wins_and_may_be_empty(plugin_gateway: PluginGateway) -> None:
    async with started() as made:
        future: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        made._pending["m"] = future
        post = SimpleNamespace(body={"chat_id": "c", "message_id": "m", "callback_url": made._callback_url()})
        for content in ("", "second"):
            assert (await plugin_gateway.reply(post, content)).json() == {"ok": True}
        assert future.result() == ""


@pytest.mark.parametrize(
    ("status", "text"), [(500, "HTTP 500"), (404, "HTTP 404"), (302, "HTTP 302"), (503, "HTTP 503")]
)
async def test_a_message_that_is_not_taken_is_told(
    status: int, text: str, plugin_gateway: PluginGateway, caplog: pytest.LogCaptureFixture
) -> None:
    plugin_gateway.statuses = [(status, {})]
    async with started() as made:
        queue, turn = asking(made)
        await turn
        assert queue.text.startswith(f"[hermes plugin POST error] {text} [ref ")
        assert (queue.state, made._pending) == ("failed", {})
    records = [one for one in caplog.records if one.getMessage() == "hermes plugin POST failed"]
    assert [(one.levelno, bool(one.exc_info)) for one in records] == [(logging.ERROR, True)]


async def test_a_plugin_that_is_down_or_slow_is_told(
    plugin_gateway: PluginGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "_PLUGIN_POST_TIMEOUT", 0.1)
    plugin_gateway.pause = 5.0
    async with started() as made:
        queue, turn = asking(made)
        await turn
        assert queue.text.startswith("[hermes plugin POST error] TimeoutError [ref ")
        made._plugin_port = free_port()
        queue, turn = asking(made)
        await turn
        assert queue.text.startswith("[hermes plugin POST error] ConnectError [ref ")
        assert made._pending == {}


async def test_a_gateway_that_is_starting_gets_the_same_message_again(plugin_gateway: PluginGateway) -> None:
    plugin_gateway.statuses = [(503, {"Retry-After": "0"})] * 2
    plugin_gateway.auto = "ready now"
    async with started() as made:
        queue, turn = asking(made)
        await turn
        assert queue.text == "ready now"
        assert len({post.body["message_id"] for post in plugin_gateway.posts}) == 1
        assert len(plugin_gateway.posts) == 3


async def test_a_stop_ends_every_wait_at_once(plugin_gateway: PluginGateway) -> None:
    made = make_executor()
    await made.stop()
    await made.start()
    queue, turn = asking(made)
    await plugin_gateway.arrived()
    own: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    made._pending["own"] = own
    async with asyncio.timeout(1):
        await made.stop()
        await turn
    assert queue.text.startswith("[hermes plugin error] executor shutting down [ref ")
    assert queue.events[0].metadata["molecule"]["retryable"] is True
    with pytest.raises(RuntimeError, match="^executor shutting down$"):
        own.result()
    assert (made._pending, made._started, made._reply_site, made._reply_runner) == ({}, False, None, None)
    await made.stop()
    plugin_gateway.auto = "again"
    await made.start()
    queue, turn = asking(made)
    await turn
    assert queue.text == "again"
    await made.stop()


async def test_a_failure_of_the_wait_is_told_in_one_clean_line(
    plugin_gateway: PluginGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOLECULE_A2A_PLATFORM_SHARED_SECRET", "open sesame")
    async with started() as made:
        queue, turn = asking(made)
        post = await plugin_gateway.arrived()
        problem = RuntimeError("it broke\nwith open sesame " + "and more " * 100)
        made._pending[post.body["message_id"]].set_exception(problem)
        await turn
        text = queue.text.removeprefix("[hermes plugin error] ")[:-15]
        assert text.startswith("it broke with [REDACTED")
        assert len(text) <= 200


async def test_a_caller_that_goes_away_leaves_nothing(plugin_gateway: PluginGateway) -> None:
    async with started() as made:
        queue, turn = asking(made)
        await plugin_gateway.arrived()
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        assert (made._pending, made._work, queue.events) == ({}, {}, [])


async def test_a_cancel_frees_the_slot_and_tells_the_plugin(plugin_gateway: PluginGateway) -> None:
    async with started(runtime_config={"max_concurrent_turns": 1}) as made:
        queue, turn = asking(made, task_id="t", context_id="c")
        post = await plugin_gateway.arrived()
        await made.cancel(context(task_id="another"), queue)
        async with asyncio.timeout(1):
            await made.cancel(context(task_id="t"), queue)
            await turn
        assert queue.state == "canceled"
        body = {"message_id": post.body["message_id"], "chat_id": "c"}
        assert (plugin_gateway.cancelled, made._pending) == ([body], {})
        assert (await plugin_gateway.reply(post, "late")).json() == {"ok": True, "stale": True}
        plugin_gateway.auto = "next"
        queue, turn = asking(made)
        await turn
        assert queue.text == "next"


async def test_two_executors_serve_at_the_same_time(
    plugin_gateway: PluginGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with started() as one:
        monkeypatch.setenv("MOLECULE_A2A_PLATFORM_SHARED_SECRET", "of the second")
        async with started() as two:
            turns = [asking(one, "to one"), asking(two, "to two")]
            await plugin_gateway.arrived(2)
            for post in plugin_gateway.posts:
                plugin_gateway.secret = post.headers.get(SECRET_HEADER, "")
                await plugin_gateway.reply(post, f"answer {post.body['content']}")
            await asyncio.gather(*(turn for _, turn in turns))
            assert [queue.text for queue, _ in turns] == ["answer to one", "answer to two"]
            assert one._callback_port != two._callback_port


async def test_three_failures_in_a_row_wedge_and_a_success_clears(
    plugin_gateway: PluginGateway,
) -> None:
    plugin_gateway.statuses = [(500, {})] * 3
    async with started() as made:
        for _ in range(3):
            assert not engine_health.is_wedged()
            await asking(made)[1]
        assert engine_health.wedge_reason() == "hermes plugin unreachable"
        plugin_gateway.auto = "back"
        await asking(made)[1]
        assert not engine_health.is_wedged()


async def test_a_gateway_that_takes_messages_and_answers_none_is_bounded(
    plugin_gateway: PluginGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "_PLUGIN_REPLY_TIMEOUT", 0.1)
    async with started(runtime_config={"max_concurrent_turns": 1}) as made:
        turns = [asking(made) for _ in range(3)]
        for number, (queue, turn) in enumerate(turns, 1):
            await asyncio.wait_for(turn, 5)
            assert queue.text.startswith("[hermes plugin reply timeout after 0s]")
            assert len(plugin_gateway.posts) >= number, "each timeout frees the one slot for the next turn"
        assert engine_health.wedge_reason() == "hermes plugin unreachable"
        plugin_gateway.auto = "back"
        await asking(made)[1]
        assert not engine_health.is_wedged()


async def test_a_blank_prompt_posts_nothing(plugin_gateway: PluginGateway) -> None:
    async with started() as made:
        queue, turn = asking(made, "  ")
        await turn
        assert queue.text == "(empty prompt — nothing to do)"
        assert plugin_gateway.posts == []


async def test_a_start_binds_once_and_can_be_repeated_after_a_failure(
    plugin_gateway: PluginGateway, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = int(taken.getsockname()[1])
        monkeypatch.setenv("MOLECULE_A2A_CALLBACK_PORT", str(port))
        made = make_executor()
        with pytest.raises(RuntimeError, match=f"MOLECULE_A2A_CALLBACK_PORT={port} "):
            await made.start()
        assert made._started is False
    await made.start()
    site = made._reply_site
    await made.start()
    assert (made._callback_port, made._reply_site) == (port, site)
    line = f"hermes plugin reply server listening on http://127.0.0.1:{port}/a2a/reply"
    assert caplog.text.count(line) == 1
    await made.stop()


async def test_a_default_port_that_is_taken_is_replaced(
    plugin_gateway: PluginGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = int(taken.getsockname()[1])
        monkeypatch.delenv("MOLECULE_A2A_CALLBACK_PORT")
        monkeypatch.setattr(executor, "_DEFAULT_CALLBACK_PORT", port)
        async with started() as made:
            assert made._callback_port not in (0, port)
            async with httpx.AsyncClient(verify=False, trust_env=False) as client:
                url = made._callback_url().replace("reply", "health")
                assert (await client.get(url)).json() == {"ok": True, "pending": 0}


async def test_without_the_server_package_the_start_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOLECULE_A2A_PLATFORM_ENABLED", "true")
    monkeypatch.setattr(executor, "AIOHTTP_AVAILABLE", False)
    text = "^MOLECULE_A2A_PLATFORM_ENABLED=true but uvicorn is not installed — add uvicorn to requirements"
    with pytest.raises(RuntimeError, match=text):
        await make_executor().start()


async def test_without_the_plugin_a_start_only_says_so(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    made = make_executor()
    await made.start()
    assert (made._started, made._reply_runner, made._reply_site) == (True, None, None)
    assert "Hermes plugin path disabled; using /v1/chat/completions" in caplog.text


async def test_a_stop_survives_what_it_stops(caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise OSError("it is stuck")

    made = make_executor()
    made._reply_site, made._reply_runner = SimpleNamespace(stop=fail), SimpleNamespace(cleanup=fail)
    await made.stop()
    assert "hermes plugin: reply site stop failed" in caplog.text
    assert "hermes plugin: reply runner cleanup failed" in caplog.text


async def test_the_seams_of_the_plugin_can_be_called_and_replaced(plugin_gateway: PluginGateway) -> None:
    made, queue, seen = make_executor(), Queue(), list[Any]()

    async def not_started() -> None:
        seen.append("started")

    async def replaced(context: Any, event_queue: Any, prompt: str) -> None:
        seen.append((context, event_queue, prompt))

    made._start_reply_server = not_started
    await made.start()
    await made.stop()
    del made._start_reply_server
    await made.start()
    plugin_gateway.auto = "direct"
    await made._execute_via_plugin(context(task_id="t"), queue, "a prompt")
    assert queue.text == "direct"
    made._execute_via_plugin = replaced
    request = context("patched")
    await made.execute(request, queue)
    assert seen == ["started", (request, queue, "patched")]
    await made.stop()


@pytest.mark.parametrize(("error", "is_retryable"), [("no-answer", False), ("stopped", True)])
async def test_a_message_that_hermes_will_not_answer_is_a_failure(
    plugin_gateway: PluginGateway, error: str, is_retryable: bool
) -> None:
    async with started() as made:
        turn_request = request("hello")
        output = RecordingOutput()
        turn = asyncio.ensure_future(made._own_runner().run(turn_request, output))
        post = await plugin_gateway.arrived()
        sentence = "[hermes plugin error] hermes ended the turn without an answer"
        await plugin_gateway.reply(post, sentence, metadata={"final": True, "error": error})
        outcome = await turn
        assert (outcome.state, outcome.retryable) == ("failed", is_retryable)
        assert outcome.text.startswith(f"{sentence} [ref ")
