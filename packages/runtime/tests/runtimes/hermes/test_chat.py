"""The chat transport under a bare server: one request, one answer."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.responses import HTMLResponse, JSONResponse, Response

from molecule_runtime.runtimes.hermes import chat, executor
from molecule_runtime.runtimes.hermes.executor import HermesAgentProxyExecutor
from molecule_runtime.runtimes.hermes.sessions import SESSION_HEADER, session_id_of
from packages.runtime.tests.runtimes.hermes.gateways import (
    ChatGateway,
    Queue,
    context,
    free_port,
    make_executor,
    says,
)


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat, "RETRY_SECONDS", (0.01, 0.02))


async def reply_queue(made: HermesAgentProxyExecutor, request: Any = None) -> Queue:
    queue = Queue()
    await made.execute(request or context(), queue)
    return queue


def answers(*replies: Response) -> Callable[[SimpleNamespace], Response]:
    left = list(replies)
    return lambda call: left.pop(0)


async def test_a_request_has_system_prompt_model_and_text(chat_gateway: ChatGateway) -> None:
    queue = await reply_queue(make_executor(system_prompt="be kind"))
    assert (queue.text, queue.state) == ("hi", "")
    assert chat_gateway.calls[0].body == {
        "model": "hermes-test",
        "messages": [{"role": "system", "content": "be kind"}, {"role": "user", "content": "hello"}],
        "stream": False,
    }


async def test_without_prompt_and_model_there_is_a_plain_request(chat_gateway: ChatGateway) -> None:
    await reply_queue(make_executor(model=""))
    sent = chat_gateway.calls[0].body
    assert sent["model"] == "hermes-agent"
    assert sent["messages"] == [{"role": "user", "content": "hello"}]
    assert chat_gateway.paths == []


async def test_the_key_is_read_for_every_request(
    chat_gateway: ChatGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = make_executor()
    assert made._build_chat_completions_headers() == {"Content-Type": "application/json"}
    for key in ("", "first-key", "second-key"):
        monkeypatch.setenv("API_SERVER_KEY", key)
        await reply_queue(made)
    sent = [call.headers.get("authorization") for call in chat_gateway.calls]
    assert sent == [None, "Bearer first-key", "Bearer second-key"]
    assert set(made._build_chat_completions_headers()) == {"Content-Type", "Authorization"}


@pytest.mark.parametrize("text", ["", "  \n"])
async def test_a_blank_prompt_calls_nobody(text: str, chat_gateway: ChatGateway) -> None:
    queue = await reply_queue(make_executor(), context(text))
    assert queue.text == "(empty prompt — nothing to do)"
    assert chat_gateway.calls == []


async def test_an_error_is_told_with_the_beginning_of_its_body(
    chat_gateway: ChatGateway, caplog: pytest.LogCaptureFixture
) -> None:
    chat_gateway.answer = lambda call: Response("long " * 400, status_code=500)
    queue = await reply_queue(make_executor())
    prefix = "[hermes-agent error 500] "
    text, reference = queue.text[:-15], queue.text[-15:]
    assert text == prefix + ("long " * 400)[:500]
    assert reference.startswith(" [ref ")
    assert queue.state == "failed"
    assert "hermes-agent 500: long" in caplog.text
    assert reference.strip() in caplog.text


async def test_a_gateway_that_is_down_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    port = free_port()
    monkeypatch.setenv("HERMES_API_BASE", f"http://127.0.0.1:{port}/v1")
    queue = await reply_queue(make_executor())
    assert queue.text.startswith(f"[hermes-agent unreachable] ConnectError 127.0.0.1:{port} [ref ")
    records = [one for one in caplog.records if one.getMessage() == "hermes-agent transport error"]
    assert [(one.levelno, bool(one.exc_info)) for one in records] == [(logging.ERROR, True)]


async def test_a_gateway_that_is_silent_is_given_up(
    chat_gateway: ChatGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def late(call: SimpleNamespace) -> Response:
        await asyncio.sleep(5)
        return says("too late")

    chat_gateway.answer = late
    monkeypatch.setattr(executor, "_REQUEST_TIMEOUT", 0.15)
    queue = await reply_queue(make_executor())
    assert queue.text.startswith("[hermes-agent unreachable] TimeoutError 127.0.0.1:")
    assert queue.events[0].metadata["molecule"]["code"] == "turn-timeout"
    assert len(chat_gateway.calls) == 1


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (JSONResponse({"choices": []}), "(hermes-agent returned no content)"),
        (JSONResponse({}), "(hermes-agent returned no content)"),
        (JSONResponse([1]), "(hermes-agent returned no content)"),
        (JSONResponse({"choices": [{"message": {"content": 7}}]}), "(hermes-agent returned no content)"),
        (HTMLResponse("<html>oops</html>"), "(hermes-agent returned no content)"),
        (says(None), "(no response generated)"),
        (says(""), "(no response generated)"),
    ],
)
async def test_an_answer_of_another_shape_is_told(
    reply: Response, text: str, chat_gateway: ChatGateway, caplog: pytest.LogCaptureFixture
) -> None:
    chat_gateway.answer = lambda call: reply
    assert (await reply_queue(make_executor())).text == text
    is_warned = "Unexpected hermes-agent response shape: " in caplog.text
    assert is_warned == text.startswith("(hermes")
    assert "oops" not in caplog.text


async def test_a_whole_answer_that_hermes_flags_as_failed_is_a_failure(chat_gateway: ChatGateway) -> None:
    choice = {"message": {"content": "API call failed"}, "finish_reason": "error"}
    hermes = {"failed": True, "error": "HTTP 429: slow down"}
    chat_gateway.answer = lambda call: JSONResponse({"choices": [choice], "hermes": hermes})
    queue = await reply_queue(make_executor())
    assert queue.state == "failed"
    assert queue.text.startswith("[hermes-agent error 502] HTTP 429: slow down [ref ")


def test_the_text_of_an_answer_is_extracted() -> None:
    extract = HermesAgentProxyExecutor._extract_assistant_text
    assert extract({"choices": [{"message": {"content": "a"}}]}) == "a"
    assert extract({"choices": [{"message": {"content": None}}]}) == ""
    assert extract(None) == extract({"choices": 5}) == "(hermes-agent returned no content)"


async def test_a_busy_gateway_is_asked_again(chat_gateway: ChatGateway) -> None:
    busy = {"Retry-After": "0"}
    chat_gateway.answer = answers(
        Response(status_code=503, headers=busy), Response(status_code=429, headers=busy), says("third")
    )
    assert (await reply_queue(make_executor())).text == "third"
    chat_gateway.answer = lambda call: Response("busy", status_code=503, headers=busy)
    assert (await reply_queue(make_executor())).text.startswith("[hermes-agent error 503] busy")
    assert len(chat_gateway.calls) == 6


@pytest.mark.parametrize("headers", [{}, {"Retry-After": "9999"}])
async def test_a_gateway_that_names_no_time_is_not_asked_again(
    headers: dict[str, str], chat_gateway: ChatGateway
) -> None:
    chat_gateway.answer = lambda call: Response("busy", status_code=503, headers=headers)
    assert (await reply_queue(make_executor())).text.startswith("[hermes-agent error 503] busy")
    assert len(chat_gateway.calls) == 1


async def test_a_connection_lost_before_any_byte_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    connections = 0
    body = b'{"choices": [{"message": {"content": "at last"}}]}'

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        if connections == 3:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    monkeypatch.setenv("HERMES_API_BASE", f"http://127.0.0.1:{port}/v1")
    assert (await reply_queue(make_executor())).text == "at last"
    assert connections == 3
    server.close()


async def test_a_conversation_has_one_session(
    chat_gateway: ChatGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_SERVER_KEY", "a-key")
    chat_gateway.answer = lambda call: says("hi", {SESSION_HEADER: call.headers[SESSION_HEADER]})
    made = make_executor()
    for task, conversation in (("t1", "c1"), ("t2", "c1"), ("t3", "c2")):
        await reply_queue(made, context(task_id=task, context_id=conversation))
    sent = [call.headers[SESSION_HEADER] for call in chat_gateway.calls]
    assert sent == [session_id_of("ws-1", "c1")] * 2 + [session_id_of("ws-1", "c2")]
    assert made._session_id == sent[-1]


async def test_a_history_is_sent_without_a_session_and_only_then(
    chat_gateway: ChatGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    history = [{"role": "user", "parts": [{"text": "one"}]}, {"role": "agent", "parts": [{"text": "two"}]}]
    request = context(metadata={"history": history}, context_id="c")
    await reply_queue(make_executor(), request)
    monkeypatch.setenv("API_SERVER_KEY", "a-key")
    await reply_queue(make_executor(), request)
    without, active = ([one["content"] for one in call.body["messages"]] for call in chat_gateway.calls)
    assert without == ["one", "two", "hello"]
    assert active == ["hello"]


async def test_a_conversation_without_a_session_is_remembered(chat_gateway: ChatGateway) -> None:
    made = make_executor()
    for text in ("first", "second"):
        await reply_queue(made, context(text, context_id="c"))
    assert [one["content"] for one in chat_gateway.calls[-1].body["messages"]] == ["first", "hi", "second"]


async def test_a_refused_session_is_dropped_for_good(
    chat_gateway: ChatGateway, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("API_SERVER_KEY", "a-key")
    refused = Response(status_code=403)
    chat_gateway.answer = lambda call: refused if SESSION_HEADER in call.headers else says("hi")
    made = make_executor()
    request = context(metadata={"history": [{"role": "user", "content": "one"}]}, context_id="c")
    assert [(await reply_queue(made, request)).text for _ in range(2)] == ["hi", "hi"]
    assert [SESSION_HEADER in call.headers for call in chat_gateway.calls] == [True, False, False]
    assert [one["content"] for one in chat_gateway.calls[-1].body["messages"]] == ["one", "hello"]
    assert caplog.text.count(f"refuses {SESSION_HEADER}") == 1


async def test_turns_of_one_conversation_wait_for_each_other(chat_gateway: ChatGateway) -> None:
    at_once: list[int] = []
    running = 0

    async def slow(call: SimpleNamespace) -> Response:
        nonlocal running
        running += 1
        at_once.append(running)
        await asyncio.sleep(0.05)
        running -= 1
        return says("hi")

    chat_gateway.answer = slow
    made = make_executor()
    await asyncio.gather(*(reply_queue(made, context(context_id="same")) for _ in range(3)))
    assert max(at_once) == 1
    await asyncio.gather(*(reply_queue(made, context(context_id=f"other {number}")) for number in range(6)))
    assert max(at_once) == 4


async def test_images_are_sent_and_other_files_are_named(
    chat_gateway: ChatGateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = context("look")
    request.message.parts += [
        {"raw": "iVBORw0KGgo=", "filename": "a.png", "mediaType": "image/png"},
        {"raw": "aGVsbG8=", "filename": "b.txt", "mediaType": "text/plain"},
    ]
    monkeypatch.setattr("molecule_runtime.kit.files.attachments.work_dir", lambda: tmp_path)
    await reply_queue(make_executor(), request)
    text, image = chat_gateway.calls[0].body["messages"][0]["content"]
    assert text["text"].startswith("look")
    assert "b.txt (text/plain)" in text["text"]
    assert image["image_url"]["url"] == "data:image/png;base64,iVBORw0KGgo="


async def test_the_transport_can_be_called_and_replaced(chat_gateway: ChatGateway) -> None:
    made, queue = make_executor(), Queue()
    await made._execute_via_chat_completions(queue, "directly")
    assert queue.text == "hi"
    assert chat_gateway.calls[0].body == made._build_chat_completions_payload("directly")
    seen = list[Any]()

    async def replaced(event_queue: Any, prompt: str) -> None:
        seen.append((event_queue, prompt))

    made._execute_via_chat_completions = replaced
    await made.execute(context("patched"), queue)
    assert seen == [(queue, "patched")]


async def test_cancel_never_raises() -> None:
    unknown: list[Awaitable[None]] = [make_executor().cancel(one, Queue()) for one in (None, context(), 5)]
    assert await asyncio.gather(*unknown) == [None] * 3
