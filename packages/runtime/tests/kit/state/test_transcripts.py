"""The transcript of a workspace is complete, ordered, private and bounded."""

import json
import os
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from molecule_runtime.kit.state import transcripts as module
from molecule_runtime.kit.state.transcript_auth import transcript_authorized
from molecule_runtime.kit.state.transcripts import TranscriptLog
from tests.rows import each_row


@pytest.fixture
def transcripts(tmp_path: Path) -> TranscriptLog:
    return TranscriptLog(tmp_path / ".transcripts", "echo")


def _texts(page: dict[str, Any]) -> list[str]:
    return [line["text"] for line in page["lines"]]


def test_an_empty_transcript_is_a_page_without_lines(transcripts: TranscriptLog, tmp_path: Path) -> None:
    assert transcripts.read(5) == {
        "runtime": "echo",
        "supported": True,
        "lines": [],
        "cursor": 5,
        "more": False,
        "source": str(tmp_path / ".transcripts"),
    }


def test_lines_of_all_conversations_are_read_in_their_order(transcripts: TranscriptLog) -> None:
    for number in range(10):
        transcripts.append(f"context-{number % 3}", {"role": "user", "text": str(number)})
    page = transcripts.read(0, 4)
    assert _texts(page) == ["0", "1", "2", "3"]
    assert page["more"] is True
    following = transcripts.read(page["cursor"], 100)
    assert _texts(following) == ["4", "5", "6", "7", "8", "9"]
    assert following["more"] is False
    assert transcripts.read(following["cursor"])["lines"] == []
    assert page["lines"][1]["context_id"] == "context-1"


def test_a_limit_is_at_most_a_thousand(transcripts: TranscriptLog) -> None:
    for number in range(1100):
        transcripts.append("c", str(number))
    page = transcripts.read(0, 5000)
    assert len(page["lines"]) == 1000
    assert page["more"] is True
    assert _texts(transcripts.read(1099)) == ["1099"]
    assert _texts(transcripts.read(-7, 1)) == ["0"]


def test_a_new_process_goes_on_where_the_last_one_ended(tmp_path: Path) -> None:
    TranscriptLog(tmp_path, "echo").append("a", "one")
    TranscriptLog(tmp_path, "echo").append("b", "two")
    later = TranscriptLog(tmp_path, "echo")
    later.append("a", "three")
    assert _texts(later.read()) == ["one", "two", "three"]


def test_half_a_line_of_a_killed_process_hides_no_other(tmp_path: Path) -> None:
    first = TranscriptLog(tmp_path, "echo")
    first.append("a", "one")
    with first.path_of("a").open("ab") as file:
        file.write(b'{"n":1,"text":"hal')
    later = TranscriptLog(tmp_path, "echo")
    later.append("a", "two")
    assert _texts(later.read()) == ["one", "two"]


def test_secrets_are_redacted_before_a_line_is_written(tmp_path: Path) -> None:
    transcripts = TranscriptLog(tmp_path, "echo", known_values=lambda: ["known-value"])
    transcripts.append("a", {"text": "known-value sk-abcdefghijklmnop", "input": {"password": "x"}})
    written = transcripts.path_of("a").read_text()
    assert "known-value" not in written
    assert "sk-" not in written
    line = transcripts.read()["lines"][0]
    assert line["text"] == "[REDACTED:VALUE] [REDACTED:SK_TOKEN]"
    assert line["input"] == {"password": "[REDACTED:PASSWORD]"}


def test_files_are_for_the_owner_alone(transcripts: TranscriptLog) -> None:
    transcripts.append("a", "x")
    path = transcripts.path_of("a")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@each_row(
    "context_id",
    ["", ".", "..", "../../etc/passwd", "/etc/passwd", "a\0b", "a/b", "a\nb", "é", "x" * 300, "a.1", "~"],
)
def test_any_context_id_has_a_safe_file_of_its_own(context_id: str, tmp_path: Path) -> None:
    transcripts = TranscriptLog(tmp_path / "deep" / "folder", "echo")
    path = transcripts.path_of(context_id)
    assert path.parent == tmp_path / "deep" / "folder"
    assert path != transcripts.path_of(context_id + "x")
    number = transcripts.append(context_id, "said")
    assert transcripts.read(number)["lines"][0]["context_id"] == context_id


def test_a_file_is_rotated_and_cursors_stay_good(tmp_path: Path) -> None:
    transcripts = TranscriptLog(tmp_path, "echo", rotation_bytes=20_000)
    for number in range(1000):
        transcripts.append("a", {"text": str(number)})
    sizes = {name: (tmp_path / name).stat().st_size for name in sorted(os.listdir(tmp_path))}
    assert list(sizes) == ["a.1.jsonl", "a.jsonl"]
    assert max(sizes.values()) <= 20_000
    kept = _texts(transcripts.read(0, 1000))
    assert kept == [str(number) for number in range(1000 - len(kept), 1000)]
    for since in range(1000 - len(kept), 1000, 7):
        assert _texts(transcripts.read(since, 2)) == [str(since), str(since + 1)][: 1000 - since]


def test_a_line_with_what_json_does_not_have_is_kept_as_text(transcripts: TranscriptLog) -> None:
    transcripts.append("c", {"text": "\ud800", "score": float("nan")})
    [line] = transcripts.read()["lines"]
    assert (line["text"], line["score"]) == ("\ud800", "NaN")


def test_a_huge_line_leaves_a_note(transcripts: TranscriptLog) -> None:
    transcripts.append("a", "word " * 1_000_000)
    assert "is not kept" in transcripts.read()["lines"][0]["note"]


def test_the_conversations_that_were_quiet_longest_make_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_FILES", 3)
    transcripts = TranscriptLog(tmp_path, "echo")
    for context_id in ("a", "b", "c", "a", "d"):
        transcripts.append(context_id, "said")
    assert sorted(os.listdir(tmp_path)) == ["a.jsonl", "c.jsonl", "d.jsonl"]
    for path in map(TranscriptLog(tmp_path, "echo").path_of, "acd"):
        os.utime(path, (1, 1) if path.stem == "d" else None)
    later = TranscriptLog(tmp_path, "echo")
    later.append("e", "said")
    assert sorted(os.listdir(tmp_path)) == ["a.jsonl", "c.jsonl", "e.jsonl"]


def test_a_folder_that_was_removed_is_made_again(transcripts: TranscriptLog) -> None:
    transcripts.append("a", "one")
    path = transcripts.path_of("a")
    path.unlink()
    path.parent.rmdir()
    assert transcripts.append("b", "two") == 1
    assert _texts(transcripts.read()) == ["two"]


def test_threads_do_not_mix_their_lines(transcripts: TranscriptLog) -> None:
    def write(name: str) -> None:
        for number in range(50):
            transcripts.append(name, f"{name}{number}")

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    page = transcripts.read(0, 1000)
    assert [line["n"] for line in page["lines"]] == list(range(200))
    json.dumps(page)


@each_row(
    ("expected", "header", "allowed"),
    [
        ("tok", "Bearer tok", True),
        ("tok", "bearer tok", False),
        ("tok", "Bearer tok ", False),
        ("tok", "Bearer  tok", False),
        ("tok", "tok", False),
        ("tok", "Bearer ", False),
        ("tok", "", False),
        ("tok", None, False),
        ("", "Bearer ", False),
        ("", "", False),
        (None, "Bearer None", False),
        (None, None, False),
        ("tök", "Bearer tök", True),
        ("tok", "Bearer \udcff", False),
    ],
)
def test_only_the_exact_bearer_token_opens_the_transcript(
    expected: str | None, header: str | None, allowed: bool
) -> None:
    assert transcript_authorized(expected, header) is allowed


def test_a_page_is_bounded_in_characters_and_goes_on_where_it_ended(
    transcripts: TranscriptLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_PAGE_CHARACTERS", 250)
    for number in range(5):
        transcripts.append("c", {"text": f"{number}" + "x " * 50})
    first = transcripts.read()
    assert ([text[0] for text in _texts(first)], first["more"]) == (["0", "1"], True)
    rest = transcripts.read(first["cursor"])
    assert [text[0] for text in _texts(rest)] == ["2", "3"]


def test_the_conversations_that_were_quiet_longest_are_forgotten(
    transcripts: TranscriptLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_FILES", 3)
    for number in range(5):
        transcripts.append(f"c{number}", {"text": str(number)})
        os.utime(transcripts.path_of(f"c{number}"), (number, number))
    assert _texts(transcripts.read()) == ["2", "3", "4"]


def test_all_transcripts_together_are_bounded_in_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_BYTES", 40_000)
    transcripts = TranscriptLog(tmp_path, "echo", rotation_bytes=5_000)
    for number in range(60):
        transcripts.append(f"c{number % 12}", {"text": "x " * 1_000})
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 40_000
    assert transcripts.path_of("c11").exists(), "the newest stays"
    later = TranscriptLog(tmp_path, "echo")
    later.append("new", {"text": "x " * 1_000})
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 40_000


def test_a_transcript_that_cannot_be_written_does_not_fail_the_turn(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    transcripts = TranscriptLog(tmp_path, "echo")
    transcripts.append("other", "one")
    transcripts.path_of("c").mkdir()
    for text in ("short", "long" * 2_000):
        transcripts.append_turn("c", {"text": "ask"}, {"text": text})
    assert caplog.text.count("cannot be written") == 2


def test_turns_that_come_quickly_are_written_together_and_never_hidden_from_a_reader(tmp_path: Path) -> None:
    deferred: list[Any] = []
    transcripts = TranscriptLog(
        tmp_path, "echo", defer=lambda seconds, call: deferred.append((seconds, call))
    )
    for number in range(4):
        transcripts.append_turn("c", {"text": f"ask {number}"}, {"text": f"answer {number}"})
    written = transcripts.path_of("c").read_text()
    assert "answer 0" in written, "the first one is written at once"
    assert "ask 1" not in written
    assert [seconds for seconds, _ in deferred] == [module.BATCH_SECONDS], "one timer for all that wait"
    assert _texts(transcripts.read())[-1] == "answer 3"
    transcripts.append_turn("c", {"text": "ask 4"}, {"text": "answer 4"})
    deferred[-1][1]()
    assert transcripts.path_of("c").read_text().count("\n") == 10
    assert [line["n"] for line in transcripts.read()["lines"]] == list(range(10))


def test_a_long_turn_is_written_at_once_and_after_those_that_wait(tmp_path: Path) -> None:
    transcripts = TranscriptLog(tmp_path, "echo", defer=lambda seconds, call: None)
    for text in ("first", "second", "x" * 10_000):
        transcripts.append_turn("c", {"text": "ask"}, {"text": text})
    lines = [json.loads(line)["text"] for line in transcripts.path_of("c").read_text().splitlines()]
    assert lines == ["ask", "first", "ask", "second", "ask", "x" * 10_000]
