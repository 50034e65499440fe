"""What a snapshot may not keep, and what it must keep."""

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_runtime.domain.snapshot_redaction import (
    is_sandbox_content,
    scrub_content,
    scrub_memory_entry,
    scrub_snapshot,
)
from tests.rows import each_row

PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA\nabc\n-----END RSA PRIVATE KEY-----"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U"
SHA256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
KINDS = [
    ("sk-abcdefghijklmnop", "SK_TOKEN"),
    ("sk-proj-abcDEF1234567890", "SK_TOKEN"),
    ("ghp_abcdefghij0123456789", "GITHUB_PAT"),
    ("ghs_abcdefghij0123456789", "GITHUB_SERVER_TOKEN"),
    ("github_pat_" + "aB3" * 20, "GITHUB_PAT_V2"),
    ("AKIAIOSFODNN7EXAMPLE", "AWS_ACCESS_KEY"),
    ("cfut_" + "abcd1234" * 4, "CF_TOKEN"),
    ("mol_pk_abcdefghij0123456789", "MOL_PK"),
    ("ctx7_abcdefghij0123", "CTX7_TOKEN"),
    ("xoxb-1234567890-abcdefghij", "SLACK_TOKEN"),
    ("xoxp-1-2-3", "SLACK_TOKEN"),
    ("AIzaSyA1234567890abcdefghijklmnopqrstuv", "GOOGLE_API_KEY"),
    (JWT, "JWT"),
    (PEM, "PRIVATE_KEY"),
    (PEM.replace("RSA ", ""), "PRIVATE_KEY"),
    (PEM.replace("\n", "\\n"), "PRIVATE_KEY"),
    ("dGhpcyBpcyBhIHRva2VuIG9mIDMyIGJ5dGVzISEhISE", "BASE64_BLOB"),
    ("Zm9yIGJhc2U2NCBvZiAzMiByYW5kb20gYnl0ZXMgaGU=", "BASE64_BLOB"),
    ("kJ8s/9dKq2+xPz7LmNq/4RtYvWbC3eFgH6aSdQ==", "BASE64_BLOB"),
    ("/J8s/9dKq2+xPz7LmNq/4RtYvWbC3eFgH6aSdQ==", "BASE64_BLOB"),
    ("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "BASE64_BLOB"),
    ("Q7x2-Zp9_Lk4mN8vB1cR5tY3wS6dF0gHj", "BASE64_BLOB"),
    ("9fceb02d0ae598e95dc970b74767f19372d61af8a1b2c3d4", "BASE64_BLOB"),
]
KEPT = [
    SHA256,
    SHA256.upper(),
    f"sha256:{SHA256}",
    f"image@sha256:{SHA256}",
    f"sha256-{SHA256}",
    "d41d8cd98f00b204e9800998ecf8427e",
    "da39a3ee5e6b4b0d3255bfef95601890afd80709",
    SHA256[:56],
    SHA256 + SHA256[:32],
    SHA256 * 2,
    "550e8400-e29b-41d4-a716-446655440000",
    "task-550e8400-e29b-41d4-a716-446655440000",
    "/workspace/Project1/src/MainModule/VeryLongFileName2.py",
    "./packages/Runtime2/src/molecule_runtime/domain/Scrubbing1.py",
    "~/Projects/Molecule2/workspace/some/Deep/folder/x1",
    "packages/runtime/src/molecule_runtime/domain/Scrubbing2.py",
    "packages/runtime/src/MoleculeRuntime2/Domain/Scrubbing",
    "https://example.org/Some/Long/Path1/With2/Many3/Words4/index",
    "http://localhost:8080/workspaces/Ab3/files/Report2026/summary",
    "https://github.com/Org1/Repo2/blob/da39a3ee5e6b4b0d3255bfef95601890afd80709/README.md",
    "a_rather_long_name_of_a_test_with_number_42_in_it",
    "molecule_runtime.domain.turns.TurnRequest.delegation2",
    "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
    "averylongwordwithoutanycapitalsordigitsinitatall",
    "aB1aB1aB1aB1aB1aB1aB1aB1aB1aB1aB1aB1",
    "task-abcdefghijklmnopqrstuvwxyz1",
    "/docs/sk-learn-tutorials-for-everybody",
    "the secret: patience",
    "max_tokens=4096 and token_count: 1500",
    "a bearer token is sent; the bearer of news",
    "PWD=/workspace/x",
    "cat: /etc/passwd: Permission denied",
    "http://host:8080/path and ann@example.org",
    "claude-3-5-sonnet-20241022 2026-01-31T10:15:30.123Z",
    "TOKEN=",
    '("user:", "org-token:")',
    "password: null",
    "",
]
ASSIGNED = [
    ("OPENAI_API_KEY=abc", "OPENAI_API_KEY=[REDACTED:API_KEY]"),
    ("openai_api_key=abc", "openai_api_key=[REDACTED:API_KEY]"),
    ('X_API_KEY="a b c" next', 'X_API_KEY="[REDACTED:API_KEY]" next'),
    ("GH_TOKEN=abc next", "GH_TOKEN=[REDACTED:TOKEN] next"),
    ("GH_TOKEN=sk-abcdefghijklmnop", "GH_TOKEN=[REDACTED:TOKEN]"),
    ("X_TOKEN=Bearer abc", "X_TOKEN=[REDACTED:TOKEN]"),
    ("X_TOKEN=abc\\nB=2", "X_TOKEN=[REDACTED:TOKEN]\\nB=2"),
    ('{\\"X_TOKEN\\": \\"abc\\"}', '{\\"X_TOKEN\\": \\"[REDACTED:TOKEN]\\"}'),
    ("?access_token=abc&x=1", "?access_token=[REDACTED:TOKEN]&x=1"),
    ("APP_SECRET=abc", "APP_SECRET=[REDACTED:SECRET]"),
    ("AWS_SECRET_ACCESS_KEY=abc", "AWS_SECRET_ACCESS_KEY=[REDACTED:SECRET]"),
    (f"X_TOKEN={PEM}", "X_TOKEN=[REDACTED:PRIVATE_KEY]"),
    ("Bearer x", "Bearer [REDACTED:BEARER_TOKEN]"),
    ("Authorization: Bearer abc.def-1.", "Authorization: Bearer [REDACTED:BEARER_TOKEN]."),
    ("authorization: bearer ghp_abcdefghij0123456789", "authorization: bearer [REDACTED:BEARER_TOKEN]"),
    ("Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic [REDACTED:AUTHORIZATION]"),
    ("postgres://ann:hunter2@db:5432/x", "postgres://ann:[REDACTED:DSN_PASSWORD]@db:5432/x"),
    ("postgres://ann:p@ss[1]#@db/x", "postgres://ann:[REDACTED:DSN_PASSWORD]@db/x"),
    ("redis://:hunter2@cache", "redis://:[REDACTED:DSN_PASSWORD]@cache"),
    ("password=hunter2", "password=[REDACTED:PASSWORD]"),
    ("DB_PASSWORD = hunter2 next", "DB_PASSWORD = [REDACTED:PASSWORD] next"),
    ("passwd: hunter2", "passwd: [REDACTED:PASSWORD]"),
    ("Uid=sa;Pwd=x;", "Uid=sa;Pwd=[REDACTED:PASSWORD];"),
    ('"password": "say \\"x\\" twice"', '"password": "[REDACTED:PASSWORD]"'),
    ("password='it is long' next", "password='[REDACTED:PASSWORD]' next"),
    ("https://x-access-token:ghp_abcdefghij0123456789@github.com/a", None),
    ("before " + PEM[:60], "before [REDACTED:PRIVATE_KEY]"),
]
PIECES = [
    *(
        "password=",
        "api_key: ",
        "X_TOKEN=",
        "token='",
        "Pwd=",
        "Bearer ",
        "Authorization: Basic ",
        "://",
        ":",
    ),
    *(
        "[REDACTED:TOKEN]",
        "[REDACTED:",
        "[REDACTED]",
        "]",
        "[",
        '"',
        '\\"',
        "\\n",
        " ",
        "\n",
        "/",
        ".",
        "=",
        "@",
    ),
    *("-", "_", ",", ";", "x1", "sk-", "AKIA", "eyJ", "hunter2!", "-----BEGIN PRIVATE KEY-----", "é"),
    *(secret for secret, _ in KINDS),
]
texts: st.SearchStrategy[str] = st.lists(
    st.one_of(st.sampled_from(PIECES), st.text(max_size=8)), max_size=12
).map("".join)


def _path(start: str, parts: list[str]) -> str:
    return start + "/".join(parts)


hex_digests = st.sampled_from([32, 40, 56, 64, 96, 128]).flatmap(
    lambda size: st.text("0123456789abcdef", min_size=size, max_size=size)
)
segments = st.text("abcxyzABCXYZ0123456789._-", min_size=1, max_size=60)
paths: st.SearchStrategy[str] = st.builds(
    _path,
    st.sampled_from(["/", "./", "~/", "../", "https://example.org/"]),
    st.lists(segments, min_size=1, max_size=6),
)


@each_row(("secret", "label"), KINDS)
@each_row("around", ["{}", "use {} please", '{{"x":"{}"}}', "({})", "a, {}, b", "line\\n{}", "“{}”"])
def test_of_a_secret_only_its_kind_is_kept(secret: str, label: str, around: str) -> None:
    assert scrub_content(around.format(secret)) == around.format(f"[REDACTED:{label}]")


@each_row(("text", "kept"), ASSIGNED)
def test_the_name_of_what_is_assigned_is_kept_and_its_value_is_not(text: str, kept: str | None) -> None:
    scrubbed = scrub_content(text)
    assert kept is None or scrubbed == kept
    assert "hunter2" not in scrubbed
    assert "ghp_" not in scrubbed


@each_row("text", KEPT)
def test_paths_digests_ids_and_prose_are_untouched(text: str) -> None:
    assert scrub_content(text) == text


@given(st.one_of(hex_digests, paths, st.uuids().map(str)))
def test_any_path_url_path_digest_or_uuid_is_untouched(text: str) -> None:
    assert scrub_content(text) == text
    assert scrub_content(f"see {text} there") == f"see {text} there"


@given(texts, st.lists(st.text(min_size=6, max_size=12) | st.just("REDACTED"), max_size=3))
def test_scrubbing_twice_changes_nothing(text: str, known: list[str]) -> None:
    once = scrub_content(text, known)
    assert scrub_content(once, known) == once


@given(st.text(max_size=40), st.text("abcdef XYZ+/=\"'", min_size=8, max_size=300), st.text(max_size=40))
def test_a_known_value_is_never_kept(before: str, value: str, after: str) -> None:
    assert value.strip() not in scrub_content(before + value + after, [value]) or len(value.strip()) < 6


def test_known_values_come_before_every_pattern() -> None:
    assert scrub_content("X_TOKEN=ghp_known1234", ["ghp_known1234"]) == "X_TOKEN=[REDACTED:VALUE]"


def test_a_value_that_is_too_short_to_be_a_secret_is_kept() -> None:
    assert scrub_content("true or 1", ["true", "1", ""]) == "true or 1"


def test_a_value_that_continues_after_a_known_one_is_not_kept() -> None:
    assert scrub_content("password=hunter22tail", ["hunter22"]) == "password=[REDACTED:PASSWORD]"


@each_row("text", ["source=sandbox", "SOURCE=Sandbox x", "tool=run_code", "a [SANDBOX_OUTPUT] b"])
def test_output_of_a_sandbox_is_recognised(text: str) -> None:
    assert is_sandbox_content(text)
    assert scrub_memory_entry({"content": text}) is None
    assert scrub_memory_entry(text) is None


@each_row("text", ["the sandbox is open", "source=sandboxes", "run_code", ""])
def test_a_word_about_sandboxes_is_no_output(text: str) -> None:
    assert not is_sandbox_content(text)
    assert scrub_memory_entry({"content": text}) == {"content": text}


def test_a_memory_entry_is_scrubbed_and_left_as_it_was() -> None:
    entry: dict[str, Any] = {"content": "password=hunter2", "n": 1, "ok": None}
    assert scrub_memory_entry(entry) == {"content": "password=[REDACTED:PASSWORD]", "n": 1, "ok": None}
    assert entry["content"] == "password=hunter2"


def test_every_string_of_a_snapshot_is_scrubbed_at_any_depth() -> None:
    snapshot: dict[str, Any] = {
        "current_task": "use sk-abcdefghijklmnop",
        "adapter": {
            "transcript_lines": ["fine", "tool=run_code print(1)", {"text": "password=hunter2"}, 7],
            "api_key": "short",
            "ghp_abcdefghij0123456789": [["xoxb-123456"]],
        },
    }
    assert scrub_snapshot(snapshot) == {
        "current_task": "use [REDACTED:SK_TOKEN]",
        "adapter": {
            "transcript_lines": ["fine", {"text": "password=[REDACTED:PASSWORD]"}, 7],
            "api_key": "[REDACTED:API_KEY]",
            "[REDACTED:GITHUB_PAT]": [["[REDACTED:SLACK_TOKEN]"]],
        },
    }


def test_a_random_session_id_is_kept_because_a_session_is_restored_by_it() -> None:
    session = "resp_68a1c4f2b7d093e5a6814c2f9be07d3568a1c4f2b7d093e5"
    snapshot = {"session_id": session, "sessions": {session: {"thread_id": session}}}
    assert scrub_snapshot(snapshot) == snapshot
    assert scrub_content(session) == "[REDACTED:BASE64_BLOB]"


def test_a_snapshot_that_is_too_deep_is_cut() -> None:
    deep: Any = "sk-abcdefghijklmnop"
    for _ in range(500):
        deep = [deep]
    assert "sk-" not in str(scrub_snapshot({"deep": deep}))


def _seconds(text: str) -> float:
    began = time.process_time()
    scrub_content(text)
    return time.process_time() - began


@pytest.fixture(scope="module")
def ordinary_seconds() -> float:
    words = "a password, a token: 15 and Bearer of https://example.org/x secret keys eyJ sk- AKIA xox basic "
    return max(_seconds(words * (1_000_000 // len(words))), 0.01)


@pytest.mark.parametrize(
    "piece",
    [
        *(
            "a-",
            "token ",
            "bearer ",
            "bearer .",
            "://a:",
            "://@:",
            "-----BEGIN PRIVATE KEY-----",
            "eyJ",
            "-eyJ",
        ),
        *(
            "eyJaaaa.",
            "sk-",
            "=",
            "token:'",
            "token:",
            'secret="',
            "secret=\\",
            "api key :        ",
            "x_token=a",
        ),
        *(
            "password=a ",
            "https://",
            "aB3./",
            "aB3",
            ".",
            "[REDACTED:",
            "[REDACTED:X]",
            "AKIA",
            "AKIA0123456789ABCDEF",
        ),
        *(
            "\\n",
            "\\u00e9",
            "ab://",
            "password:[REDACTED:X]",
            "X_TOKEN=[REDACTED:X]a,",
            "ghp_abcdefghij0123456789-",
        ),
    ],
)
def test_a_hostile_megabyte_costs_no_more_than_twenty_ordinary_ones(
    piece: str, ordinary_seconds: float
) -> None:
    assert _seconds(piece * (1_000_000 // len(piece))) < 20 * ordinary_seconds
