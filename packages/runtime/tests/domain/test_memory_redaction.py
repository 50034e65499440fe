"""What a stored memory may not say."""

from hypothesis import given
from hypothesis import strategies as st

from molecule_runtime.builtin_tools.security import _redact_secrets
from molecule_runtime.domain import memory_redaction
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


@each_row("secret", SECRETS)
def test_a_secret_leaves_a_plain_mark(secret: str) -> None:
    assert _redact_secrets(f"use {secret} please") == "use [REDACTED] please"


@each_row("name", ["key", "api_key", "TOKEN", "my_secret", "password"])
def test_a_long_value_is_redacted_by_its_name(name: str) -> None:
    assert _redact_secrets(f"{name}={'a1' * 20} x") == f"{name}=[REDACTED] x"
    assert _redact_secrets(f'"{name}": "{"a1" * 20}"') == f'"{name}": "[REDACTED]"'


@each_row(
    ("text", "kept"),
    [
        ("postgres://ann:hunter2@db/x", "postgres://ann:[REDACTED]@db/x"),
        ("password: hunter2", "password: [REDACTED]"),
    ],
)
def test_passwords_are_redacted(text: str, kept: str) -> None:
    assert _redact_secrets(text) == kept


@each_row("text", ["", "sk-short", "ghp_abc", "key=abc", "token=abc123", "a1" * 32, "/workspace/x"])
def test_what_is_too_short_for_a_secret_is_kept(text: str) -> None:
    assert _redact_secrets(text) == text


@given(
    st.lists(st.sampled_from([*SECRETS, "key=", "a", " ", "password=", "[REDACTED]", "://a:", "@"])).map(
        "".join
    )
)
def test_redacting_twice_changes_nothing(text: str) -> None:
    once = _redact_secrets(text)
    assert _redact_secrets(once) == once


def test_known_values_are_redacted() -> None:
    assert memory_redaction.redact_secrets("it is hunter22", ["hunter22"]) == "it is [REDACTED]"
