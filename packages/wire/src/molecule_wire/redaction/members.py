"""Secrets in JSON values: what stands under the name of a secret is one, whatever it looks like."""

import re

from molecule_wire.redaction.entropy import is_path

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
_KEYS = frozenset(
    (
        *("access", "account", "api", "auth", "encryption", "master", "private", "secret", "service"),
        *("signing", "ssh"),
    )
)
_ENDINGS = (("apikey", "API_KEY"), ("token", "TOKEN"), ("secret", "SECRET"), ("password", "PASSWORD"))
_IDENTIFIER = re.compile(r"(?:\A|[_-])ids?\Z|Id\Z")


def label_of_name(name: str) -> str | None:
    """Return the kind of secret under a name: `apiKey`, `X-Auth-Token`; None for `max_tokens`."""
    words = [word.lower() for word in _WORD.findall(name)]
    for first, second in zip(words, words[1:], strict=False):
        if first in _KEYS and second in ("key", "keys"):
            return _LABELS.get(first + second, "SECRET")
    for word in words:
        if word in _LABELS and (word != "token" or words[-1] == "token"):
            return _LABELS[word]
    last = words[-1] if words else ""
    return next((label for ending, label in _ENDINGS if last.endswith(ending)), None)


def is_identifier(name: str) -> bool:
    """Return True for a name like `session_id`, `threadId`."""
    return _IDENTIFIER.search(name) is not None


def discloses(name: str, value: object) -> bool:
    """Return True if a value under the name of a secret discloses it.

    Flags, counts and empty texts do not, nor does the working directory, the `PWD` of shells.
    """
    if isinstance(value, str):
        return bool(value) and not (name.lower() == "pwd" and is_path(value))
    if value is None or isinstance(value, bool):
        return False
    return not isinstance(value, int | float) or name.lower().endswith(_PASSWORDS)
