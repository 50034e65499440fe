"""What a log may not keep: values under names of secrets, and values that look like credentials.

Logs live longer and travel further than the mail they tell of, so whatever is copied into one passes here
first. Paths, UUIDs and hex digests are what logs are read for; they stay. Redacting twice changes nothing.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

from molecule_wire import jsontext

REDACTED = "[redacted]"
TOO_DEEP = "[nested too deeply]"
DEEPEST = 64
BODY_MOST_BYTES = 64 * 1024

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SECRET_WORDS = frozenset(
    (
        *("apikey", "authorization", "bearer", "cookie", "cookies", "credential", "credentials", "passcode"),
        *("passphrase", "passwd", "password", "passwords", "pwd", "secret", "secrets"),
    )
)
_SECRET_KEYS = frozenset(
    ("access", "api", "auth", "encryption", "master", "private", "secret", "service", "signing", "ssh")
)

# A credential begins where no path, word or number is under way.
_START = r"(?<![\w./+~-])"
_UUID = r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"
_KNOWN_THINGS = re.compile(rf"{_UUID}|[0-9a-f]{{32,}}|[0-9A-F]{{32,}}")
_NAME = r"(?:password|passwd|passphrase|secret|api[_-]?key|access[_-]?key|private[_-]?key|token)"
_NAME_WORDS = ("password", "passwd", "passphrase", "secret", "key", "token")
_GIVEN = r"[\"']?\s{0,8}"
_PASSES = 4

_KINDS = "|".join(
    (
        r"sk-(?=[\w-]*\d)[\w-]{20,}",
        r"[srp]k_(?:live|test)_\w{16,}",
        r"gh[pousr]_\w{30,}",
        r"github_pat_\w{30,}",
        r"glpat-[\w-]{20,}",
        r"xox[abeoprs]-[\w-]{10,}",
        r"(?:AKIA|ASIA)[0-9A-Z]{16}(?![0-9A-Za-z])",
        r"AIza[\w-]{35}",
        r"(?:hf|npm)_[A-Za-z0-9]{30,}",
        r"eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]*",
    )
)
_RANDOM_LENGTH = 43
_RANDOM = re.compile(rf"{_START}[\w-]{{{_RANDOM_LENGTH}}}(?:=(?![\w=]))?(?![\w./+~-])", re.ASCII)


def _alone(_found: re.Match[str]) -> str:
    return REDACTED


def _after_its_name(found: re.Match[str]) -> str:
    return found[1] + REDACTED


def _if_random(found: re.Match[str]) -> str:
    """Forty-three signs that are no sentence, id or digest: the length of 32 random bytes, as our tokens."""
    run = found[0]
    mixed = any(sign.islower() for sign in run) and any(sign.isupper() for sign in run)
    return REDACTED if mixed and not _KNOWN_THINGS.search(run) else run


@dataclass(frozen=True)
class _Rule:
    """What to look for, what to put there, and the words (in lower case) of which a text must have one."""

    pattern: re.Pattern[str]
    replaced: Callable[[re.Match[str]], str]
    words: tuple[str, ...]


_RULES = (
    _Rule(
        re.compile(
            r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)",
            re.DOTALL,
        ),
        _alone,
        ("private key",),
    ),
    _Rule(
        re.compile(rf"{_START}(?:{_KINDS})[\w+/=~-]*", re.ASCII),
        _alone,
        (
            *("sk-", "k_live_", "k_test_", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-"),
            *("xox", "akia", "asia", "aiza", "hf_", "npm_", "eyj"),
        ),
    ),
    _Rule(re.compile(r"(?<=://)[^\s/:@\[\]]*:[^\s/@\[\]]+(?=@)"), _alone, ("://",)),
    _Rule(
        re.compile(
            rf"(authorization{_GIVEN}[:=]\s{{0,8}}[\"']?(?:basic|bearer|digest|token)\s{{1,8}})[^\s\"',;\[]+",
            re.IGNORECASE,
        ),
        _after_its_name,
        ("authorization",),
    ),
    _Rule(
        re.compile(r"(\bbearer\s{1,8})(?=[^\s\[]{0,200}\d)[\w.~+/=-]{16,}", re.IGNORECASE),
        _after_its_name,
        ("bearer",),
    ),
    _Rule(
        re.compile(
            r"(\b(?:set-)?cookie:)(?! \[redacted\])[^\r\n=]{0,200}=[^\r\n]*",
            re.IGNORECASE,
        ),
        _after_its_name,
        ("cookie:",),
    ),
    _Rule(
        re.compile(rf"({_NAME}[\"']?=[\"']?)[^\s\"',;&\[]{{4,}}", re.IGNORECASE), _after_its_name, _NAME_WORDS
    ),
    _Rule(
        re.compile(
            rf"({_NAME}{_GIVEN}:\s{{0,8}}[\"']?)(?=[^\s\"',;&\[]{{0,200}}[\d!#$%*+^~])[^\s\"',;&\[]{{6,}}",
            re.IGNORECASE,
        ),
        _after_its_name,
        _NAME_WORDS,
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


def _passed_over(text: str) -> str:
    # Nearly every text has none of this, and looking for words costs a hundredth of matching patterns.
    lower = text.lower()
    for rule in _RULES:
        for word in rule.words:
            if word in lower:
                text = rule.pattern.sub(rule.replaced, text)
                break
    if max(map(len, text.split()), default=0) >= _RANDOM_LENGTH:
        text = _RANDOM.sub(_if_random, text)
    return text


def names_a_secret(name: str) -> bool:
    """Whether a member of that name holds a secret: `apiKey`, `X-Auth-Token`; not `max_tokens`."""
    words = [word.lower() for word in _WORD.findall(name)]
    if not _SECRET_WORDS.isdisjoint(words):
        return True
    if words and words[-1] == "token":
        return True
    return any(
        first in _SECRET_KEYS and second in ("key", "keys")
        for first, second in zip(words, words[1:], strict=False)
    )


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
    says_nothing = held is None or isinstance(held, bool | int | float)
    if not says_nothing and names_a_secret(name):
        return REDACTED
    return redacted(held, depth + 1)


def loggable(body: Any) -> Any:
    """What a log keeps of a body: all of it but its secrets, or how large it was when it is too large."""
    if body is None:
        return None
    size = len(jsontext.encode(body))
    if size > BODY_MOST_BYTES:
        return {"note": f"the body is not kept: it has {size} bytes, a log keeps {BODY_MOST_BYTES}"}
    return redacted(body)
