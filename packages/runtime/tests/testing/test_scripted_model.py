"""The scripted model endpoint, asked over its socket."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests

from molecule_runtime.testing.scripted_model import ModelReply, ScriptedModel, ToolCall, by_text


def _ask(model: ScriptedModel, *texts: str, **members: Any) -> requests.Response:
    messages = [{"role": "user", "content": text} for text in texts]
    body = {"model": "scripted", "messages": messages, **members}
    return requests.post(f"{model.base_url}/chat/completions", json=body, timeout=10)


def _text(answer: requests.Response) -> str:
    return answer.json()["choices"][0]["message"]["content"]


def test_it_answers_with_all_that_was_said() -> None:
    with ScriptedModel() as model:
        assert _text(_ask(model, "one", "two")) == "you said:\none\ntwo"
        assert model.requests[0].user_texts == ["one", "two"]
        assert requests.get(f"{model.base_url}/models", timeout=10).json()["data"][0]["id"] == "scripted"


def test_a_text_is_streamed_in_pieces() -> None:
    with ScriptedModel(lambda _: "a b  c") as model:
        lines = [line for line in _ask(model, "go", stream=True).text.splitlines() if line]
    chunks = [json.loads(line[6:]) for line in lines[:-1]]
    assert lines[-1] == "data: [DONE]"
    pieces = [chunk["choices"][0]["delta"].get("content") for chunk in chunks if chunk["choices"]]
    assert "".join(piece or "" for piece in pieces) == "a b  c"
    assert chunks[-1]["usage"]["completion_tokens"] == 3


@pytest.mark.parametrize("stream", [False, True])
def test_it_asks_for_tools(stream: bool) -> None:
    with ScriptedModel(lambda _: ModelReply(tool_calls=(ToolCall("read", {"path": "x"}),))) as model:
        answer = _ask(model, "go", stream=stream).text
    assert '"finish_reason": "tool_calls"' in answer
    assert '"name": "read"' in answer


def test_rules_are_found_by_text_and_it_can_fail() -> None:
    rules = {
        "busy": ModelReply("slow down", status=429, headers={"Retry-After": "1"}),
        "broken": ModelReply("oh", status=500),
        "page": ModelReply("<html>no</html>"),
    }
    with ScriptedModel(by_text(rules)) as model:
        busy, broken, page = (_ask(model, word) for word in ("so busy", "broken", "page"))
        assert (busy.status_code, busy.headers["Retry-After"]) == (429, "1")
        assert broken.status_code == 500
        assert (page.status_code, page.headers["Content-Type"]) == (200, "text/html")
        assert _text(_ask(model, "hello")) == "you said:\nhello"


def test_an_answer_is_held_back_and_silence_ends_with_the_endpoint() -> None:
    hold = threading.Event()
    rules = {"wait": ModelReply("now", hold=hold), "never": ModelReply(silent=True)}
    with ThreadPoolExecutor() as pool:
        with ScriptedModel(by_text(rules)) as model:
            waiting, never = pool.submit(_ask, model, "wait"), pool.submit(_ask, model, "never")
            model.wait_for("wait", 5)
            model.wait_for("never", 5)
            assert not waiting.done()
            hold.set()
            assert _text(waiting.result(5)) == "now"
            assert not never.done()
        with pytest.raises(requests.ConnectionError):
            never.result(5)
