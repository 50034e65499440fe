"""Searching agents: the points of each match, and cards that cannot be read."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_platform.domain import cursors, search
from molecule_platform.domain.errors import ApiError

CARD: dict[str, Any] = {
    "name": "Numbers",
    "description": "Counts what can be counted",
    "capabilities": {"streaming": False},
    "skills": [
        {"id": "sum-up", "name": "Sums", "tags": ["Maths", "fast"], "description": "Adds"},
        "guessing",
    ],
}
JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
CARDS = st.dictionaries(
    st.sampled_from(["name", "description", "skills", "capabilities", "tags"]),
    JSONS | st.lists(st.dictionaries(st.sampled_from(["id", "name", "tags", "description"]), JSONS)),
)


@pytest.mark.parametrize(
    ("query", "points"),
    [
        ("ada lovelace", 8),
        ("NUMBERS", 8),
        ("sums", 6),
        ("Sum-Up", 6),
        ("guessing", 6),
        ("love", 4),
        ("umber", 4),
        ("maths", 3),
        ("counted", 1),
        ("math", 1),
        ("adds", 1),
        ("leads", 1),
        ("nothing", 0),
        ("love maths", 7),
        ("love nothing", 0),
    ],
)
def test_the_best_line_that_fits_gives_the_points_and_every_word_must_fit(query: str, points: int) -> None:
    assert search.facts_of("Ada Lovelace", "leads the team", CARD).score(query) == points


def test_a_card_tells_skills_tags_and_capabilities() -> None:
    facts = search.facts_of("Ada", "", CARD)
    assert facts.skills == {"sum-up", "sums", "guessing"}
    assert facts.tags == {"maths", "fast"}
    assert facts.capabilities == {"streaming"}


@pytest.mark.parametrize("card", [None, {}, {"skills": None, "name": None, "capabilities": None}])
def test_an_agent_without_a_card_is_found_by_its_name(card: dict[str, Any] | None) -> None:
    assert search.facts_of("Ada", "", card).score("ada") == 8


@pytest.mark.parametrize(
    ("card", "problem"),
    [
        ({"skills": {}}, "skills is not a list"),
        ({"skills": [1]}, "a skill is neither an object nor a name"),
        ({"skills": [{"name": 1}]}, "the name of a skill is not a text"),
        ({"skills": [{"tags": "maths"}]}, "the tags of a skill is not a list"),
        ({"skills": [{"tags": [1]}]}, "the tags of a skill are not all texts"),
        ({"capabilities": ["streaming"]}, "capabilities is not an object"),
        ({"name": 1}, "name is not a text"),
        ({"description": []}, "description is not a text"),
    ],
)
def test_a_card_that_cannot_be_read_says_where(card: dict[str, Any], problem: str) -> None:
    with pytest.raises(search.Unreadable, match=f"^{problem}$"):
        search.facts_of("Ada", "", card)


@given(CARDS, st.text(min_size=1))
def test_any_card_is_read_or_refused_and_never_breaks_a_search(card: dict[str, Any], query: str) -> None:
    assert search.mentions("Ada", "leads", card, "ADA")
    search.mentions("Ada", "leads", card, query)
    with suppress(search.Unreadable):
        facts = search.facts_of("Ada", "leads", card)
        assert facts.score("ada") == 8
        assert facts.score(query) >= 0


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0")), max_size=4))
def test_a_cursor_gives_back_its_parts(parts: list[str]) -> None:
    cursor = cursors.written(*parts)
    if len(cursor) <= cursors.MAX_LENGTH:
        assert cursors.read(cursor, len(parts)) == parts
    assert cursor.isascii()
    with pytest.raises(ApiError):
        cursors.read(cursor, len(parts) + 1)


@given(st.text())
def test_no_text_breaks_the_reader_of_cursors(text: str) -> None:
    with suppress(ApiError):
        assert len(cursors.read(text, 2)) == 2
