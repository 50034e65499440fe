"""Memory policy: a secret leaves a plain mark, and a sentence about secrets stays."""

from hypothesis import given
from hypothesis import strategies as st

from molecule_wire import redaction
from tests.rows import each_row

SECRETS = [
    "sk-abcdefghijklmnopqrst",
    "ghp_" + "a1" * 18,
    "ghs_" + "a1" * 18,
    "github_pat_" + "a" * 82,
    "AKIAIOSFODNN7EXAMPLE",
    "xoxb-1234567890-abcdefghij",
    "AIzaSyA1234567890abcdefghijklmnopqrstuv",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----",
]


def masked(text: str) -> str:
    return redaction.redact(text, redaction.MEMORY)


@each_row("secret", SECRETS)
def test_a_secret_leaves_a_plain_mark(secret: str) -> None:
    assert masked(f"use {secret} please") == "use [REDACTED] please"


@each_row("name", ["key", "api_key", "TOKEN", "my_secret", "password"])
def test_a_long_value_is_redacted_by_its_name(name: str) -> None:
    assert masked(f"{name}={'a1' * 20} x") == f"{name}=[REDACTED] x"
    assert masked(f'"{name}": "{"a1" * 20}"') == f'"{name}": "[REDACTED]"'


@each_row(
    ("text", "kept"),
    [
        ("postgres://ann:hunter2@db/x", "postgres://ann:[REDACTED]@db/x"),
        ("password: hunter2", "password: [REDACTED]"),
    ],
)
def test_passwords_are_redacted(text: str, kept: str) -> None:
    assert masked(text) == kept


@each_row("text", ["", "sk-short", "ghp_abc", "key=abc", "token=abc123", "a1" * 32, "/workspace/x"])
def test_what_is_too_short_for_a_secret_is_kept(text: str) -> None:
    assert masked(text) == text


@given(
    st.lists(st.sampled_from([*SECRETS, "key=", "a", " ", "password=", "[REDACTED]", "://a:", "@"])).map(
        "".join
    )
)
def test_redacting_twice_changes_nothing(text: str) -> None:
    once = masked(text)
    assert masked(once) == once


def test_known_values_are_redacted() -> None:
    assert redaction.redact("it is hunter22", redaction.MEMORY, ["hunter22"]) == "it is [REDACTED]"
