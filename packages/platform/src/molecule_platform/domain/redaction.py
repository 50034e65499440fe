"""What a log may not keep: values under names of secrets, and values that look like credentials.

Logs live longer and travel further than the mail they tell of, so whatever is copied into one passes here
first. In the place of a secret stays what it was: `[REDACTED:TOKEN]`. Paths, UUIDs and hex digests are what
logs are read for; they stay. Redacting twice changes nothing.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from molecule_platform.domain.randomness import SHORTEST, is_path, is_random
from molecule_wire import jsontext

TOO_DEEP = "[nested too deeply]"
DEEPEST = 64
BODY_MOST_BYTES = 64 * 1024
LARGEST_SECRET = 600
ERROR_LONGEST = 4000

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_PASSWORDS = ("passcode", "passphrase", "passwd", "password", "pwd")
_LABELS = {
    **dict.fromkeys(("apikey", "apikeys"), "API_KEY"),
    **dict.fromkeys(("privatekey", "privatekeys", "sshkey", "sshkeys"), "PRIVATE_KEY"),
    **dict.fromkeys((*_PASSWORDS, "passwords"), "PASSWORD"),
    **dict.fromkeys(("cookie", "cookies"), "COOKIE"),
    **dict.fromkeys(("secret", "secrets", "credential", "credentials"), "SECRET"),
    "authorization": "AUTHORIZATION",
    "bearer": "BEARER_TOKEN",
    "token": "TOKEN",
}
_SECRET_KEYS = (
    "access",
    "api",
    "auth",
    "encryption",
    "master",
    "private",
    "secret",
    "service",
    "signing",
    "ssh",
)

_MARKER = r"\[REDACTED:[A-Z0-9_]{1,40}\]"
_UNTOUCHED = rf"(?!{_MARKER}(?!\w))"
# A credential begins where no path, word or number is under way, or after a line break written as `\n`.
_START = r"(?:(?<![\w./+~-])|(?<=\\n))"
_NAME = (
    r"(?P<name>passw(?:or)?d|passphrase|passcode|pwd|secret|credentials?|token|authorization"
    rf"|(?:{'|'.join(_SECRET_KEYS)})[_ -]?keys?)"
)
_NAME_WORDS = (
    "passw",
    "passphrase",
    "passcode",
    "pwd",
    "secret",
    "credential",
    "token",
    "authorization",
    "key",
)
_QUOTE = r"\\{0,3}[\"']"
_GIVEN = rf"(?:{_QUOTE})?\s{{0,8}}[:=]\s{{0,8}}"
_SIGN = r"(?:[^\s\"',;&\\]|\\(?![\"']))"
_QUOTED = (
    rf"{_GIVEN}(?P<quote>{_QUOTE})(?!{_MARKER}(?P=quote))"
    r"(?P<quoted>(?:(?!(?P=quote))(?:\\[^\r\n]|[^\\\r\n]))+)"
)
_ASSIGNED = rf"(?:{_QUOTE})?={_UNTOUCHED}(?P<assigned>{_SIGN}++)"
# Here the value has to look like one: "the secret: patience", "private key: ~/.ssh/id_ed25519".
_TOLD = (
    rf"{_GIVEN}(?!/|~/|\.{{1,2}}/|[a-z]:\\){_UNTOUCHED}"
    rf"(?=[^\s\"',;&]{{0,200}}[\d!#$%*+^~])(?P<told>{_SIGN}{{6,}}+)"
)
_PASSES = 4

_KINDS = "|".join(
    rf"(?P<{label}>{pattern})"
    for label, pattern in (
        ("SK_TOKEN", r"sk-[\w-]{16,}"),
        ("STRIPE_KEY", r"[srp]k_(?:live|test)_\w{16,}"),
        ("GITHUB_PAT", r"ghp_\w{8,}"),
        ("GITHUB_SERVER_TOKEN", r"ghs_\w{8,}"),
        ("GITHUB_TOKEN", r"gh[our]_\w{16,}"),
        ("GITHUB_PAT_V2", r"github_pat_\w{8,}"),
        ("GITLAB_TOKEN", r"glpat-[\w-]{16,}"),
        ("AWS_ACCESS_KEY", r"A[KS]IA[0-9A-Z]{16,}"),
        ("CF_TOKEN", r"cfut_\w{32,}"),
        ("MOL_PK", r"mol_pk_\w{8,}"),
        ("CTX7_TOKEN", r"ctx7_\w{8,}"),
        ("SLACK_TOKEN", r"xox[a-z]-[\w-]{8,}"),
        ("GOOGLE_API_KEY", r"AIza[\w-]{35,}"),
        ("HF_TOKEN", r"hf_[A-Za-z0-9]{30,}"),
        ("NPM_TOKEN", r"npm_[A-Za-z0-9]{30,}"),
        ("JWT", r"eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*"),
    )
)
_RUN = re.compile(
    rf"(?:(?<![\w./+~\\-])|(?<=\\n))[\w./+~-]{{{SHORTEST},}}(?:={{1,2}}(?![\w=]))?",
    re.ASCII,
)


def marker(label: str) -> str:
    """What stays in the place of a secret."""
    return f"[REDACTED:{label}]"


def _alone(label: str) -> Callable[[re.Match[str]], str]:
    return lambda _found: marker(label)


def _after_its_name(label: str) -> Callable[[re.Match[str]], str]:
    return lambda found: found[1] + marker(label)


def _by_its_kind(found: re.Match[str]) -> str:
    return marker(found.lastgroup or "SECRET")


def _by_its_scheme(found: re.Match[str]) -> str:
    return found[1] + marker("BEARER_TOKEN" if found[2].lower() == "bearer" else "AUTHORIZATION")


def _by_its_name(found: re.Match[str]) -> str:
    name = "".join(filter(str.isalpha, found["name"].lower()))
    value = found[found.lastgroup or 0]
    if name == "pwd" and is_path(value):
        return found[0]
    return found[0].removesuffix(value) + marker(_LABELS.get(name, "SECRET"))


def _if_random(found: re.Match[str]) -> str:
    run = found[0].rstrip(".")
    return marker("BASE64_BLOB") + found[0][len(run) :] if is_random(run) else found[0]


@dataclass(frozen=True)
class _Rule:
    """What to look for, what to put there, and the words (in lower case) of which a text must have one."""

    pattern: re.Pattern[str]
    replaced: Callable[[re.Match[str]], str]
    words: tuple[str, ...]


# What swallows the beginning of another secret comes after the rule for that one.
_RULES = (
    _Rule(
        re.compile(
            r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----.*?"
            r"(?:-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|\Z)",
            re.DOTALL,
        ),
        _alone("PRIVATE_KEY"),
        ("private key",),
    ),
    _Rule(
        re.compile(rf"(?<=://)(?!{_MARKER}@)[^\s/\"'<>`\\]+(?=@)"),
        _alone("DSN_PASSWORD"),
        ("://",),
    ),
    _Rule(
        re.compile(
            rf"(authorization{_GIVEN}(?:{_QUOTE})?(basic|bearer|digest|negotiate|token)\s{{1,8}})"
            rf"{_UNTOUCHED}{_SIGN}+",
            re.IGNORECASE,
        ),
        _by_its_scheme,
        ("authorization",),
    ),
    _Rule(  # not of a word after it: "a bearer token", "the bearer of news"
        re.compile(r"(\b(?i:bearer)\s{1,8})(?=[a-z]{16}|[a-z]*+(?:[A-Z\d_~+/=-]|\.\w))[\w.~+/=-]+"),
        _after_its_name("BEARER_TOKEN"),
        ("bearer",),
    ),
    _Rule(
        re.compile(rf"(\b(?:set-)?cookie:)(?! ?{_MARKER})[^\r\n=]{{0,200}}=[^\r\n]*", re.IGNORECASE),
        _after_its_name("COOKIE"),
        ("cookie:",),
    ),
    _Rule(re.compile(rf"{_NAME}(?:{_QUOTED}|{_ASSIGNED}|{_TOLD})", re.IGNORECASE), _by_its_name, _NAME_WORDS),
    _Rule(
        re.compile(rf"{_START}(?:{_KINDS})[\w+/=~-]*", re.ASCII),
        _by_its_kind,
        (
            *("sk-", "k_live_", "k_test_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-"),
            *("xox", "akia", "asia", "aiza", "hf_", "npm_", "eyj", "cfut_", "mol_pk_", "ctx7_"),
        ),
    ),
)


def redacted_text(text: str) -> str:
    """The text without what looks like a credential."""
    if not text:
        return text
    for _ in range(_PASSES):
        before = text
        text = _passed_over(text)
        if text == before:
            break
    return text


def redacted_beginning(text: str, longest: int) -> str:
    """The first words, with no secret among them and no half of one at the end; the rest costs nothing."""
    return redacted_text(text[: longest + LARGEST_SECRET])[:longest]


def _passed_over(text: str) -> str:
    # Nearly every text has none of this, and looking for words costs a hundredth of matching patterns.
    lower = text.lower()
    for rule in _RULES:
        for word in rule.words:
            if word in lower:
                text = rule.pattern.sub(rule.replaced, text)
                break
    if max(map(len, text.split()), default=0) >= SHORTEST:
        text = _RUN.sub(_if_random, text)
    return text


def label_of(name: str) -> str | None:
    """Which kind of secret a member of that name holds: `apiKey`, `X-Auth-Token`; none for `max_tokens`."""
    words = [word.lower() for word in _WORD.findall(name)]
    for first, second in zip(words, words[1:], strict=False):
        if first in _SECRET_KEYS and second in ("key", "keys"):
            return _LABELS.get(first + second, "SECRET")
    for word in words:
        if word in _LABELS and (word != "token" or words[-1] == "token"):
            return _LABELS[word]
    return None


def redacted(value: Any, depth: int = 0) -> Any:
    """A JSON value without secrets, at any depth."""
    if isinstance(value, str):
        return redacted_text(value)
    if not isinstance(value, dict | list):
        return value
    if depth == DEEPEST:
        return TOO_DEEP
    if isinstance(value, list):
        return [redacted(item, depth + 1) for item in cast("list[Any]", value)]
    members = cast("dict[str, Any]", value)
    return {redacted_text(name): _member(name, held, depth) for name, held in members.items()}


def _member(name: str, held: Any, depth: int) -> Any:
    label = label_of(name)
    if label is None or _says_nothing(name, held):
        return redacted(held, depth + 1)
    return marker(label)


def _says_nothing(name: str, held: Any) -> bool:
    """Whether and how many may be known, and so may the working directory, the `PWD` of shells."""
    if isinstance(held, str):
        return name.lower() == "pwd" and is_path(held)
    if held is None or isinstance(held, bool):
        return True
    return isinstance(held, int | float) and not name.lower().endswith(_PASSWORDS)


def loggable(body: Any) -> Any:
    """What a log keeps of a body: all of it but its secrets, or how large it was when it is too large."""
    if body is None:
        return None
    size = len(jsontext.encode(body))
    if size > BODY_MOST_BYTES:
        return {"note": f"the body is not kept: it has {size} bytes, a log keeps {BODY_MOST_BYTES}"}
    return redacted(body)
