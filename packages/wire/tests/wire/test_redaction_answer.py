"""Answer policy: a text loses secrets and personal data, whole or in pieces."""

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from molecule_wire.redaction import ANSWER_TYPES, StreamRedactor, answer_policy, is_card, redact_pii
from tests.rows import each_row

KNOWN = [
    "correct horse battery",
    "s3cr3t-value",
    "s3cr3t-value-longer",
    "Q" * 100 + "tail",
    "x9" * 128,
    "ab" * 300,
]
FOUND = [
    ("4111 1111 1111 1111", "credit_card"),
    ("4111-1111-1111-1111", "credit_card"),
    ("4111111111111111", "credit_card"),
    ("5500 0000 0000 0004", "credit_card"),
    ("378282246310005", "credit_card"),
    ("6011000990139424", "credit_card"),
    ("078-05-1120", "ssn"),
    ("sk-abcdefghijklmnop", "api_key"),
    ("sk-ant-api03-" + "Ab1" * 60, "api_key"),
    ("AIzaSyA1234567890abcdefghijklmnopqrstuv", "api_key"),
    ("xoxb-1234567890-abcdefghij", "api_key"),
    ("AKIAIOSFODNN7EXAMPLE", "aws_key"),
    ("ASIAIOSFODNN7EXAMPLE", "aws_key"),
    ("ghp_" + "a1" * 18, "github_token"),
    ("gho_" + "a1" * 18, "github_token"),
    ("github_pat_" + "a1" * 41, "github_token"),
    ("ann@example.org", "email"),
    ("ann.b+c@mail.example.co.uk", "email"),
]
KEPT = [
    *("4111 1111 1111 1112", "1234567890123456", "1700000000000", "0.4111111111111111", "a4111111111111111"),
    *("123-45-67890", "000-12-3456", "078-05-1120-1", "2026-01-31", "550e8400-e29b-41d4-a716-446655440000"),
    *(
        "sk-short",
        "task-abcdefghijklmnopqr",
        "AKIA",
        "ghp_short",
        "@example.org",
        "a@b",
        "[REDACTED:API_KEY]",
        "",
    ),
]
PIECES = [
    *(secret for secret, _ in FOUND),
    *KNOWN,
    *KEPT,
    *(
        "correct horse",
        "correct ",
        "s3cr3t-value-",
        "x9" * 64,
        "ab" * 70,
        "4",
        "41",
        "1",
        " ",
        "-",
        "\n",
        ".",
        "@",
    ),
    *("sk-", "gh", "ghp_", "[", "[REDACTED:", "]", "word ", "w" * 300, "é", "\\n"),
]
texts: st.SearchStrategy[str] = st.lists(
    st.one_of(st.sampled_from(PIECES), st.text(max_size=5)), max_size=12
).map("".join)


@st.composite
def cut_texts(draw: st.DrawFn) -> tuple[str, list[str]]:
    """A text, and the same in pieces."""
    text = draw(texts)
    cuts = sorted(draw(st.sets(st.integers(0, len(text)), max_size=20)))
    return text, [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


@each_row(("secret", "type"), FOUND)
@each_row("around", ["{}", "it is {} here", "({})", "a: {}, b", '"{}"', "{}."])
def test_every_type_is_redacted_and_named(secret: str, type: str, around: str) -> None:
    redacted, found = redact_pii(around.format(secret), ANSWER_TYPES)
    assert redacted == around.format(f"[REDACTED:{type.upper()}]")
    assert found == [type]


@each_row("text", KEPT)
def test_what_only_looks_similar_is_kept(text: str) -> None:
    assert redact_pii(text, ANSWER_TYPES) == (text, [])


def test_addresses_are_kept_unless_asked_for() -> None:
    assert redact_pii("write to ann@example.org") == ("write to ann@example.org", [])


@each_row("value", KNOWN)
def test_known_values_are_redacted_however_long_they_are(value: str) -> None:
    assert redact_pii(f"say {value} now", known=KNOWN) == ("say [REDACTED:VALUE] now", ["known_value"])


def test_a_known_value_is_redacted_before_a_pattern_takes_a_part_of_it() -> None:
    known = "0123456789abcdef+hush"
    assert redact_pii(f"sk-{known}", known=[known])[0] == "sk-[REDACTED:VALUE]"


@given(cut_texts())
@settings(deadline=None)
def test_the_pieces_of_a_text_do_not_matter(given_text: tuple[str, list[str]]) -> None:
    text, pieces = given_text
    whole, found = redact_pii(text, ANSWER_TYPES, KNOWN)
    redactor = StreamRedactor(KNOWN, answer_policy(ANSWER_TYPES))
    shown = ""
    for piece in pieces:
        shown += redactor.feed(piece)
        # Nothing goes out that the whole would not show: so no secret is ever shown in part.
        assert whole.startswith(shown)
    assert shown + redactor.flush() == whole
    assert redactor.found == found


@each_row("secret", [*(secret for secret, _ in FOUND), *KNOWN, "ann@a." + "b." * 100 + "org"])
@each_row("before", ["", "w," * 70])
@each_row("after", ["", ". End", "," + "w," * 70])
def test_a_secret_is_redacted_at_every_cut_also_within_an_endless_word(
    secret: str, before: str, after: str
) -> None:
    text = f"{before}{secret}{after}"
    whole = redact_pii(text, ANSWER_TYPES, KNOWN)[0]
    assert "[REDACTED:" in whole
    one_by_one = StreamRedactor(KNOWN, answer_policy(ANSWER_TYPES))
    assert "".join(map(one_by_one.feed, text)) + one_by_one.flush() == whole
    for cut in range(len(before), len(before) + min(len(secret), 160) + 2):
        redactor = StreamRedactor(KNOWN, answer_policy(ANSWER_TYPES))
        assert redactor.feed(text[:cut]) + redactor.feed(text[cut:]) + redactor.flush() == whole


@given(texts)
@settings(max_examples=50, deadline=None)
def test_a_text_may_come_character_by_character(text: str) -> None:
    redactor = StreamRedactor(KNOWN, answer_policy(ANSWER_TYPES))
    shown = "".join(map(redactor.feed, text)) + redactor.flush()
    assert shown == redact_pii(text, ANSWER_TYPES, KNOWN)[0]


@given(cut_texts())
@settings(deadline=None)
def test_no_known_value_is_shown(given_text: tuple[str, list[str]]) -> None:
    redactor = StreamRedactor(KNOWN[:3])
    shown = "".join(map(redactor.feed, given_text[1])) + redactor.flush()
    assert not any(value in shown for value in KNOWN[:3])


@each_row(
    "text",
    [
        piece * (1000 // len(piece))
        for piece in ("w", "4 ", "a.", "sk-", "a@", "AKIA", "ab", "x9" * 64, "Q" * 99 + "w" * 150)
    ],
)
def test_never_more_than_256_characters_are_held_back(text: str) -> None:
    redactor = StreamRedactor(KNOWN, answer_policy(ANSWER_TYPES))
    for character in text[:1000]:
        redactor.feed(character)
        assert redactor.held <= 256


def test_ordinary_words_are_shown_with_the_space_after_them() -> None:
    redactor = StreamRedactor(KNOWN)
    assert redactor.feed("Hello, wor") == "Hello, "
    assert redactor.feed("ld! How") == "world! "
    assert redactor.flush() == "How"


@given(texts)
@settings(deadline=None)
def test_known_values_that_fit_the_buffer_are_replaced_as_a_plain_search_would(text: str) -> None:
    plain = re.sub(
        "|".join(map(re.escape, sorted(KNOWN[:4], key=len, reverse=True))), "[REDACTED:VALUE]", text
    )
    assert redact_pii(text, (), KNOWN[:4])[0] == plain


def test_a_redactor_may_be_used_again_after_its_end() -> None:
    redactor = StreamRedactor(KNOWN)
    assert redactor.feed("ab" * 200) + redactor.flush() == "[REDACTED:VALUE]"
    assert redactor.feed("abab") + redactor.flush() == "abab"
    assert redactor.feed("sk-abcdefghijklmnop") + redactor.flush() == "[REDACTED:API_KEY]"
    assert redactor.feed("more") + redactor.flush() == "more"


@each_row(
    ("digits", "valid"),
    [
        ("4111111111111111", True),
        ("4111111111111112", False),
        ("0000000000000000", False),
        ("9111111111111111", False),
    ],
)
def test_a_card_has_a_known_issuer_and_a_luhn_sum(digits: str, valid: bool) -> None:
    assert is_card(digits) is valid


def _seconds(text: str) -> float:
    began = time.process_time()
    redact_pii(text, ANSWER_TYPES, KNOWN)
    return time.process_time() - began


@pytest.fixture(scope="module")
def ordinary_seconds() -> float:
    words = "Ordinary words, some numbers 15 and 2026-01-31, an address https://example.org/x1 and more. "
    return max(_seconds(words * (1_000_000 // len(words))), 0.01)


@pytest.mark.parametrize(
    "piece",
    [
        *(
            "4",
            "4 ",
            "4111 1111 1111 1112 ",
            "a",
            "a@",
            "a.",
            "a@a.",
            "sk-",
            "-sk-",
            "ghp_",
            "AKIA",
            "078-05-1120",
        ),
        *("correct horse battery ", "s3cr3t-value", "ab", "x9", "Q", "[REDACTED:", "[REDACTED:X]", "-", "\n"),
    ],
)
def test_a_hostile_megabyte_costs_no_more_than_twenty_ordinary_ones(
    piece: str, ordinary_seconds: float
) -> None:
    assert _seconds(piece * (1_000_000 // len(piece))) < 20 * ordinary_seconds
