"""One table for all places: each policy masks every kind of credential, and none masks ordinary text."""

import base64
import hashlib
import random
import string
import time
import uuid

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from molecule_wire import redaction
from molecule_wire.redaction import ANSWER, ANSWER_SECRETS, LOG, MANIFEST, MEMORY, SNAPSHOT, Policy
from tests.rows import each_row

POLICIES = [LOG, SNAPSHOT, MEMORY, ANSWER, ANSWER_SECRETS]
KEPT_LENGTH = 10
"""Characters of a secret in a row that must not be shown."""

_random = random.Random(27)


def _draw(length: int, alphabet: str = string.ascii_letters + string.digits) -> str:
    return "".join(_random.choices(alphabet, k=length))


def _hex(length: int) -> str:
    return _random.randbytes(length).hex()[:length]


def _url_safe(size: int) -> str:
    return base64.urlsafe_b64encode(_random.randbytes(size)).decode().rstrip("=")


def _base64(size: int) -> str:
    return base64.b64encode(_random.randbytes(size)).decode()


def _pem(kind: str, size: int) -> str:
    body = _base64(size)
    lines = "\n".join(body[place : place + 64] for place in range(0, len(body), 64))
    return f"-----BEGIN {kind}PRIVATE KEY-----\n{lines}\n-----END {kind}PRIVATE KEY-----"


def _jwt() -> str:
    header = base64.urlsafe_b64encode(b'{"alg":"EdDSA","kid":"key-1","typ":"JWT"}').decode().rstrip("=")
    claims = base64.urlsafe_b64encode(b'{"sub":"workspace:1","aud":"x","exp":1790000000}').decode()
    return f"{header}.{claims.rstrip('=')}.{_url_safe(64)}"


UPPER = string.ascii_uppercase + string.digits
CREDENTIALS = {
    "GitHub classic": "ghp_" + _draw(36),
    "GitHub OAuth": "gho_" + _draw(36),
    "GitHub app user": "ghu_" + _draw(36),
    "GitHub server": "ghs_" + _draw(36),
    "GitHub refresh": "ghr_" + _draw(76),
    "GitHub fine-grained": f"github_pat_{_draw(22)}_{_draw(59)}",
    "GitLab personal": "glpat-" + _draw(20),
    "GitLab runner": "glrt-" + _draw(20),
    "Stripe secret": "sk_live_" + _draw(24),
    "Stripe restricted": "rk_live_" + _draw(99),
    "Stripe webhook": "whsec_" + _draw(32),
    "AWS access key": "AKIA" + _draw(16, UPPER),
    "AWS temporary key": "ASIA" + _draw(16, UPPER),
    "AWS session token": "IQoJb3JpZ2luX2Vj" + _base64(300),
    "Google API key": "AIza" + _draw(35),
    "Google OAuth access": "ya29.a0" + _url_safe(90),
    "Google client secret": "GOCSPX-" + _url_safe(21),
    "Slack bot": f"xoxb-{_draw(12, string.digits)}-{_draw(12, string.digits)}-{_draw(24)}",
    "Slack app": f"xapp-1-{_draw(11, UPPER)}-{_draw(12, string.digits)}-{_hex(64)}",
    "Slack webhook": f"https://hooks.slack.com/services/T{_draw(8, UPPER)}/B{_draw(10, UPPER)}/{_draw(24)}",
    "OpenAI": "sk-" + _draw(48),
    "OpenAI project": "sk-proj-" + _url_safe(110),
    "Anthropic": "sk-ant-api03-" + _url_safe(70) + "AA",
    "OpenRouter": "sk-or-v1-" + _hex(64),
    "Groq": "gsk_" + _draw(52),
    "xAI": "xai-" + _draw(80),
    "Perplexity": "pplx-" + _draw(48),
    "Replicate": "r8_" + _draw(37),
    "Hugging Face": "hf_" + _draw(34),
    "npm": "npm_" + _draw(36),
    "PyPI": "pypi-AgEIcHlwaS5vcmc" + _url_safe(110),
    "SendGrid": f"SG.{_url_safe(16)}.{_url_safe(32)}",
    "Twilio": "SK" + _hex(32),
    "Mailgun": "key-" + _hex(32),
    "Telegram": f"{_draw(10, '123456789')}:AA{_url_safe(25)[:33]}",
    "Discord": f"M{_draw(25)}.{_draw(6)}.{_url_safe(29)[:38]}",
    "DigitalOcean": "dop_v1_" + _hex(64),
    "Shopify": "shpat_" + _hex(32),
    "Databricks": "dapi" + _hex(32),
    "Vault": "hvs." + _url_safe(68),
    "Docker Hub": "dckr_pat_" + _url_safe(20),
    "Grafana": f"glsa_{_draw(32)}_{_hex(8)}",
    "Linear": "lin_api_" + _draw(40),
    "Cloudflare": "cfut_" + _draw(40),
    "Supabase": "sbp_" + _hex(40),
    "Atlassian": "ATATT3xFfGF0" + _url_safe(130) + "=" + _hex(8).upper(),
    "Azure client secret": f"{_draw(3)}8Q~{_draw(34)}",
    "age": "AGE-SECRET-KEY-1" + _draw(58, UPPER),
    "Molecule key": "mol_pk_" + _draw(32),
    "Molecule token": _url_safe(32),
    "JSON Web Token": _jwt(),
    "RSA private key": _pem("RSA ", 1190),
    "PKCS 8 private key": _pem("", 138),
    "OpenSSH private key": _pem("OPENSSH ", 300),
}
CONTEXTS = {
    "URL with password": ("postgres://ann:{}@db.example.org:5432/app", "hunter2-" + _draw(8)),
    "Redis URL": ("redis://:{}@cache:6379/0", _draw(20)),
    "bearer header": ("Authorization: Bearer {}", _url_safe(30)),
    "bearer in curl": ("curl -H 'authorization: bearer {}' https://x.example", _hex(48)),
    "basic header": ("Authorization: Basic {}", _base64(21)),
    "AWS secret key": ("AWS_SECRET_ACCESS_KEY={}", _base64(30)),
    "AWS secret in JSON": ('{{"SecretAccessKey": "{}"}}', _base64(30)),
    "Azure storage": ("DefaultEndpointsProtocol=https;AccountKey={};", _base64(64)),
    "API key of hex": ("DD_API_KEY={}", _hex(32)),
    "API key in YAML": ("api_key: {}", _hex(40)),
    "UUID as an API key": ("HEROKU_API_KEY={}", str(uuid.UUID(int=_random.getrandbits(128), version=4))),
    "token in a query": ("https://x.example/a?access_token={}&page=2", _draw(40)),
    "SAS signature": ("https://x.blob.core.windows.net/c?sv=2024&sig={}&se=1", _base64(32)[:42]),
    "client secret": ('client_secret = "{}"', _draw(32)),
    "password": ("password=Tr0ub4dor!3{}", "-" + _draw(12)),
    "password in JSON": ('{{"password": "{}"}}', _draw(14) + "!"),
}
AROUND = ["{}", "use {} now", '{{"x":"{}"}}', "({})", "see {}.", "line\\n{}"]
SECRETS = [
    *((name, "{}", secret) for name, secret in CREDENTIALS.items()),
    *((name, *context) for name, context in CONTEXTS.items()),
]


def _shows(text: str, secret: str) -> bool:
    """Return True if a text shows a part of the secret that is longer than its prefix."""
    core = secret[16:] if len(secret) > 40 else secret[8:]
    starts = range(max(1, len(core) - KEPT_LENGTH + 1))
    return any(core[place : place + KEPT_LENGTH] in text for place in starts)


@each_row(("name", "context", "secret"), SECRETS)
@each_row("around", AROUND)
def test_every_policy_masks_every_kind_of_credential(
    name: str, context: str, secret: str, around: str
) -> None:
    text = around.format(context.format(secret))
    for policy in POLICIES:
        masked = redaction.redact(text, policy)
        assert not _shows(masked, secret), name
        assert "[REDACTED" in masked


@each_row(("name", "context", "secret"), SECRETS)
def test_a_manifest_with_any_kind_of_credential_has_a_finding(name: str, context: str, secret: str) -> None:
    if context != "{}" or name == "Molecule token":
        return  # a manifest has keys and digests; only what the contract lists counts without a prefix
    assert redaction.find_kind(f"use {secret} now", MANIFEST), name


@each_row(("name", "context", "secret"), SECRETS)
@each_row("policy", POLICIES)
def test_redacting_twice_changes_nothing(name: str, context: str, secret: str, policy: Policy) -> None:
    once = redaction.redact(f"use {context.format(secret)} now", policy)
    assert redaction.redact(once, policy) == once, name


def _each_split(text: str, whole: str, redactor: redaction.StreamRedactor, places: range) -> None:
    for place in places:
        first = redactor.feed(text[:place])
        assert whole.startswith(first)
        assert first + redactor.feed(text[place:]) + redactor.flush() == whole


@each_row(("name", "context", "secret"), SECRETS)
def test_a_stream_masks_a_credential_that_is_split_at_any_position(
    name: str, context: str, secret: str
) -> None:
    # `\u0130` has two characters in lower case, which must not shift any position.
    text = f"\u0130t is:\n  {context.format(secret)} and more words, password unknown.\n"
    whole = redaction.redact(text, ANSWER)
    assert not _shows(whole, secret), name
    assert whole.endswith("and more words, password unknown.\n")
    redactor = redaction.StreamRedactor()
    _each_split(text, whole, redactor, range(min(len(text), 160)))  # a window and what stands before it
    assert "".join(map(redactor.feed, text)) + redactor.flush() == whole


_pieces = st.sampled_from(
    [
        *(context.format(secret) for _, context, secret in SECRETS),
        *("password: ", "Bearer ", "token = ", '"api_key": "', "-----BEGIN PRIVATE KEY-----", "://a:", "@"),
        *(
            "secret",
            "authorization: basic ",
            "\n",
            " ",
            "\\n",
            ".",
            "=",
            "word ",
            "x9",
            "\u00e9",
            "\u0130",
            "'",
            '"',
        ),
    ]
)


@given(st.lists(st.one_of(_pieces, st.text(max_size=4)), max_size=8), st.integers(1, 300))
@settings(deadline=None)
def test_the_size_of_the_pieces_of_a_stream_does_not_matter(parts: list[str], size: int) -> None:
    text = "".join(parts)
    redactor = redaction.StreamRedactor(["known-value-1"])
    shown = [redactor.feed(text[place : place + size]) for place in range(0, len(text), size)]
    assert redactor.held <= 256
    assert "".join([*shown, redactor.flush()]) == redaction.redact(text, ANSWER, ["known-value-1"])


@given(st.lists(st.one_of(_pieces, st.text(max_size=4)), max_size=8))
@settings(deadline=None)
def test_redacting_any_mixture_twice_changes_nothing_where_text_is_stored(parts: list[str]) -> None:
    text = "".join(parts)
    for policy in (LOG, SNAPSHOT, MEMORY):
        once = redaction.redact(text, policy)
        assert redaction.redact(once, policy) == once


SHA256 = hashlib.sha256(b"x").hexdigest()
ORDINARY = [
    *(SHA256, hashlib.sha1(b"x").hexdigest(), hashlib.sha512(b"x").hexdigest(), f"sha256:{SHA256}"),
    *("550e8400-e29b-41d4-a716-446655440000", "019a2f3e-7c4d-7abc-8def-0123456789ab"),
    *("/srv/ann/Project2/src/MainModule/VeryLongFileName2.py", "./node_modules/@scope/pkg-1.2.3/dist/i.mjs"),
    *("~/Library/Caches/Some2/Thing", "src/components/UserProfile/AvatarEditor2.tsx", r"C:\Users\Ann\x.txt"),
    *("https://example.org/a/B2/c?page=2#top", "git@github.com:org/repo.git", "http://localhost:8080/x/y"),
    *("the password is wrong, the token expired", "a bearer token is sent", "keep the secret: patience"),
    *("max_tokens=4096, token_count: 1500", "task-abcdefghijklmnopqrstuvwxyz1", "claude-3-5-sonnet-20241022"),
    *("traceparent 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "PWD=/srv/ann/Work2"),
    *("AbstractSingletonProxyFactoryBeanFactory", "test_paths_uuids_and_sha256_digests_are_kept_as_they_are"),
]
CODE = [
    "api_key = os.environ['OPENAI_API_KEY']",
    'client = Client(token=settings.token, password=config["db2"]["password"])',
    "password = getpass.getpass()",
    "def login(user: str, password: str = DEFAULT_PASSWORD1) -> Token: ...".replace("1)", ")"),
    "secret = secrets.token_urlsafe(32)",
    'headers = {"Authorization": f"Bearer {token}"}',
    "token: str | None = None",
    "if line.startswith('-----BEGIN PRIVATE KEY-----'):\n    return parse(line)",
    "postgres://${DB_USER}:${DB_PASSWORD}@${DB_HOST}:5432/app",
    "postgresql://postgres:postgres@localhost/test",
    "const API_KEY = process.env.API_KEY!;",
    "password: ${{ secrets.NPM_TOKEN }}",
    "Authorization: Bearer <your token here>",
    '"integrity": "sha512-' + _base64(64) + '"',
    "data:image/png;base64," + _base64(3000),
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + _base64(32)[:43] + " ann@host",
    "SHA256:" + _base64(32)[:43],
]


@each_row("text", ORDINARY)
@each_row("around", ["{}", "see {} there", '"{}"'])
@each_row("policy", POLICIES)
def test_no_policy_masks_digests_ids_paths_or_prose(text: str, around: str, policy: Policy) -> None:
    assert redaction.redact(around.format(text), policy) == around.format(text)


@each_row("text", CODE)
def test_an_answer_keeps_code_and_files_in_base64(text: str) -> None:
    for whole in (text, f"Do this:\n```\n{text}\n```\nand then stop."):
        assert redaction.redact(whole, ANSWER) == whole


HOSTILE = [
    *("a", "A", "0", "=", "-", "_", ".", "/", "+", ":", " ", "\n", "\\", '"', "'", "@", "[", "aB3", "aB3./"),
    *("eyJ", "eyJaaaa.", "sk-", "ghp_", "AKIA", "SK", "Q~", ":AA", "SG.", "pat", "xox", "-----BEGIN ", "://"),
    *("://a:", "https://", "token ", "token:'", "token=", "password=a ", "password:", "secret=\\", 'key="'),
    *("bearer ", "Bearer .", "authorization: basic ", "cookie:", "cookie: a=", "[REDACTED:", "[REDACTED:X]"),
    *("-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----\nMIIE", "X_TOKEN=[REDACTED:X]a,", "a@a."),
    *("ghp_abcdefghij0123456789 ", "4111 1111 1111 1112 ", "known-value", "known-", "api key :        "),
]
ORDINARY_TEXT = (
    "Ordinary words, a token: 15, the password of https://example.org/x1 and Bearer of 2026-01-31 keys. "
)


STREAM = "stream"
WAYS: dict[str, Policy] = {
    "log": LOG,
    "snapshot": SNAPSHOT,
    "memory": MEMORY,
    "answer": ANSWER,
    STREAM: ANSWER,
}


def _seconds(way: str, piece: str) -> float:
    text = piece * (20_000 // len(piece))
    began = time.process_time()
    if way == STREAM:
        redactor = redaction.StreamRedactor(["known-value-1"])
        for place in range(0, len(text), 1000):
            redactor.feed(text[place : place + 1000])
        redactor.flush()
    else:
        redaction.redact(text, WAYS[way], ["known-value-1"])
    return time.process_time() - began


@pytest.fixture(scope="module")
def ordinary_seconds() -> dict[str, float]:
    return {way: max(_seconds(way, ORDINARY_TEXT), 0.005) for way in WAYS}


@each_row("piece", HOSTILE)
@each_row("way", list(WAYS))
def test_hostile_text_costs_no_more_than_twenty_times_ordinary_text(
    piece: str, way: str, ordinary_seconds: dict[str, float]
) -> None:
    # A collection of garbage may fall into one try.
    assert any(_seconds(way, piece) < 20 * ordinary_seconds[way] for _ in range(3))
