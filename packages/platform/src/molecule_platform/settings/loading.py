"""Reading the settings: flag over environment over molecule.toml over default."""

import dataclasses
import fnmatch
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import Any

from molecule_platform.settings import parsers, table
from molecule_platform.settings.setting import Setting
from molecule_wire.jsonlimits import JSONLimits

FILE_NAME = "molecule.toml"
_DATA_DIR = "MOLECULE_DATA_DIR"


@dataclass(frozen=True)
class Settings:
    """What the composition root passes on, as plain values. Secrets do not show in its text form."""

    port: int
    bind_host: str
    data_dir: Path
    database_url: str | None = field(repr=False)
    nats_url: str | None = field(repr=False)
    platform_url: str | None
    external_platform_url: str | None
    admin_token: str | None = field(repr=False)
    environment: str
    org_slug: str
    deploy_mode: str
    claim_on_register: bool
    strict_register: bool
    open_enrolment: bool
    claim_window_seconds: int
    cors_origins: frozenset[str] | None
    allowed_hosts: tuple[str, ...] | None
    trusted_proxies: tuple[IPv4Network | IPv6Network, ...] | None
    rate_limit: int
    rate_limit_anon: int
    max_body_bytes: int
    a2a_max_body_bytes: int
    a2a_max_response_bytes: int
    json_max_values: int
    json_max_depth: int
    message_max_parts: int
    work_max_bytes: int
    principal_work_max_bytes: int
    max_connections: int
    max_open_requests: int
    max_agent_streams: int
    allow_private_urls: tuple[str, ...]
    card_jku_hosts: frozenset[str] | None
    push_allow_private: bool
    a2a_idle_timeout_seconds: int
    a2a_max_run_seconds: int
    a2a_hold_seconds: float
    a2a_blocking_max_seconds: float
    message_ttl_seconds: int
    mailbox_max_open: int
    mailbox_sender_percent: int
    mailbox_max_bytes: int
    org_max_bytes: int
    message_max_attempts: int
    message_max_releases: int
    max_delegation_depth: int
    max_calls_per_root: int
    remote_liveness_stale_after: int
    provision_timeout_seconds: int
    hibernation_idle_minutes: int
    provisioner: str | None
    workspace_roots: tuple[str, ...] | None
    activity_retention_days: int
    activity_cleanup_interval_hours: int
    event_retention_days: int
    task_retention_days: int
    interrupted_task_hours: int
    task_event_retention_hours: int
    delegation_retention_days: int
    plugins_dir: Path | None
    plugin_unpinned_policy: str | None
    plugin_allow_unpinned: bool | None
    plugin_signatures: str
    github_token: str | None = field(repr=False)
    github_api_url: str
    plugin_install_body_max_bytes: int
    plugin_install_fetch_timeout: float
    plugin_install_max_dir_bytes: int
    secrets_encryption_key: str | None = field(repr=False)

    @property
    def json_limits(self) -> JSONLimits:
        """How much one JSON text may hold, whoever sends it."""
        return JSONLimits(self.json_max_values, self.json_max_depth, self.message_max_parts)

    @property
    def unpinned_policy(self) -> str:
        """What a plugin source without a commit stands for; the older setting counts without the newer."""
        if self.plugin_unpinned_policy is not None:
            return self.plugin_unpinned_policy
        return {None: "lock", True: "float", False: "deny"}[self.plugin_allow_unpinned]


def load(
    flags: Mapping[str, object],
    environ: Mapping[str, str],
    toml: Mapping[str, object] | Path | None = None,
) -> tuple[Settings, list[str]]:
    """The settings and what the operator should be told about them.

    All three sources use the names of the table; a value that is None or empty counts as not given. Without
    `toml` the file molecule.toml in the data directory is read, if there is one. Raises `SettingProblem`.
    """
    file = _file_values(toml, flags, environ)
    for name, reason in table.REFUSED.items():
        if environ.get(name) or file.get(name):
            raise parsers.SettingProblem(f"{name} is set: {reason}.")
    sources = (("", flags), ("", environ), (f" in {FILE_NAME}", file))
    values = {setting.attribute: _value_of(setting, sources) for setting in table.SETTINGS}
    if values["allow_private_urls"] is None:
        # A platform that other machines reach lets none of them call this one by the address of an agent.
        is_reached = values["external_platform_url"] or values["trusted_proxies"]
        is_local = parsers.is_loopback(values["bind_host"]) and not is_reached
        values["allow_private_urls"] = ("loopback",) if is_local else ()
    settings = Settings(**values)
    warnings = [*_unknown_names(environ, file), *_notices(settings)]
    if settings.deploy_mode == "saas":
        settings = dataclasses.replace(settings, allow_private_urls=())
    return settings, warnings


def _value_of(setting: Setting, sources: tuple[tuple[str, Mapping[str, object]], ...]) -> Any:
    for where, source in sources:
        given = _as_text(setting.name, where, source.get(setting.name))
        if given:
            return _parsed(setting, where, given)
    return None if setting.default is None else setting.parse(setting.default)


def _as_text(name: str, where: str, value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case str() | int() | float() | Path():
            return str(value).strip()
        case _:
            raise parsers.SettingProblem(f"{name}{where} must be a text, a number or true or false.")


def _parsed(setting: Setting, where: str, given: str) -> object:
    try:
        return setting.parse(given)
    except ValueError as allowed:
        shown = "" if setting.secret or "@" in given else f", not {given[:80]!r}"
        raise parsers.SettingProblem(f"{setting.name}{where} must be {allowed}{shown}.") from None


def _file_values(
    toml: Mapping[str, object] | Path | None, flags: Mapping[str, object], environ: Mapping[str, str]
) -> Mapping[str, object]:
    place = _data_dir(flags, environ) / FILE_NAME if toml is None else toml
    values = _read_file(place) if isinstance(place, Path) else place
    if values.get(_DATA_DIR):
        raise parsers.SettingProblem(
            f"{_DATA_DIR} cannot stand in {FILE_NAME}, which lies in that folder: use the environment."
        )
    return values


def _data_dir(flags: Mapping[str, object], environ: Mapping[str, str]) -> Path:
    setting = next(setting for setting in table.SETTINGS if setting.name == _DATA_DIR)
    return _value_of(setting, (("", flags), ("", environ)))


def _read_file(path: Path) -> Mapping[str, object]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as problem:
        raise parsers.SettingProblem(f"{path} cannot be read: {problem.strerror}.") from problem
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise parsers.SettingProblem(f"{path} is not TOML: write one NAME = value on each line.") from problem


def _unknown_names(environ: Mapping[str, str], file: Mapping[str, object]) -> Iterator[str]:
    for name in sorted({*environ, *file}):
        where = "" if name in environ else f" in {FILE_NAME}"
        if name in table.IGNORED:
            yield f"{name}{where} is ignored: nothing here uses it."
        elif (name.startswith("MOLECULE_") or where) and not _is_known(name):
            yield f"{name}{where} is not a setting: check its spelling."


def _is_known(name: str) -> bool:
    own = any(setting.name == name for setting in table.SETTINGS)
    return own or any(fnmatch.fnmatchcase(name, pattern) for pattern in table.KNOWN_ELSEWHERE)


def _notices(settings: Settings) -> Iterator[str]:
    on_postgres = (settings.database_url or "").startswith("postgresql://")
    if on_postgres and settings.nats_url is None:
        yield "PostgreSQL without NATS_URL: run exactly one replica, or set NATS_URL."
    if settings.deploy_mode == "saas" and settings.allow_private_urls not in ((), ("loopback",)):
        yield "MOLECULE_ALLOW_PRIVATE_URLS is ignored: in saas mode no private address is called."
    if settings.provisioner in ("process", "docker"):
        yield (
            f"MOLECULE_PROVISIONER={settings.provisioner}: this build starts no agents, "
            "so workspaces must be external."
        )
