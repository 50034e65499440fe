"""Which platform a command speaks to, and with which credential."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from molecule_platform.cli import problems
from molecule_platform.settings import SETTINGS, parsers

TOKEN_FILE = "admin.token"  # noqa: S105 - the name of a file
_DEFAULTS = {setting.name: setting.default or "" for setting in SETTINGS}
_TOKEN_VARIABLES = ("MOLECULE_ADMIN_TOKEN", "ADMIN_TOKEN")


@dataclass(frozen=True)
class Target:
    """An address, a token (empty if there is none) with where it came from, and the data directory."""

    url: str
    token: str = field(repr=False)
    token_from: str
    data_dir: Path

    @property
    def is_local(self) -> bool:
        """Whether the platform runs on this machine, so that its data directory can be looked at."""
        host = self.url.partition("://")[2]
        return host.startswith(("127.", "localhost", "[::1]"))


def resolve(
    url: str | None, token: str | None, data_dir: str | Path | None, environ: Mapping[str, str]
) -> Target:
    """Flag over environment over default. Raises a usage problem for what is malformed."""
    folder = data_folder(data_dir, environ)
    found, came_from = _token(token, folder, environ)
    return Target(_address(url, environ), found, came_from, folder)


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


def _checked(name: str, parse: parsers.Parser, given: str) -> str:
    try:
        return str(parse(given.strip()))
    except ValueError as allowed:
        raise problems.usage(f"{name} must be {allowed}.") from None
