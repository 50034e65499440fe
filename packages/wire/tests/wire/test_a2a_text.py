"""Lifting the words out of answers."""

from collections.abc import Callable
from typing import Any

from molecule_wire import JSON
from molecule_wire.a2a import text

Golden = Callable[[str], list[dict[str, Any]]]


def test_text_is_lifted_from_every_form_of_answer(golden: Golden) -> None:
    for case in golden("text"):
        assert text.text_of(case["result"]) == case["text"], case["name"]


def test_the_text_of_a_message_is_its_text_parts_in_any_spelling() -> None:
    parts: list[JSON] = [
        {"kind": "text", "text": "a"},
        {"type": "text", "text": "b"},
        {"text": "c"},
        {"url": "u"},
    ]
    assert text.text_of_message({"role": "user", "parts": parts}) == "a\nb\nc"
    assert text.text_of_message("hi") == ""
    assert text.text_of_message(None) == ""
