"""Log policy: what it masks, and what it keeps."""

import json
import secrets
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_wire import redaction
from tests.rows import each_row

LARGEST = 64 * 1024
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\nabc\n-----END RSA PRIVATE KEY-----"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
LABELLED = [
    ("sk-proj-abcdefghijklmnop1234", "SK_TOKEN"),
    ("sk-abcdefghijklmnop", "SK_TOKEN"),
    ("sk_live_abcdefghijklmnop1234", "STRIPE_KEY"),
    ("ghp_abcdefghijklmnopqrstuvwxyz0123456789", "GITHUB_PAT"),
    ("ghp_abcdefghij0123456789", "GITHUB_PAT"),
    ("ghs_abcdefghij0123456789", "GITHUB_SERVER_TOKEN"),
    ("gho_abcdefghij0123456789", "GITHUB_TOKEN"),
    ("github_pat_11ABCDEFG0abcdefghijklmnopqrstuvwxyz", "GITHUB_PAT_V2"),
    ("glpat-abcdefghij0123456789", "GITLAB_TOKEN"),
    ("xoxb-1234567890-abcdefghij", "SLACK_TOKEN"),
    ("AKIAIOSFODNN7EXAMPLE", "AWS_ACCESS_KEY"),
    ("cfut_abcdefghijklmnopqrstuvwxyz012345", "CF_TOKEN"),
    ("mol_pk_abcdefghij0123456789", "MOL_PK"),
    ("ctx7_abcdefghij0123", "CTX7_TOKEN"),
    ("AIzaSyA1234567890abcdefghijklmnopqrstuv", "GOOGLE_API_KEY"),
    ("hf_abcdefghijklmnopqrstuvwxyz012345", "HF_TOKEN"),
    (JWT, "JWT"),
    (PEM, "PRIVATE_KEY"),
    ("dGhpcyBpcyBhIHRva2VuIG9mIDMyIGJ5dGVzISEhISE", "BASE64_BLOB"),
    ("Zm9yIGJhc2U2NCBvZiAzMiByYW5kb20gYnl0ZXMgaGU=", "BASE64_BLOB"),
    ("kJ8s/9dKq2+xPz7LmNq/4RtYvWbC3eFgH6aSdQ==", "BASE64_BLOB"),
    ("/J8s/9dKq2+xPz7LmNq/4RtYvWbC3eFgH6aSdQ==", "BASE64_BLOB"),
    ("Q7x2-Zp9_Lk4mN8vB1cR5tY3wS6dF0gHj", "BASE64_BLOB"),
    ("SG.Q7x2Zp9Lk4mN8vB1cR5tY3.wS6dF0gHjQ7x2Zp9Lk4mN8vB1cR5tY3w", "SENDGRID_KEY"),
    ("q7x2zp9lk4mn8vb1cr5ty3ws6df0ghja2", "BASE64_BLOB"),
    ("9fceb02d0ae598e95dc970b74767f19372d61af8a1b2c3d4", "BASE64_BLOB"),
    ("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "BASE64_BLOB"),
]
CREDENTIALS = [credential for credential, _ in LABELLED]
SIGNS = [
    *(
        "password=",
        "api_key: ",
        "token='",
        "pwd",
        "Bearer ",
        "Authorization: Basic ",
        "cookie: a=",
        "://",
        "@",
    ),
    *("[REDACTED:TOKEN]", "[REDACTED:", "]", '"', '\\"', "\\n", " ", "\n", "/", ".", "=", "x1"),
]


def masked(text: str) -> str:
    return redaction.redact(text, redaction.LOG)


def masked_json(value: Any) -> Any:
    return redaction.redact_json(value, redaction.LOG)


def _path(start: str, parts: list[str]) -> str:
    return start + "/".join(parts)


hex_digests = st.one_of(
    *(st.text("0123456789abcdef", min_size=size, max_size=size) for size in (32, 40, 56, 64, 96, 128))
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


@each_row(("credential", "label"), LABELLED)
@each_row(
    "around", ["{}", "use {} please", '{{"x":"{}"}}', "key={}", "({})", "a, {}, b", "it is {}.", "line\\n{}"]
)
def test_of_what_looks_like_a_credential_only_its_kind_is_kept(
    credential: str, label: str, around: str
) -> None:
    shown = masked(around.format(credential))
    assert shown == around.format(f"[REDACTED:{label}]")


@each_row("joint", "+/=~-_")
def test_what_is_joined_to_a_credential_goes_with_it(joint: str) -> None:
    assert masked(f"use ghp_abcdefgh1234{joint}hush now") == "use [REDACTED:GITHUB_PAT] now"


@pytest.mark.parametrize("around", ["my token is {}, keep it", "{}", "code={}"])
def test_no_token_of_ours_is_kept(around: str) -> None:
    for token in (secrets.token_urlsafe(32) for _ in range(2000)):
        assert token not in masked(around.format(token))


@each_row(
    ("text", "kept"),
    [
        ("Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic [REDACTED:AUTHORIZATION]"),
        ("Authorization: Bearer hush", "Authorization: Bearer [REDACTED:BEARER_TOKEN]"),
        ("authorization: abc1234", "authorization: [REDACTED:AUTHORIZATION]"),
        ("bearer abcdefghij1234567890", "bearer [REDACTED:BEARER_TOKEN]"),
        ("Bearer abcdefghijklmnop", "Bearer [REDACTED:BEARER_TOKEN]"),
        ("Bearer abc.def", "Bearer [REDACTED:BEARER_TOKEN]"),
        ("AUTH_TOKEN=Bearer abc123", "AUTH_TOKEN=[REDACTED:TOKEN]"),
        ("Set-Cookie: session=abc; Path=/", "Set-Cookie:[REDACTED:COOKIE]"),
        ("https://ann:hunter2@example.org/x", "https://[REDACTED:DSN_PASSWORD]@example.org/x"),
        ("postgres://ann:p@ss[1]#@db:5432/x", "postgres://[REDACTED:DSN_PASSWORD]@db:5432/x"),
        ("https://token:abc123@example.org/x", "https://[REDACTED:DSN_PASSWORD]@example.org/x"),
        ("https://ghp_abc@example.org/x", "https://[REDACTED:DSN_PASSWORD]@example.org/x"),
        ("DB_PASSWORD=hunter2 next", "DB_PASSWORD=[REDACTED:PASSWORD] next"),
        ("password=x", "password=[REDACTED:PASSWORD]"),
        ("Uid=sa;Pwd=x;", "Uid=sa;Pwd=[REDACTED:PASSWORD];"),
        ("passwd: hunter2", "passwd: [REDACTED:PASSWORD]"),
        ("password = hunter2", "password = [REDACTED:PASSWORD]"),
        ("password='my own words' next", "password='[REDACTED:PASSWORD]' next"),
        (r'"password": "say \"x\" twice"', '"password": "[REDACTED:PASSWORD]"'),
        (r"{\"password\": \"words\"}", r"{\"password\": \"[REDACTED:PASSWORD]\"}"),
        ('{"password": "cut off', '{"password": "[REDACTED:PASSWORD]'),
        ("password=a[b]c next", "password=[REDACTED:PASSWORD] next"),
        ("password=[REDACTED:PASSWORD]more", "password=[REDACTED:PASSWORD]"),
        ('{"api_key": "abc123"}', '{"api_key": "[REDACTED:API_KEY]"}'),
        ("OPENAI_API_KEY=sk-abcdefghijklmnop", "OPENAI_API_KEY=[REDACTED:API_KEY]"),
        ("X-Api-Key: abc123", "X-Api-Key: [REDACTED:API_KEY]"),
        ("A_SECRET=1", "A_SECRET=[REDACTED:SECRET]"),
        ("AWS_SECRET_ACCESS_KEY=a/b", "AWS_SECRET_ACCESS_KEY=[REDACTED:SECRET]"),
        ("DJANGO_SECRET_KEY=x", "DJANGO_SECRET_KEY=[REDACTED:SECRET]"),
        ("GIT_TOKEN=0", "GIT_TOKEN=[REDACTED:TOKEN]"),
        ("?token=abcd&page=2", "?token=[REDACTED:TOKEN]&page=2"),
        (f"PRIVATE_KEY={PEM}", "PRIVATE_KEY=[REDACTED:PRIVATE_KEY]"),
    ],
)
def test_a_value_that_follows_its_name_is_not_kept(text: str, kept: str) -> None:
    assert masked(text) == kept


@each_row(
    "prose",
    [
        "a bearer of good news arrives",
        "the secret: patience",
        "the basic understanding of tokens: 12 input, 30 output",
        "task-550e8400-e29b-41d4-a716-446655440000",
        "Thread-550e8400-e29b-41d4-a716-446655440000",
        "git show 9fceb02d0ae598e95dc970b74767f19372d61af8",
        "see https://example.org:8080/a/b?page=2",
        "send a Bearer token",
        "HOME=/srv/ada PWD=/srv/ada/Work2 OLDPWD=/",
        "the private key: ~/.ssh/id_ed25519",
        "traceparent 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
        "src/Components/UserProfile/AvatarEditor2.tsx",
        "org.example.AbstractSingletonProxyFactoryBean",
        "AbstractSingletonProxyFactoryBeanFactory",
        "MarkupSafe-2.1.5-cp311-cp311-macosx_10_9_universal2.whl",
        "molecule-platform-deployment-7d9f8b6c5d-x2k4j",
        "test_paths_uuids_and_sha256_digests_are_kept_as_they_are",
        r"C:\Users\Q7x2Zp9Lk4mN8vB1cR5tY3wS6dF0gHjQ7x2Zp9Lk4",
        "a" * 40,
        "1234567890" * 4,
        "scikit sk-learn and /usr/lib/sk-learn-0.24.2-something-long",
    ],
)
def test_prose_ids_and_addresses_are_kept(prose: str) -> None:
    assert masked(prose) == prose


@given(ordinary, st.sampled_from(["{}", "see {} now", '"{}"', "at {}, then", "file:{}", "x={}"]))
def test_paths_uuids_and_hex_digests_are_kept_as_they_are(thing: str, around: str) -> None:
    text = around.format(thing)
    assert masked(text) == text


@given(names, ordinary)
def test_they_are_kept_inside_a_body_too(name: str, thing: str) -> None:
    body = {name: thing, "list": [{name: thing}]}
    assert masked_json(body) == body


@each_row(
    ("name", "label"),
    [
        ("token", "TOKEN"),
        ("auth_token", "TOKEN"),
        ("accessToken", "TOKEN"),
        ("X-Auth-Token", "TOKEN"),
        ("secret", "SECRET"),
        ("clientSecret", "SECRET"),
        ("AWS_SECRET_ACCESS_KEY", "SECRET"),
        ("credentials", "SECRET"),
        ("password", "PASSWORD"),
        ("DB_PASSWORD", "PASSWORD"),
        ("pwd", "PASSWORD"),
        ("api_key", "API_KEY"),
        ("apiKey", "API_KEY"),
        ("APIKey", "API_KEY"),
        ("apikey", "API_KEY"),
        ("private-key", "PRIVATE_KEY"),
        ("Authorization", "AUTHORIZATION"),
        ("cookie", "COOKIE"),
        ("Set-Cookie", "COOKIE"),
    ],
)
def test_a_name_that_speaks_of_a_secret_hides_its_value_at_any_depth(name: str, label: str) -> None:
    body = {"a": [{"b": {name: "x"}}], name: {"deep": ["x"]}}
    hidden = f"[REDACTED:{label}]"
    assert masked_json(body) == {"a": [{"b": {name: hidden}}], name: hidden}


@pytest.mark.parametrize(
    "name", ["max_tokens", "input_tokens", "token_id", "tokenizer", "key", "keyboard", "monkey", "author", ""]
)
def test_other_names_hide_nothing(name: str) -> None:
    assert redaction.label_of_name(name) is None


def test_whether_and_how_many_may_be_known() -> None:
    body = {"secret": None, "has_password": True, "password_length": 12, "cost_per_token": 0.5}
    assert masked_json(body) == body


def test_a_password_of_digits_is_one() -> None:
    assert masked_json({"passcode": 1234}) == {"passcode": "[REDACTED:PASSWORD]"}


def test_the_working_directory_of_a_shell_is_no_password() -> None:
    body = {"env": {"PWD": "/srv/ada"}}
    assert masked_json(body) == body


@given(json_values)
def test_redacting_twice_changes_nothing(value: Any) -> None:
    once = masked_json(value)
    assert masked_json(once) == once


@given(st.lists(st.sampled_from([*CREDENTIALS, *SIGNS])))
def test_redacting_a_text_twice_changes_nothing(pieces: list[str]) -> None:
    once = masked("".join(pieces))
    assert masked(once) == once


@given(json_values)
def test_the_shape_of_a_body_stays(value: Any) -> None:
    kept = masked_json(value)
    assert type(kept) is type(value)
    json.dumps(kept)


def test_a_body_that_is_too_deep_is_cut() -> None:
    body: Any = "end"
    for _ in range(200):
        body = [body]
    assert redaction.TOO_DEEP in json.dumps(masked_json(body))


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
        "token:",
        'secret="',
        "secret=\\",
        "api key :        ",
        "bearer aaaaaaaaaaaaaaa",
        "https://",
        "aB3./",
        "[REDACTED:",
    ],
)
def test_hostile_text_costs_little(piece: str) -> None:
    text = piece * (LARGEST // len(piece))
    began = time.process_time()
    masked(text)
    assert time.process_time() - began < 1.0
