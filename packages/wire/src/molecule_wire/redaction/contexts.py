"""Rules for credentials that are known by their context: key blocks, URLs, headers, assigned names.

Three forms of a context exist where the places differ. The plain form is for logs and snapshots, which lose
too much rather than too little. `STREAMED_…` is for answers, where code and prose must stay, and decides from
`WINDOW` characters. `SCANNED_…` is for manifests.
"""

import re

from molecule_wire.redaction.entropy import is_path, is_random_value
from molecule_wire.redaction.rules import DOTTED, JOINED, MARKER_TEXT, Rule
from molecule_wire.redaction.tokens import AFTER_ESCAPE

# Private keys.
_BLOCK = r"[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
_BLOCK_BEGIN = rf"-----BEGIN {_BLOCK}"
PRIVATE_KEY = Rule(
    "PRIVATE_KEY",
    "private key block",
    rf"{_BLOCK_BEGIN}.*?(?:-----END {_BLOCK}|\Z)",
    re.DOTALL,
    words=("PRIVATE KEY",),
)
# In an answer a key that has no end must not take the rest of the answer with it.
STREAMED_PRIVATE_KEY = Rule(
    "PRIVATE_KEY",
    "private key block",
    rf"{_BLOCK_BEGIN}(?:\s|\\[nr]){{0,8}}[\w+/-]{{4}}",
    re.ASCII,
    words=("PRIVATE KEY",),
    end=re.compile(rf"-----END {_BLOCK}|(?=[^\w+/=\s\\:,-])", re.ASCII),
)
PRIVATE_KEY_BEGIN = Rule(
    "PRIVATE_KEY", "private key block", "-----BEGIN [A-Z ]{0,40}PRIVATE KEY", words=("PRIVATE KEY",)
)

# Passwords in URLs. Logs lose the user as well, which may be a token.
USER_INFO = Rule(
    "DSN_PASSWORD",
    "URL with credentials",
    rf"://(?!{MARKER_TEXT}@)([^\s/\"'<>`\\]+)(?=@)",
    words=("@",),
)
URL_PASSWORD = Rule(
    "DSN_PASSWORD",
    "URL with credentials",
    rf"://(?:{MARKER_TEXT}|[^\s/:@\"'<>`\\\[])*+:([^\s/\"'<>`\\]+)(?=@)",
    words=("@",),
)
_PLACEHOLDER = re.compile(
    r"[$<{%*\[].*|x+|(?:my|your|the|db|some)?[_-]?(?:password|passwd|pass|pwd|pw|secret|token|key)"
    r"|user(?:name)?|postgres|root|admin|guest|example|change[_-]?me|redacted",
    re.IGNORECASE | re.DOTALL,
)


def is_no_placeholder(value: str) -> bool:
    """Return True unless the value is a placeholder: `${PASSWORD}`, `<token>`, `changeme`."""
    return _PLACEHOLDER.fullmatch(value) is None


STREAMED_URL_PASSWORD = Rule(
    "DSN_PASSWORD",
    "URL with credentials",
    r"://[^\s/:@\"'<>`\\\[]{0,40}:([^\s/\"'<>`\\]{1,80})(?=@)",
    words=("@",),
    is_secret=is_no_placeholder,
)
SCANNED_URL = Rule(
    "DSN_PASSWORD",
    "URL with credentials",
    r"(?<=://)[^\s/:@]{1,256}:[^\s/@]{1,256}(?=@)",
    words=("@",),
)

# Headers.
_QUOTE = r"\\{0,3}[\"']"
_GIVEN = r"[ \t]{0,8}[:=][ \t]{0,8}"
_START = rf"(?:\b|{AFTER_ESCAPE})"
_BEARER_PROSE = (
    r"tokens?|auth|authentication|authorization|schemes?|headers?|credentials?|of|is|and|or|the|with"
)
AUTHORIZATION = Rule(
    "AUTHORIZATION",
    "authorization header",
    rf"{_START}authorization(?:{_QUOTE})?{_GIVEN}(?:{_QUOTE})?(?:basic|digest|negotiate|token)\s{{1,8}}"
    r"([\w.~+/=:-]+)",
    re.ASCII | re.IGNORECASE,
    lower_words=("authorization",),
)
# In small letters the value has to look like one: "the bearer shall present it".
BEARER = Rule(
    "BEARER_TOKEN",
    "bearer token",
    rf"{_START}(?:(?:Bearer|BEARER|(?i:authorization\W{{1,8}}bearer))\s{{1,8}}"
    rf"(?!(?i:{_BEARER_PROSE})(?![\w.~+/=-]))"
    r"|bearer\s{1,8}(?=[a-z]{16}|[a-z]*+(?:[A-Z\d_~+/=]|\.\w|-[a-z]*+[A-Z\d_])))"
    r"([\w.~+/=-]*[\w~+/=-])",
    re.ASCII,
    lower_words=("bearer",),
)
STREAMED_BEARER = Rule(
    "BEARER_TOKEN",
    "bearer token",
    rf"{_START}bearer[ \t]{{1,8}}([\w.~+/=-]{{16,64}})",
    re.ASCII | re.IGNORECASE,
    lower_words=("bearer",),
    rest=DOTTED,
    is_secret=is_random_value,
)
STREAMED_BASIC = Rule(
    "AUTHORIZATION",
    "authorization header",
    rf"{_START}authorization(?:{_QUOTE})?{_GIVEN}(?:{_QUOTE})?(?:basic|token)[ \t]{{1,8}}"
    r"([\w.~+/=:-]{8,64})",
    re.ASCII | re.IGNORECASE,
    lower_words=("authorization",),
    rest=JOINED,
)
SCANNED_BEARER = Rule(
    "BEARER_TOKEN",
    "bearer token",
    r"['\"]bearer\s{1,64}[^\s'\"]{8,}['\"]|\bbearer\s{1,64}[\w.~+/=-]{16,}",
    re.ASCII | re.IGNORECASE,
    lower_words=("bearer",),
)
COOKIE = Rule(
    "COOKIE",
    "cookie",
    rf"\b(?:set-)?cookie:(?! ?{MARKER_TEXT})([^\r\n=]{{0,200}}=[^\r\n]*)",
    re.IGNORECASE,
    lower_words=("cookie:",),
)
SAS_SIGNATURE = Rule(
    "SAS_SIGNATURE",
    "Azure SAS signature",
    r"(?<=[?&])sig=([A-Za-z0-9%+/]{40,90})",
    re.ASCII,
    words=("sig=",),
    rest=JOINED,
)

# Assignments: `X_TOKEN=value`, `x_token: "value"`, also with the quotes of JSON in a JSON string. They are
# searched in lower case, each name by a literal at the start of its pattern.
_BACKSLASH = r"\\(?![bfnrtu\"'\\/])"
_SIGN = rf"(?:[^\s\"'`,;&<>@)}}\\]|{_BACKSLASH})"
_PASSWORD_SIGN = rf"(?:[^\s\"'`;&\\]|{_BACKSLASH})"
_NOT_NOTHING = r"(?!(?:null|none|true|false)\b)(?!-----begin )"
# After a colon or spaces a value has to look like one: "the secret: patience", "token: 1500".
_TOLD = rf"(?!~?\.{{0,2}}/|[a-z]:\\|\d{{1,9}}\b)(?=[^\s\"',;&]{{0,64}}[\d!#$%*+^~])({_SIGN}{{6,}}+)"
_TOLD_PASSWORD = rf"({_PASSWORD_SIGN}{{4,}}+)"

_TITLE = "password/api_key/secret assignment"


def _key(*names: str) -> str:
    joined = "|".join(rf"(?<={name}[_ -]key)|(?<={name}key)" for name in names)
    return rf"key(?:{joined})s?"


_API_KEY = _key("api")
_PRIVATE = _key("private", "ssh") + "(?!=~?/)"
_OTHER_KEY = _key("access", "account", "auth", "encryption", "master", "service", "signing") + "(?!=~?/)"
# `PWD` of a shell is a path, and `/etc/passwd` a file.
_PWD = rf"pwd(?!(?:{_QUOTE})?[:=]\s?(?:{_QUOTE})?(?:/|~|\.|[a-z]:\\))"


def _assigned(label: str, name: str, *, sign: str = _SIGN, told: str = _TOLD) -> Rule:
    quoted = (
        rf"{_GIVEN}(?P<quote>{_QUOTE})(?![\s,)\]}}:]|-----begin )"
        r"((?:(?!(?P=quote))(?:\\[^\r\n]|[^\\\r\n]))++)"
    )
    direct = rf"={_NOT_NOTHING}((?:(?:bearer|basic)\s{{1,8}})?{sign}++)"
    spaced = rf"{_GIVEN}{_NOT_NOTHING}{told}"
    pattern = rf"{name}(?:{_QUOTE})?(?:{quoted}|{direct}|{spaced})"
    return Rule(label, _TITLE, pattern, lower_words=(_word(name),), in_lower=True)


def _word(name: str) -> str:
    return name.partition("(")[0]


PASSWORDS = tuple(
    _assigned("PASSWORD", name, sign=_PASSWORD_SIGN, told=_TOLD_PASSWORD)
    for name in ("password", "passwd(?<![/.]passwd)", "passphrase", "passcode", _PWD)
)
ASSIGNMENTS = (
    _assigned("API_KEY", _API_KEY),
    _assigned("TOKEN", "token"),
    _assigned("SECRET", "secret(?:[_-]?(?:access[_-]?)?key)?"),
    _assigned("SECRET", "credential(?:s|)"),
    _assigned("SECRET", _OTHER_KEY),
    _assigned("PRIVATE_KEY", _PRIVATE),
    _assigned("AUTHORIZATION", "authorization"),
    *PASSWORDS,
)

# In answers and memories code and prose must stay: `token = read_token(path)`, "password: required".
STREAMED_ASSIGNMENTS = tuple(
    Rule(
        label,
        _TITLE,
        rf"{name}(?:{_QUOTE})?{_GIVEN}(?:{_QUOTE})?([\w+/=.~-]{{16,64}}+)(?![(\[])",
        re.ASCII,
        lower_words=(_word(name),),
        in_lower=True,
        rest=JOINED,
        is_secret=is_random_value,
    )
    for label, name in (
        ("API_KEY", _API_KEY),
        ("TOKEN", "token"),
        ("SECRET", "secret(?:[_-]?(?:access[_-]?)?key)?"),
        ("SECRET", _key("access", "account", "auth")),
    )
)
_CODE = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+|[A-Za-z]+|0x[0-9a-fA-F]+|\d{1,5}", re.ASCII)


def is_password(value: str) -> bool:
    """Return True if an assigned value looks like a password and not like code, a word or a placeholder."""
    return is_no_placeholder(value) and _CODE.fullmatch(value) is None and not is_path(value)


STREAMED_PASSWORDS = tuple(
    Rule(
        "PASSWORD",
        _TITLE,
        rf"{name}(?:{_QUOTE})?{_GIVEN}(?:{_QUOTE})?"
        r"(?=[^\s\"'`;&\\]{0,40}[\d!#%^*+~])([^\s\"'`,;&\\(){}\[\]<>$]{6,64}+)(?![(\[{<$])",
        lower_words=(_word(name),),
        in_lower=True,
        rest=re.compile(r"[^\s\"'`,;&\\(){}\[\]<>$]*"),
        is_secret=is_password,
    )
    for name in ("password", "passwd(?<![/.]passwd)", "passphrase", "pwd")
)
MEMORY_ASSIGNMENTS = tuple(
    Rule(
        "SECRET",
        _TITLE,
        rf"{name}(?:{_QUOTE})?{_GIVEN}(?:{_QUOTE})?([\w+/=.~-]{{40,}}+)",
        re.ASCII,
        lower_words=(name,),
        in_lower=True,
    )
    for name in ("key", "token", "secret", "password")
)
SCANNED_ASSIGNMENTS = tuple(
    Rule(
        "PASSWORD",
        _TITLE,
        rf"{name}(?<!\w{name})\b['\"]?\s{{0,64}}[:=]\s{{0,64}}['\"]?[^\s'\"$<{{]{{6,}}",
        lower_words=(name,),
        in_lower=True,
    )
    for name in ("password", "passwd", "apikey", "api_key", "api-key", "secret")
)
