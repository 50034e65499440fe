"""The plugin in the real hermes gateway: every message gets its own answer, whatever hermes does beside."""

import threading
import time
from contextlib import suppress
from typing import Any

import psutil
import pytest
import requests

from molecule_runtime.testing.scripted_model import (
    ModelReply,
    ModelRequest,
    ScriptedModel,
    ToolCall,
    by_text,
    recall,
)
from tests.hermes.callers import Caller
from tests.hermes.gateway_process import CANARIES, GatewayProcess

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.slow,  # hermes needs 8 s to start and its first turn as many
]

MAX_BODY_BYTES = 8 * 1024 * 1024


def turns(model: ScriptedModel, words: str) -> list[ModelRequest]:
    """The requests of turns; hermes also asks for titles of conversations, and offers no tools then."""
    return [request for request in model.find(words) if request.tools]


def test_the_first_turn_of_a_chat_answers_with_the_models_text(caller: Caller, model: ScriptedModel) -> None:
    text = "It is **blue**, see ![x](https://example.org/a.png), /etc/hostname.txt and {}/tmp/report.pdf"
    model.script = lambda _: text.format("MEDIA:")
    message_id = caller.send("first-turn", "Which colour?")
    assert caller.wait(message_id) == text.format("")
    reply = caller.finals(message_id)[0]
    assert (reply.chat_id, reply.secret, reply.metadata) == ("first-turn", caller.secret, {"final": True})
    time.sleep(0.3)
    assert [each.content for each in caller.replies if each.chat_id == "first-turn"] == [reply.content]


def test_a_chat_remembers_and_chats_are_apart(caller: Caller) -> None:
    caller.ask("memory", "my fruit is quince")
    assert "quince" in caller.ask("memory", "which fruit?")
    assert "quince" not in caller.ask("memory-2", "which fruit?")


def test_three_messages_at_once_get_three_answers_each_its_own(caller: Caller, model: ScriptedModel) -> None:
    words = ("alpha", "bravo", "charlie")
    model.script = lambda request: f"answer to {request.last_user_text.split()[-1]}"
    ids = {word: caller.send("burst", f"burst of {word}") for word in words}
    for word, message_id in ids.items():
        assert caller.wait(message_id) == f"answer to {word}"
        assert len(caller.finals(message_id)) == 1
    order = [request.last_user_text for request in turns(model, "burst of ")]
    assert order == [f"burst of {word}" for word in words]


def test_three_chats_at_once_run_at_the_same_time(caller: Caller, model: ScriptedModel) -> None:
    hold = threading.Event()
    model.script = lambda request: ModelReply(request.last_user_text.upper(), hold=hold)
    ids = [caller.send(f"parallel-{number}", f"together {number}") for number in range(3)]
    for number in range(3):
        model.wait_for(f"together {number}", 20)
    hold.set()
    assert [caller.wait(message_id) for message_id in ids] == [f"TOGETHER {number}" for number in range(3)]


@pytest.mark.parametrize(
    "text", ["/status", "restart gateway", " \n/new", "/stop", "Please restart the Hermes gateway!"]
)
def test_no_text_is_a_command_of_the_gateway(caller: Caller, gateway: GatewayProcess, text: str) -> None:
    pid = gateway.hermes().pid
    answer = caller.ask("commands", text)
    assert answer.startswith("you said:")
    assert answer.endswith(f"Message text: {text}".rstrip())
    assert gateway.hermes().pid == pid


def test_a_sender_that_hermes_does_not_know_is_answered(caller: Caller) -> None:
    body = caller.message("stranger", "who am I?", peer_id="workspace:unknown", peer_name="Nobody")
    assert caller.post("/a2a/inbound", body).status_code == 202
    assert "who am I?" in caller.wait(body["message_id"])


def test_a_model_that_fails_is_answered_too(caller: Caller, model: ScriptedModel) -> None:
    model.script = lambda _: ModelReply("no such model", status=404)
    answer = caller.ask("broken-model", "hello")
    assert answer
    assert not answer.startswith("[hermes plugin error]")
    model.script = recall
    assert "again" in caller.ask("broken-model", "again")


def test_a_turn_without_an_answer_ends_for_its_caller_and_the_next_one_runs(
    caller: Caller, model: ScriptedModel
) -> None:
    # Hermes takes this as the model's wish to stay silent.
    model.script = by_text({"be silent": "NO_REPLY"})
    first, second = caller.send("silence", "be silent"), caller.send("silence", "now speak")
    assert caller.wait(first) == "[hermes plugin error] hermes ended the turn without an answer"
    assert caller.finals(first)[0].metadata == {"final": True, "error": "no-answer"}
    assert "now speak" in caller.wait(second)


def test_questions_and_approvals_do_not_hold_a_turn(caller: Caller, model: ScriptedModel) -> None:
    calls = {
        "ask me": ToolCall("clarify", {"question": "which one?"}),
        "delete all": ToolCall("terminal", {"command": "rm -rf /nowhere-at-all"}),
    }

    def script(request: ModelRequest) -> ModelReply:
        if request.tool_results:
            return ModelReply(f"the tool said: {request.tool_results[-1]}")
        return ModelReply(tool_calls=(next(calls[text] for text in calls if text in request.last_user_text),))

    model.script = script
    assert "could not be delivered" in caller.ask("questions", "ask me", 20)
    assert "Nobody can approve" in caller.ask("approvals", "delete all", 20)


def test_what_the_model_says_between_tools_is_not_the_answer(caller: Caller, model: ScriptedModel) -> None:
    call = ToolCall("terminal", {"command": "echo working"})
    model.script = lambda request: (
        ModelReply("All is done.") if request.tool_results else ModelReply("I look first.", (call,))
    )
    assert caller.ask("between", "look and tell") == "All is done."


def test_an_answer_that_hermes_counts_as_told_is_told(caller: Caller, model: ScriptedModel) -> None:
    # The model says everything beside its last tool and then nothing more: hermes takes that as its answer,
    # which it may have told already.
    call = ToolCall("memory", {"action": "add", "target": "memory", "content": "The user likes tea."})
    model.script = lambda request: (
        ModelReply("") if request.tool_results else ModelReply("I noted that you like tea.", (call,))
    )
    assert caller.ask("told", "note that I like tea", 60) == "I noted that you like tea."


def test_a_reply_is_repeated_until_the_runtime_takes_it(caller: Caller) -> None:
    caller.statuses.append(500)
    started = time.monotonic()
    assert "patience" in caller.ask("repeated", "patience")
    assert time.monotonic() - started > 1.0


def test_what_inbound_refuses(caller: Caller) -> None:
    def status(**fields: Any) -> tuple[int, Any]:
        answer = caller.post("/a2a/inbound", {**caller.message("refused", "x"), **fields})
        return answer.status_code, answer.json().get("error", "")

    wrong = caller.post("/a2a/inbound", caller.message("refused", "x"), **{"X-Molecule-A2A-Secret": "no"})
    assert (wrong.status_code, wrong.json()) == (401, {"ok": False, "error": "unauthorized"})
    for name in ("chat_id", "content", "message_id", "callback_url", "peer_id"):
        code, error = status(**{name: 7})
        assert (code, error) == (400, f"{name} must be a string")
    assert status(content=None)[0] == 400
    for url in ("http://192.0.2.1/a2a/reply", "https://127.0.0.1/a", "http://127.0.0.1@example.org/"):
        code, error = status(callback_url=url)
        assert code == 400
        assert "callback_url" in error
    assert caller.post("/a2a/inbound", b"[]").status_code == 400
    assert caller.post("/a2a/inbound", b"{").status_code == 400
    large = caller.post("/a2a/inbound", b'"' + b"x" * (MAX_BODY_BYTES - 1) + b'"')
    assert (large.status_code, large.json()["ok"]) == (413, False)
    limit = caller.post("/a2a/inbound", b'"' + b"x" * (MAX_BODY_BYTES - 2) + b'"')
    assert limit.status_code == 400, "as long as the limit, but no object"
    assert requests.get(f"{caller.plugin_url}/a2a/inbound", timeout=5).status_code == 405


def test_health_says_what_the_plugin_can(caller: Caller) -> None:
    answer = requests.get(f"{caller.plugin_url}/a2a/health", timeout=5)
    expected = {"ok": True, "platform": "molecule-a2a", "version": "1.0.0", "features": ["cancel", "final"]}
    assert (answer.status_code, answer.json()) == (200, expected)


def test_the_same_message_id_runs_once(caller: Caller, model: ScriptedModel) -> None:
    body = caller.message("twice", "only once please")
    assert caller.post("/a2a/inbound", body).status_code == 202
    again = caller.post("/a2a/inbound", body)
    assert (again.status_code, again.json()["ok"], again.json()["duplicate"]) == (200, True, True)
    caller.wait(body["message_id"])
    late = caller.post("/a2a/inbound", body)
    assert (late.status_code, late.json()["duplicate"]) == (200, True)
    time.sleep(0.5)
    assert len(caller.finals(body["message_id"])) == 1
    assert len(turns(model, "only once please")) == 1


def test_cancel_stops_the_running_turn_and_drops_the_waiting_ones(
    caller: Caller, model: ScriptedModel
) -> None:
    hold = threading.Event()
    rules = {"go on": recall, "hang": ModelReply("too late", hold=hold)}
    model.script = by_text(rules)
    running, waiting = caller.send("cancel", "hang"), caller.send("cancel", "never run")
    model.wait_for("hang", 20)
    last = caller.send("cancel", "go on")
    for message_id in (running, waiting):
        answer = caller.post("/a2a/cancel", {"message_id": message_id, "chat_id": "cancel"})
        assert (answer.status_code, answer.json()) == (200, {"ok": True, "found": True})
    assert "go on" in caller.wait(last, 20)
    hold.set()
    time.sleep(0.5)
    assert caller.finals(running) == caller.finals(waiting) == []
    assert model.find("never run") == []
    bodies: list[Any] = [{"message_id": running}, {"message_id": "unknown"}, {}, []]
    for body in bodies:
        assert caller.post("/a2a/cancel", body).json() == {"ok": True, "found": False}
    refused = caller.post("/a2a/cancel", {"message_id": last}, **{"X-Molecule-A2A-Secret": "no"})
    assert refused.status_code == 401


def test_after_sigkill_a_chat_is_known_and_old_replies_answer_no_new_message(
    caller: Caller, model: ScriptedModel, gateway: GatewayProcess
) -> None:
    hold = threading.Event()
    model.script = by_text({"what now": recall, "hang on": ModelReply("much too late", hold=hold)})
    caller.ask("kill-memory", "my stone is jasper")
    caller.statuses.extend([500] * 50)  # the answer of this one is on its way when the gateway is killed
    undelivered = caller.send("kill-reply", "my stone is beryl")
    interrupted = caller.send("kill-turn", "hang on, my stone is agate")
    model.wait_for("beryl", 20)
    model.wait_for("agate", 20)
    while len(caller.statuses) == 50:
        time.sleep(0.02)
    known = len(model.requests)
    before = gateway.hermes()
    before.kill()
    before.wait(10)
    caller.statuses.clear()
    caller.refusals.clear()
    hold.set()
    # From the first moment on: the port is closed, then open but not ready, then it takes them.
    chats = ("kill-reply", "kill-turn", "kill-memory")
    ids = {chat: caller.send(chat, f"what now in {chat}", 60) for chat in chats}
    assert ({"ok": False, "starting": True}, 503) in caller.refusals
    answers = {chat: caller.wait(message_id, 60) for chat, message_id in ids.items()}
    for chat, answer in answers.items():
        assert answer.startswith("you said:")
        assert answer.rstrip().endswith(f"what now in {chat}")
    assert "jasper" in answers["kill-memory"]
    assert "beryl" in answers["kill-reply"]
    assert gateway.hermes().pid != before.pid
    assert "Redelivered recovered final response" in (gateway.home / "logs/gateway.log").read_text()
    assert len([request for request in model.requests[known:] if request.tools]) == 3, "none is resumed"
    assert caller.finals(undelivered) == caller.finals(interrupted) == []
    assert [reply for reply in caller.replies if reply.message_id in ids.values() and not reply.final] == []


def test_keys_are_in_no_argument_environment_or_log(gateway: GatewayProcess, model: ScriptedModel) -> None:
    seen: dict[int, str] = {}
    for process in gateway.tree():
        with suppress(psutil.NoSuchProcess):  # hermes starts short commands of its own
            seen[process.pid] = " ".join(process.cmdline())
    assert len(seen) > 1
    assert gateway.hermes().pid in seen
    assert not [value for value in CANARIES.values() for arguments in seen.values() if value in arguments]
    environment = gateway.hermes().environ()
    assert not [value for value in CANARIES.values() if value in environment.values()]
    logs = [gateway.log_path, *(path for path in (gateway.home / "logs").rglob("*") if path.is_file())]
    assert len(logs) > 2
    for path in logs:
        text = path.read_text(errors="replace")
        assert not [name for name, value in CANARIES.items() if value in text], path
    assert model.requests[-1].headers["Authorization"] == f"Bearer {CANARIES['HERMES_CUSTOM_API_KEY']}"


def test_files_with_keys_are_private_and_the_users_settings_stay(gateway: GatewayProcess) -> None:
    assert gateway.home.stat().st_mode & 0o777 == 0o700
    for name in (".env", "config.yaml"):
        assert (gateway.home / name).stat().st_mode & 0o777 == 0o600
    text = (gateway.home / "config.yaml").read_text()
    assert "max_turns: 7" in text
    assert "context_length: 70000" in text


def test_a_second_helper_is_refused_in_one_sentence(gateway: GatewayProcess, caller: Caller) -> None:
    second = GatewayProcess(gateway.folder, gateway.executable, gateway.model_url)
    second.plugin_port = gateway.plugin_port
    second.log_path = gateway.folder / "second.log"
    second.start()
    assert second.process is not None
    assert second.process.wait(20) == 1
    assert f"port {gateway.plugin_port} of 127.0.0.1 cannot be used by hermes" in second.log
    assert "still there" in caller.ask("second", "still there")
