"""Which dialect a request speaks, from the version it names and the method it calls."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias, cast

from molecule_wire.a2a import errors
from molecule_wire.a2a.operations import Dialect

SUPPORTED: tuple[Dialect, ...] = ("1.0", "0.3")

Verdict: TypeAlias = Dialect | Literal["method not found", "version not named"]

_VERSION = re.compile(r"(\d+\.\d+)(\.\d+)?", re.ASCII)


class VersionPolicy(NamedTuple):
    """What a strict door (the standard one, an agent's own) and the lenient platform path decide."""

    strict: Verdict
    lenient: Verdict


RULES: Mapping[tuple[str, Dialect], VersionPolicy] = MappingProxyType(
    {
        ("1.0", "1.0"): VersionPolicy("1.0", "1.0"),
        ("1.0", "0.3"): VersionPolicy("method not found", "method not found"),
        ("", "0.3"): VersionPolicy("0.3", "0.3"),
        ("", "1.0"): VersionPolicy("version not named", "1.0"),
        ("0.3", "1.0"): VersionPolicy("method not found", "method not found"),
        ("0.3", "0.3"): VersionPolicy("0.3", "0.3"),
    }
)
"""(version named, dialect of the method) → verdict."""


def named(header: str | None, query: str | None) -> str:
    """The version a request names: its `A2A-Version` header, else the query of that name, else empty."""
    return (header or "").strip() or (query or "").strip()


def supported(version: str | None) -> Dialect | Literal[""]:
    """Major.Minor of a version, empty for none; any that is not spoken raises VersionNotSupported."""
    version = (version or "").strip()
    if not version:
        return ""
    match = _VERSION.fullmatch(version)
    if match is None or match[1] not in SUPPORTED:
        kind = errors.VERSION_NOT_SUPPORTED
        raise errors.protocol_error(kind, f"A2A version {version[:32]!r} is not supported: send 1.0 or 0.3")
    return cast("Dialect", match[1])


def negotiate(version: str | None, belongs_to: Dialect | None, *, lenient: bool) -> Dialect:
    """Choose the dialect; `belongs_to` is the dialect of the method, None for a method nobody knows."""
    spoken = version if version in SUPPORTED else supported(version)
    if belongs_to is None:
        return spoken or "0.3"
    rule = RULES[spoken, belongs_to]
    verdict = rule.lenient if lenient else rule.strict
    if verdict == "method not found":
        sentence = f"The method belongs to A2A {belongs_to}, the request names A2A-Version {spoken}"
        raise errors.protocol_error(errors.METHOD_NOT_FOUND, sentence)
    if verdict == "version not named":
        sentence = "The method belongs to A2A 1.0: send the header A2A-Version: 1.0"
        raise errors.protocol_error(errors.VERSION_NOT_SUPPORTED, sentence)
    return verdict
