"""Requests of any A2A SDK are read alike, and short texts say what matters."""

from types import SimpleNamespace
from typing import Any

import pytest
from a2a.types import Message, Part
from hypothesis import given
from hypothesis import strategies as st

from molecule_runtime import executor_helpers
from molecule_runtime.kit.state.delegation_results import read_delegation_results
from molecule_runtime.kit.turns import shared_runtime
from molecule_runtime.kit.turns.error_summaries import (
    brief_summary,
    brief_task,
    classify_subprocess_error,
    sanitize_agent_error,
)


def part(text: str) -> SimpleNamespace:
    return SimpleNamespace(text=text)


@pytest.mark.parametrize(
    "parts",
    [
        [part("a"), part("b ")],
        [SimpleNamespace(root=part("a")), part("b ")],
        [{"text": "a"}, {"kind": "data"}, {"root": {"text": "b "}}],
        [Part(text="a"), Part(url="x"), Part(text="b ")],
    ],
)
def test_the_text_of_every_part_is_joined_by_one_space(parts: list[Any]) -> None:
    assert shared_runtime.extract_message_text(parts) == "a b"
    context = SimpleNamespace(message=SimpleNamespace(parts=parts))
    assert shared_runtime.extract_message_text(context) == "a b"
    assert executor_helpers.extract_message_text(context.message) == "a b"


@pytest.mark.parametrize("nothing", [None, [], "text", {}, SimpleNamespace(message=None), [None, 3]])
def test_what_has_no_text_is_empty(nothing: Any) -> None:
    assert shared_runtime.extract_message_text(nothing) == ""


class TestHistory:
    def test_the_metadata_of_the_message_wins(self) -> None:
        def text_message(text: str) -> dict[str, object]:
            return {"history": [{"role": "user", "text": text}]}

        message = SimpleNamespace(metadata=text_message("message"))
        both = SimpleNamespace(message=message, metadata=text_message("request"))
        request = SimpleNamespace(message=SimpleNamespace(metadata=None), metadata=text_message("request"))
        assert shared_runtime.extract_history(both) == [("human", "message")]
        assert shared_runtime.extract_history(request) == [("human", "request")]

    def test_roles_and_shapes_of_any_version_are_understood(self) -> None:
        history = [
            {"role": "user", "parts": [{"text": "a"}]},
            {"role": "ROLE_AGENT", "content": "b"},
            ["human", "c"],
            {"role": "assistant", "text": "d"},
            {"role": "user"},
            7,
        ]
        context = {"metadata": {"history": history}}
        assert shared_runtime.extract_history(context) == [
            ("human", "a"),
            ("ai", "b"),
            ("human", "c"),
            ("ai", "d"),
        ]

    def test_the_metadata_of_the_sdk_is_read(self) -> None:
        message = Message(message_id="m")
        message.metadata.update({"history": [{"role": "user", "text": "a"}, {"role": "agent", "text": "b"}]})
        context = SimpleNamespace(message=message, metadata={})
        assert shared_runtime.extract_history(context) == [("human", "a"), ("ai", "b")]

    def test_without_history_the_task_is_the_message(self) -> None:
        assert shared_runtime.extract_history(SimpleNamespace()) == []
        assert shared_runtime.build_task_text("do it", []) == "do it"

    def test_with_history_the_conversation_comes_first(self) -> None:
        text = shared_runtime.build_task_text("do it", [("human", "hi"), ("ai", "hello")])
        assert text == "Conversation so far:\nUser: hi\nAgent: hello\n\nCurrent request: do it"


class TestPeers:
    PEERS: list[Any] = [
        {"id": "b", "name": "B", "status": "online", "agent_card": '{"skills":[{"name":"x"}]}'},
        {"id": "c", "name": "C"},
    ]

    def test_peers_without_a_card_are_dropped(self) -> None:
        assert shared_runtime.summarize_peer_cards(self.PEERS) == [
            {"id": "b", "name": "B", "status": "online", "skills": ["x"]}
        ]

    def test_a_section_says_how_to_reach_them(self) -> None:
        section = shared_runtime.build_peer_section(self.PEERS, heading="## Others", instruction="Use it.")
        assert section.startswith("## Others\n")
        assert section.endswith("\n\nUse it.")
        assert shared_runtime.build_peer_section([], instruction="Use it.") == ""

    def test_guidance_is_appended_to_the_prompt_or_its_default(self) -> None:
        assert shared_runtime.append_peer_guidance(None, "", default_text="d") == "d"
        guided = shared_runtime.append_peer_guidance("base", "- B", tool_name="ask")
        assert guided == "base\n\n## Peers\n- B\n\nUse ask to give a peer a task."


async def test_the_current_task_is_shown_without_counting_it() -> None:
    heartbeat = SimpleNamespace(current_task="", active_tasks=0)
    await shared_runtime.set_current_task(heartbeat, "write")
    assert vars(heartbeat) == {"current_task": "write", "active_tasks": 0}
    await shared_runtime.set_current_task(None, "write")


class TestSummaries:
    @pytest.mark.parametrize(
        ("text", "line"),
        [
            ("# **Plan** for today\nmore", "Plan for today"),
            ("\n\n---\n***\n> quoted", "quoted"),
            ("```\ncode\n```\nThe answer", "The answer"),
            ("```\nonly code\n```", "only code"),
            ("**bold** and __bold__", "bold and bold"),
            ("", ""),
        ],
    )
    def test_the_first_line_that_says_something_is_taken(self, text: str, line: str) -> None:
        assert brief_summary(text) == line

    def test_a_long_line_ends_in_dots(self) -> None:
        assert brief_task("x" * 61) == "x" * 57 + "..."
        assert brief_summary("x" * 80) == "x" * 80
        assert brief_summary("abcdefgh", 1) == "a..."

    @given(st.text(), st.integers(-5, 100))
    def test_a_summary_is_one_line_within_its_length(self, text: str, limit: int) -> None:
        summary = brief_summary(text, limit)
        assert len(summary) <= max(limit, 4)
        assert len(summary.splitlines()) <= 1


@pytest.mark.parametrize(
    ("stderr", "code", "category"),
    [
        ("Error 429: Too Many Requests", 1, "rate_limited"),
        ("rate limit exceeded", 1, "rate_limited"),
        ("invalid API key", 1, "auth_failed"),
        ("HTTP 401", 1, "auth_failed"),
        ("Session abc not found", 1, "session_error"),
        ("took 14290 ms, file 4010.txt, obsession", 2, "exit_2"),
        ("", None, "subprocess_error"),
    ],
)
def test_a_failed_process_is_classified_by_whole_words(stderr: str, code: int | None, category: str) -> None:
    assert classify_subprocess_error(stderr, code) == category


def test_an_error_never_tells_its_text() -> None:
    sentence = "Agent error ({}) — see workspace logs for details."
    assert sanitize_agent_error(ValueError("secret")) == sentence.format("ValueError")
    assert sanitize_agent_error(ValueError("secret"), "rate_limited") == sentence.format("rate_limited")
    assert sanitize_agent_error() == sentence.format("unknown")


def test_a_response_carries_the_context_of_the_request() -> None:
    context = SimpleNamespace(context_id="c-1", message=None)
    message = executor_helpers.new_response_message(context, "hi")
    assert (message.context_id, message.parts[0].text, message.role) == ("c-1", "hi", 2)
    assert message.message_id


class TestHelpers:
    def test_results_of_delegations_are_read_once(
        self, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "results.jsonl"
        path.write_text(
            '{"delegation_id":"d","target_id":"b","status":"completed","summary":"t","response_preview":"r"}\n'
            "broken\n"
        )
        monkeypatch.setenv("DELEGATION_RESULTS_FILE", str(path))
        text = read_delegation_results()
        assert "- [completed] delegation d to b\n  Task: t\n  Response: r" in text
        assert executor_helpers.read_delegation_results() == ""
        assert list(tmp_path.iterdir()) == []

    def test_the_work_directory_is_made_for_its_owner(
        self, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("MOLECULE_WORKSPACE_DIR", str(tmp_path / "work"))
        assert executor_helpers.ensure_workspace_writable()
        uploads = tmp_path / "work/.molecule/chat-uploads"
        assert uploads.stat().st_mode & 0o777 == 0o700
        assert (tmp_path / "work").stat().st_mode & 0o777 == 0o700

    def test_a_place_that_is_a_file_is_a_warning(self, tmp_path: Any) -> None:
        (tmp_path / "work").write_text("")
        assert not executor_helpers.ensure_workspace_writable(tmp_path / "work")

    def test_the_prompt_is_read_anew(self, tmp_path: Any) -> None:
        assert executor_helpers.get_system_prompt(tmp_path, "fallback") == "fallback"
        (tmp_path / "system-prompt.md").write_text("You are new.\n")
        assert executor_helpers.get_system_prompt(tmp_path, "fallback") == "You are new."

    def test_instructions_name_the_tools_or_the_command(self) -> None:
        assert "delegate_task" in executor_helpers.get_a2a_instructions()
        assert "a2a delegate" in executor_helpers.get_a2a_instructions(mcp=False)

    async def test_memories_are_empty_while_the_platform_keeps_none(self) -> None:
        assert await executor_helpers.recall_memories() == ""
        assert await executor_helpers.commit_memory("x") is None
        assert executor_helpers.get_hma_instructions() == ""

    async def test_the_http_client_is_shared_until_it_is_reset(self) -> None:
        client = executor_helpers.get_http_client()
        assert executor_helpers.get_http_client() is client
        await client.aclose()
        fresh = executor_helpers.get_http_client()
        assert fresh is not client
        await fresh.aclose()
        executor_helpers.reset_http_client_for_tests()
