"""What a log may not keep, and what it must keep."""

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_platform.domain import redaction
from molecule_platform.domain.credentials import new_token

PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\nabc\n-----END RSA PRIVATE KEY-----"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
CREDENTIALS = [
    "sk-proj-abcdefghijklmnop1234",
    "sk_live_abcdefghijklmnop1234",
    "ghp_abcdefghijklmnopqrstuvwxyz0123456789",
    "github_pat_11ABCDEFG0abcdefghijklmnopqrstuvwxyz",
    "glpat-abcdefghij0123456789",
    "xoxb-1234567890-abcdefghij",
    "AKIAIOSFODNN7EXAMPLE",
    "AIzaSyA1234567890abcdefghijklmnopqrstuv",
    "hf_abcdefghijklmnopqrstuvwxyz012345",
    JWT,
    PEM,
    "dGhpcyBpcyBhIHRva2VuIG9mIDMyIGJ5dGVzISEhISE",
    "Zm9yIGJhc2U2NCBvZiAzMiByYW5kb20gYnl0ZXMgaGU=",
]


def _path(start: str, parts: list[str]) -> str:
    return start + "/".join(parts)


hex_digests = st.one_of(
    *(st.text("0123456789abcdef", min_size=size, max_size=size) for size in (32, 40, 64, 128))
)
segments = st.text(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-", min_size=1, max_size=60
)
paths = st.builds(
    _path, st.sampled_from(["/", "./", "~/", "../"]), st.lists(segments, min_size=1, max_size=6)
)
ordinary: st.SearchStrategy[str] = st.one_of(st.uuids().map(str), hex_digests, paths)
names = st.sampled_from(
    ["path", "id", "commit", "sha256", "Thread", "file", "status", "max_tokens", "token_id"]
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=20), inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.parametrize("credential", CREDENTIALS)
@pytest.mark.parametrize("around", ["{}", "use {} please", '{{"x":"{}"}}', "key={}", "({})", "a, {}, b"])
def test_what_looks_like_a_credential_is_not_kept(credential: str, around: str) -> None:
    shown = redaction.redacted_text(around.format(credential))
    assert credential not in shown
    assert redaction.REDACTED in shown


@pytest.mark.parametrize("around", ["my token is {}, keep it", "{}", "code={}"])
def test_no_token_of_ours_is_kept(around: str) -> None:
    for token in (new_token() for _ in range(200)):
        assert token not in redaction.redacted_text(around.format(token))


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic [redacted]"),
        ("bearer abcdefghij1234567890", "bearer [redacted]"),
        ("Set-Cookie: session=abc; Path=/", "Set-Cookie:[redacted]"),
        ("https://ann:hunter2@example.org/x", "https://[redacted]@example.org/x"),
        ("DB_PASSWORD=hunter2 next", "DB_PASSWORD=[redacted] next"),
        ('{"api_key": "abc123"}', '{"api_key": "[redacted]"}'),
        ("?token=abcd&page=2", "?token=[redacted]&page=2"),
    ],
)
def test_a_value_that_follows_its_name_is_not_kept(text: str, kept: str) -> None:
    assert redaction.redacted_text(text) == kept


@pytest.mark.parametrize(
    "prose",
    [
        "a bearer of good news arrives",
        "the secret: patience",
        "the basic understanding of tokens: 12 input, 30 output",
        "task-550e8400-e29b-41d4-a716-446655440000",
        "Thread-550e8400-e29b-41d4-a716-446655440000",
        "git show 9fceb02d0ae598e95dc970b74767f19372d61af8",
        "see https://example.org:8080/a/b?page=2",
        "scikit sk-learn and /usr/lib/sk-learn-0.24.2-something-long",
    ],
)
def test_prose_ids_and_addresses_are_kept(prose: str) -> None:
    assert redaction.redacted_text(prose) == prose


@given(ordinary, st.sampled_from(["{}", "see {} now", '"{}"', "at {}, then", "file:{}", "x={}"]))
def test_paths_uuids_and_hex_digests_are_kept_as_they_are(thing: str, around: str) -> None:
    text = around.format(thing)
    assert redaction.redacted_text(text) == text


@given(names, ordinary)
def test_they_are_kept_inside_a_body_too(name: str, thing: str) -> None:
    body = {name: thing, "list": [{name: thing}]}
    assert redaction.loggable(body) == body


@pytest.mark.parametrize(
    "name",
    [
        "token",
        "auth_token",
        "accessToken",
        "X-Auth-Token",
        "secret",
        "clientSecret",
        "password",
        "DB_PASSWORD",
        "api_key",
        "apiKey",
        "APIKey",
        "apikey",
        "private-key",
        "Authorization",
        "cookie",
        "Set-Cookie",
        "credentials",
    ],
)
def test_a_name_that_speaks_of_a_secret_hides_its_value_at_any_depth(name: str) -> None:
    body = {"a": [{"b": {name: "x"}}], name: {"deep": ["x"]}}
    assert redaction.loggable(body) == {"a": [{"b": {name: "[redacted]"}}], name: "[redacted]"}


@pytest.mark.parametrize(
    "name", ["max_tokens", "input_tokens", "token_id", "tokenizer", "key", "keyboard", "monkey", "author", ""]
)
def test_other_names_hide_nothing(name: str) -> None:
    assert not redaction.names_a_secret(name)


def test_whether_and_how_many_may_be_known() -> None:
    body = {"secret": None, "has_password": True, "cost_per_token": 0.5}
    assert redaction.loggable(body) == body


@given(json_values)
def test_redacting_twice_changes_nothing(value: Any) -> None:
    once = redaction.loggable(value)
    assert redaction.loggable(once) == once


@given(
    st.lists(
        st.sampled_from([*CREDENTIALS, "password=", "token: ", "Bearer ", "cookie: a=", " ", "\n", "x1"])
    )
)
def test_redacting_a_text_twice_changes_nothing(pieces: list[str]) -> None:
    once = redaction.redacted_text("".join(pieces))
    assert redaction.redacted_text(once) == once


@given(json_values)
def test_the_shape_of_a_body_stays(value: Any) -> None:
    kept = redaction.loggable(value)
    assert type(kept) is type(value)
    json.dumps(kept)


def test_a_body_that_is_too_large_leaves_a_note() -> None:
    kept = redaction.loggable({"x": "y" * redaction.BODY_MOST_BYTES})
    assert kept == {"note": "the body is not kept: it has 65544 bytes, a log keeps 65536"}


def test_a_body_that_is_too_deep_is_cut() -> None:
    body: Any = "end"
    for _ in range(200):
        body = [body]
    assert redaction.TOO_DEEP in json.dumps(redaction.loggable(body))


@pytest.mark.parametrize(
    "piece",
    [
        "a-",
        "token ",
        "bearer ",
        "://a:",
        "-----BEGIN PRIVATE KEY-----",
        "eyJ",
        "cookie:",
        "sk-",
        "=",
        "token:'",
    ],
)
def test_hostile_text_costs_little(piece: str) -> None:
    text = piece * (redaction.BODY_MOST_BYTES // len(piece))
    began = time.process_time()
    redaction.redacted_text(text)
    assert time.process_time() - began < 1.0
