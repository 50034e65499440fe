"""Which platform a command speaks to, and with which credential."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from molecule_platform.cli import hints, problems
from molecule_platform.settings import SETTINGS, parsers

TOKEN_FILE = "admin.token"  # noqa: S105 - the name of a file
_DEFAULTS = {setting.name: setting.default or "" for setting in SETTINGS}
_TOKEN_VARIABLES = ("MOLECULE_ADMIN_TOKEN", "ADMIN_TOKEN")


@dataclass(frozen=True)
class Target:
    """An address, a token (empty if there is none) with where it came from, the data directory, an org."""

    url: str
    token: str = field(repr=False)
    token_from: str
    data_dir: Path
    org: str = ""
    # The flags that named all this: the next command needs them too.
    flags: tuple[str, ...] = ()

    @property
    def is_local(self) -> bool:
        """Whether the platform runs on this machine, so that its data directory can be looked at."""
        host = self.url.partition("://")[2]
        return host.startswith(("127.", "localhost", "[::1]"))

    def command(self, words: str) -> str:
        """A command as it reaches this platform again."""
        return hints.command(words, self.flags)

    def start(self, words: str = "up") -> str:
        """The command that starts a platform here, where this one was looked for."""
        port = str(urlsplit(self.url).port or 80)
        flags = [hints.flag("--port", port)] if port != _DEFAULTS["PORT"] else []
        folder = [flag for flag in self.flags if flag.startswith("--data-dir ")]
        return hints.command(words, [*flags, *folder])


def resolve(
    url: str | None,
    token: str | None,
    data_dir: str | Path | None,
    environ: Mapping[str, str],
    org: str | None = None,
) -> Target:
    """Flag over environment over default. Raises a usage problem for what is malformed."""
    folder = data_folder(data_dir, environ)
    found, came_from = _token(token, folder, environ)
    named = _checked("--org", _org, org) if org else ""
    flags = _flags(url, token, data_dir, named)
    return Target(_address(url, environ), found, came_from, folder, named, flags)


def _flags(url: str | None, token: str | None, data_dir: str | Path | None, org: str) -> tuple[str, ...]:
    given = {"--url": url, "--data-dir": data_dir, "--org": org}
    flags = [hints.flag(name, value) for name, value in given.items() if value]
    return (*flags, "--token …") if token else tuple(flags)


def data_folder(given: str | Path | None, environ: Mapping[str, str]) -> Path:
    """The data directory that a flag, the environment or the default names."""
    text = str(given or "") or environ.get("MOLECULE_DATA_DIR", "") or _DEFAULTS["MOLECULE_DATA_DIR"]
    return Path(_checked("the data directory", parsers.folder, text))


def _address(given: str | None, environ: Mapping[str, str]) -> str:
    if given:
        return _checked("--url", parsers.base_url, given)
    if named := environ.get("MOLECULE_PLATFORM_URL"):
        return _checked("MOLECULE_PLATFORM_URL", parsers.base_url, named)
    port = environ.get("PORT") or _DEFAULTS["PORT"]
    return f"http://127.0.0.1:{_checked('PORT', parsers.whole(1, 65535), port)}"


def _token(given: str | None, folder: Path, environ: Mapping[str, str]) -> tuple[str, str]:
    if given:
        return _checked("--token", parsers.header_token, given), "--token"
    for name in _TOKEN_VARIABLES:
        if named := environ.get(name):
            return _checked(name, parsers.header_token, named), name
    path = folder / TOKEN_FILE
    try:
        text = path.read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return "", str(path)
    return (_checked(str(path), parsers.header_token, text) if text else ""), str(path)


def _org(given: str) -> str:
    if not re.fullmatch("[a-z0-9][a-z0-9-]{0,62}", given):
        raise ValueError("the id or slug of an organisation: small letters, digits and hyphens")
    return given


def _checked(name: str, parse: parsers.Parser, given: str) -> str:
    try:
        return str(parse(given.strip()))
    except ValueError as allowed:
        raise problems.usage(f"{name} must be {allowed}.") from None
