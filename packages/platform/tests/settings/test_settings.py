"""Settings: what is read, from where, and what a mistake sounds like."""

import dataclasses
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_platform import settings
from molecule_platform.settings import table
from tests.rows import each_row


def load(
    environ: dict[str, str], flags: dict[str, object] | None = None, toml: dict[str, object] | None = None
):
    return settings.load(flags or {}, environ, toml or {})


def value(name: str, text: str) -> object:
    loaded, _ = load({name: text})
    attribute = next(setting.attribute for setting in settings.SETTINGS if setting.name == name)
    return getattr(loaded, attribute)


def test_the_defaults_are_those_of_the_contract() -> None:
    loaded, warnings = load({})
    assert warnings == []
    assert loaded == settings.Settings(
        port=8080,
        bind_host="127.0.0.1",
        data_dir=Path.home() / ".molecule/platform",
        database_url=None,
        nats_url=None,
        platform_url=None,
        external_platform_url=None,
        admin_token=None,
        environment="production",
        org_slug="default",
        deploy_mode="selfhosted",
        claim_on_register=True,
        strict_register=False,
        open_enrolment=False,
        claim_window_seconds=3600,
        cors_origins=None,
        allowed_hosts=None,
        trusted_proxies=None,
        rate_limit=600,
        rate_limit_anon=60,
        max_body_bytes=1048576,
        a2a_max_body_bytes=16777216,
        a2a_max_response_bytes=67108864,
        json_max_values=100000,
        json_max_depth=64,
        message_max_parts=1000,
        work_max_bytes=67108864,
        principal_work_max_bytes=33554432,
        max_connections=2000,
        max_open_requests=1000,
        max_agent_streams=32,
        allow_private_urls=("loopback",),
        card_jku_hosts=None,
        push_allow_private=False,
        a2a_idle_timeout_seconds=300,
        a2a_max_run_seconds=1800,
        a2a_hold_seconds=25.0,
        a2a_blocking_max_seconds=1800.0,
        message_ttl_seconds=86400,
        mailbox_max_open=1000,
        mailbox_sender_percent=20,
        mailbox_max_bytes=268435456,
        org_max_bytes=4294967296,
        message_max_attempts=5,
        message_max_releases=20,
        max_delegation_depth=8,
        max_calls_per_root=64,
        remote_liveness_stale_after=90,
        provision_timeout_seconds=600,
        hibernation_idle_minutes=0,
        provisioner=None,
        workspace_roots=None,
        activity_retention_days=7,
        activity_cleanup_interval_hours=6,
        event_retention_days=30,
        task_retention_days=7,
        interrupted_task_hours=168,
        task_event_retention_hours=24,
        delegation_retention_days=90,
        plugins_dir=None,
        plugin_unpinned_policy=None,
        plugin_allow_unpinned=None,
        plugin_signatures="if-present",
        github_token=None,
        github_api_url="https://api.github.com",
        plugin_install_body_max_bytes=65536,
        plugin_install_fetch_timeout=300.0,
        plugin_install_max_dir_bytes=104857600,
        secrets_encryption_key=None,
    )


def test_the_table_and_the_settings_name_the_same_things() -> None:
    fields = {field.name: field for field in dataclasses.fields(settings.Settings)}
    assert [setting.attribute for setting in settings.SETTINGS] == list(fields)
    assert len({setting.name for setting in settings.SETTINGS}) == len(settings.SETTINGS)
    for setting in settings.SETTINGS:
        assert setting.sentence.endswith("."), setting.name
        assert fields[setting.attribute].repr is not setting.secret, setting.name


def test_a_flag_wins_over_the_environment_over_the_file_over_the_default() -> None:
    file: dict[str, object] = {"PORT": 1001, "MAILBOX_MAX_OPEN": 11, "MESSAGE_MAX_ATTEMPTS": 7}
    environ = {"PORT": "1002", "MAILBOX_MAX_OPEN": "12"}
    loaded, _ = load(environ, {"PORT": 1003}, file)
    assert (loaded.port, loaded.mailbox_max_open, loaded.message_max_attempts) == (1003, 12, 7)


def test_an_empty_or_missing_value_counts_as_not_given() -> None:
    loaded, _ = load(
        {"PORT": "", "DATABASE_URL": " "}, {"PORT": None, "MOLECULE_BIND_HOST": None}, {"PORT": 99}
    )
    assert (loaded.port, loaded.database_url, loaded.bind_host) == (99, None, "127.0.0.1")


def test_a_flag_set_to_false_or_zero_is_given() -> None:
    loaded, _ = load({"MOLECULE_CLAIM_ON_REGISTER": "true"}, {"MOLECULE_CLAIM_ON_REGISTER": False})
    assert loaded.claim_on_register is False
    loaded, _ = load({}, {"MOLECULE_A2A_HOLD_SECONDS": 0})
    assert loaded.a2a_hold_seconds == 0


def test_the_file_lies_in_the_data_directory(tmp_path: Path) -> None:
    (tmp_path / "molecule.toml").write_text(
        'PORT = 9000\nMOLECULE_PUSH_ALLOW_PRIVATE = true\nADMIN_TOKEN = "from-file"\n'
    )
    from_environment, _ = settings.load({}, {"MOLECULE_DATA_DIR": str(tmp_path)})
    from_flag, _ = settings.load({"MOLECULE_DATA_DIR": tmp_path}, {"MOLECULE_DATA_DIR": "/nowhere"})
    by_path, _ = settings.load({}, {}, tmp_path / "molecule.toml")
    for loaded in (from_environment, from_flag, by_path):
        assert (loaded.port, loaded.push_allow_private, loaded.admin_token) == (9000, True, "from-file")
    assert from_flag.data_dir == tmp_path


def test_a_missing_file_is_no_problem(tmp_path: Path) -> None:
    loaded, warnings = settings.load({}, {"MOLECULE_DATA_DIR": str(tmp_path / "new")})
    assert (loaded.data_dir, warnings) == (tmp_path / "new", [])


@pytest.mark.parametrize("content", [b"PORT = ", b"\xff\xfe", b"PORT 80"])
def test_a_broken_file_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "molecule.toml").write_bytes(content)
    with pytest.raises(settings.SettingProblem, match="molecule.toml is not TOML: write one NAME = value"):
        settings.load({}, {"MOLECULE_DATA_DIR": str(tmp_path)})


def test_a_file_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "molecule.toml").mkdir()
    with pytest.raises(settings.SettingProblem, match="molecule.toml cannot be read: Is a directory."):
        settings.load({}, {"MOLECULE_DATA_DIR": str(tmp_path)})


def test_the_file_cannot_move_the_folder_it_lies_in() -> None:
    with pytest.raises(settings.SettingProblem, match="cannot stand in molecule.toml"):
        load({}, toml={"MOLECULE_DATA_DIR": "/elsewhere"})


def test_a_table_in_the_file_is_not_a_value() -> None:
    with pytest.raises(
        settings.SettingProblem, match="PORT in molecule.toml must be a text, a number or true"
    ):
        load({}, toml={"PORT": {"a": 1}})


_PORTS = "a whole number from 1 to 65535"
_HOSTS = "hosts such as keys.example.com or keys.example.com:8443, separated by commas"
_SECONDS = "a number of seconds from 0 to 3600"
_BASE = "an http:// or https:// URL without a user name, such as https://molecule.example.com"
_NETWORKS = "none, or a comma-separated list of loopback, private and networks such as 10.1.0.0/16"
_DATABASE = "postgresql://user:password@host:port/database or the absolute path of an SQLite file"
_NATS = "nats://host:port or tls://host:port, several separated by commas"
_TOKEN = "at least 8 visible ASCII characters without spaces"


@each_row(
    ("name", "text", "allowed"),
    [
        ("PORT", "http", _PORTS),
        ("PORT", "0", _PORTS),
        ("PORT", "8080.5", _PORTS),
        ("PORT", "８０", _PORTS),
        ("MOLECULE_BIND_HOST", "a b", "an IP address or a host name, without a port"),
        ("MOLECULE_ENV", "staging", "one of prod, production, dev, development"),
        ("MOLECULE_DEPLOY_MODE", "cloud", "one of selfhosted, saas"),
        ("MOLECULE_STRICT_REGISTER", "maybe", "true or false"),
        ("MOLECULE_A2A_HOLD_SECONDS", "nan", _SECONDS),
        ("MOLECULE_A2A_HOLD_SECONDS", "soon", _SECONDS),
        ("MOLECULE_CARD_JKU_HOSTS", "https://keys.example", _HOSTS),
        ("MOLECULE_CARD_JKU_HOSTS", "keys.example/jwks", _HOSTS),
        ("MOLECULE_CARD_JKU_HOSTS", "keys.example:many", _HOSTS),
        ("MAILBOX_MAX_OPEN", "-1", "a whole number from 1 to 1000000"),
        ("PLATFORM_URL", "ftp://x", _BASE),
        ("PLATFORM_URL", "http://x:0", _BASE),
        ("PLATFORM_URL", "http://x?y", "a URL without ? and #"),
        ("MOLECULE_ALLOW_PRIVATE_URLS", "lan", _NETWORKS),
        ("MOLECULE_ALLOW_PRIVATE_URLS", "none,private", _NETWORKS),
    ],
)
def test_a_malformed_value_is_one_sentence_that_says_what_is_allowed(
    name: str, text: str, allowed: str
) -> None:
    with pytest.raises(settings.SettingProblem) as caught:
        load({name: text})
    assert str(caught.value) == f"{name} must be {allowed}, not {text!r}."


@pytest.mark.parametrize(
    ("name", "text", "allowed"),
    [
        ("DATABASE_URL", "mysql://u:hush@h/db", _DATABASE),
        ("DATABASE_URL", "postgresql://", _DATABASE),
        ("DATABASE_URL", "postgresql://u:hush@h:port/db", _DATABASE),
        ("DATABASE_URL", "sqlite://", _DATABASE),
        ("NATS_URL", "http://u:hush@h", _NATS),
        ("NATS_URL", "nats://a,,", _NATS),
        ("ADMIN_TOKEN", "hush hush", _TOKEN),
        ("ADMIN_TOKEN", "hush", _TOKEN),
    ],
)
def test_a_malformed_secret_is_not_shown(name: str, text: str, allowed: str) -> None:
    with pytest.raises(settings.SettingProblem) as caught:
        load({name: text})
    assert str(caught.value) == f"{name} must be {allowed}."
    assert caught.value.__cause__ is None


def test_a_password_in_a_url_is_not_shown() -> None:
    with pytest.raises(settings.SettingProblem) as caught:
        load({"PLATFORM_URL": "https://ann:hush@x"})
    assert "hush" not in str(caught.value)


def test_a_mistake_in_the_file_names_the_file() -> None:
    with pytest.raises(settings.SettingProblem, match="PORT in molecule.toml must be a whole number"):
        load({}, toml={"PORT": True})


@each_row(
    ("name", "text", "expected"),
    [
        ("MOLECULE_DATA_DIR", "~/x", Path.home() / "x"),
        ("MOLECULE_DATA_DIR", "x", Path.cwd() / "x"),
        ("MOLECULE_ENV", "dev", "development"),
        ("MOLECULE_ENV", "PROD", "production"),
        ("MOLECULE_STRICT_REGISTER", "1", True),
        ("MOLECULE_CLAIM_ON_REGISTER", "Off", False),
        ("MOLECULE_A2A_HOLD_SECONDS", "0.5", 0.5),
        (
            "MOLECULE_CARD_JKU_HOSTS",
            "Keys.example, other.example:8443,[::1]:9",
            frozenset({"keys.example:443", "other.example:8443", "::1:9"}),
        ),
        ("PLATFORM_URL", "https://molecule.example.com/base/", "https://molecule.example.com/base"),
        (
            "DATABASE_URL",
            "postgres://u:p@h:5432/db?sslmode=require",
            "postgresql://u:p@h:5432/db?sslmode=require",
        ),
        ("DATABASE_URL", "postgresql://u:p@h/db", "postgresql://u:p@h/db"),
        ("DATABASE_URL", "sqlite:////var/molecule.db", "sqlite:////var/molecule.db"),
        ("DATABASE_URL", "/var/molecule.db", "sqlite:////var/molecule.db"),
        ("NATS_URL", "nats://u:p@a:4222,tls://b:4222", "nats://u:p@a:4222,tls://b:4222"),
        ("MOLECULE_ALLOW_PRIVATE_URLS", "none", ()),
        ("MOLECULE_ALLOW_PRIVATE_URLS", "Loopback, private", ("loopback", "private")),
        ("MOLECULE_ALLOW_PRIVATE_URLS", "10.1.0.0/16,fd00::/8", ("10.1.0.0/16", "fd00::/8")),
        ("MOLECULE_BIND_HOST", "::1", "::1"),
        ("SECRETS_ENCRYPTION_KEY", "x", "x"),
    ],
)
def test_a_value_is_read_into_its_plain_form(name: str, text: str, expected: object) -> None:
    assert value(name, text) == expected


@given(st.sampled_from(settings.SETTINGS), st.text(max_size=30))
def test_any_text_is_a_value_or_a_sentence_naming_the_setting(setting: settings.Setting, text: str) -> None:
    sentence = setting.name
    try:
        load({setting.name: text})
    except settings.SettingProblem as problem:
        sentence = str(problem)
    assert sentence.startswith(setting.name)


def test_secrets_do_not_show() -> None:
    secrets = {
        "ADMIN_TOKEN": "hush-hush-1",
        "DATABASE_URL": "postgresql://u:hush-hush-2@h/db",
        "NATS_URL": "nats://u:hush-hush-3@h",
        "SECRETS_ENCRYPTION_KEY": "hush-hush-4",
    }
    loaded, warnings = load(secrets)
    assert "hush" not in repr(loaded) + str(loaded) + repr(warnings)


def test_saas_calls_no_private_address_whatever_else_is_set() -> None:
    loaded, warnings = load({"MOLECULE_DEPLOY_MODE": "saas"})
    assert (loaded.allow_private_urls, warnings) == ((), [])
    loaded, warnings = load({"MOLECULE_DEPLOY_MODE": "saas", "MOLECULE_ALLOW_PRIVATE_URLS": "private"})
    assert loaded.allow_private_urls == ()
    assert warnings == ["MOLECULE_ALLOW_PRIVATE_URLS is ignored: in saas mode no private address is called."]


def test_postgres_without_nats_is_one_replica_and_says_so() -> None:
    _, alone = load({"DATABASE_URL": "postgresql://h/db"})
    _, shared = load({"DATABASE_URL": "postgresql://h/db", "NATS_URL": "nats://h"})
    _, embedded = load({"DATABASE_URL": "/tmp/molecule.db"})
    assert alone == ["PostgreSQL without NATS_URL: run exactly one replica, or set NATS_URL."]
    assert (shared, embedded) == ([], [])


def test_an_unknown_name_is_a_warning() -> None:
    _, warnings = load({"MOLECULE_BINDHOST": "x", "OTHER": "y"}, toml={"PROT": 1, "MOLECULE_X": 2})
    assert warnings == [
        "MOLECULE_BINDHOST is not a setting: check its spelling.",
        "MOLECULE_X in molecule.toml is not a setting: check its spelling.",
        "PROT in molecule.toml is not a setting: check its spelling.",
    ]


def test_names_of_the_earlier_system_are_ignored_with_a_warning() -> None:
    _, warnings = load({"REDIS_URL": "redis://hush", "CANVAS_PROXY_URL": "http://x"})
    assert warnings == [
        "CANVAS_PROXY_URL is ignored: nothing here uses it.",
        "REDIS_URL is ignored: nothing here uses it.",
    ]


@each_row("name", [name.replace("*", "ANYTHING") for name in table.KNOWN_ELSEWHERE])
def test_names_that_other_parts_read_are_no_mistakes(name: str) -> None:
    assert load({name: "x"})[1] == []


def test_no_name_is_both_ours_and_elsewhere() -> None:
    ours = {setting.name for setting in settings.SETTINGS}
    assert ours.isdisjoint(table.KNOWN_ELSEWHERE)


@pytest.mark.parametrize("value", ["garbage", "molecule.db", "./molecule.db"])
def test_a_database_that_is_neither_a_url_nor_a_full_path_stops_the_start(value: str) -> None:
    with pytest.raises(settings.SettingProblem, match="DATABASE_URL"):
        settings.load({}, {"DATABASE_URL": value}, {})


def test_a_provisioner_that_this_build_has_not_is_told() -> None:
    assert load({"MOLECULE_PROVISIONER": "none"})[1] == []
    for name in ("process", "docker"):
        loaded, [warning] = load({"MOLECULE_PROVISIONER": name})
        assert loaded.provisioner == name
        assert "workspaces must be external" in warning


def test_roots_of_workspaces_are_absolute_folders() -> None:
    assert value("MOLECULE_WORKSPACE_ROOTS", "/srv, /data/x") == ("/srv", "/data/x")
    for text in ("srv", "/srv,../x", "/srv/../etc"):
        with pytest.raises(settings.SettingProblem, match="absolute paths"):
            load({"MOLECULE_WORKSPACE_ROOTS": text})


@pytest.mark.parametrize(
    ("environ", "policy"),
    [
        ({}, "lock"),
        ({"PLUGIN_ALLOW_UNPINNED": "true"}, "float"),
        ({"PLUGIN_ALLOW_UNPINNED": "false"}, "deny"),
        ({"PLUGIN_UNPINNED_POLICY": "lock", "PLUGIN_ALLOW_UNPINNED": "true"}, "lock"),
        ({"PLUGIN_UNPINNED_POLICY": "deny"}, "deny"),
    ],
)
def test_the_older_setting_of_pins_counts_where_the_newer_is_not_set(
    environ: dict[str, str], policy: str
) -> None:
    assert load(environ)[0].unpinned_policy == policy


@pytest.mark.parametrize(
    ("text", "seconds"), [("300", 300.0), ("300s", 300.0), ("5m", 300.0), ("1h", 3600.0)]
)
def test_a_time_may_have_a_unit(text: str, seconds: float) -> None:
    assert value("PLUGIN_INSTALL_FETCH_TIMEOUT", text) == seconds


@pytest.mark.parametrize("text", ["0", "5 m", "-1", "2h", "5d", "soon"])
def test_a_time_that_is_none_or_too_long_stops_the_start(text: str) -> None:
    with pytest.raises(settings.SettingProblem, match="PLUGIN_INSTALL_FETCH_TIMEOUT"):
        load({"PLUGIN_INSTALL_FETCH_TIMEOUT": text})


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:9", "http://localhost:9/api/v3", "https://git.example/api/v3/"]
)
def test_the_api_of_github_is_https_or_on_this_machine(url: str) -> None:
    assert value("MOLECULE_GITHUB_API_URL", url) == url.rstrip("/")


@pytest.mark.parametrize("url", ["http://git.example", "http://10.0.0.1", "ftp://x", "https://u@git.example"])
def test_any_other_api_of_github_stops_the_start(url: str) -> None:
    with pytest.raises(settings.SettingProblem, match="MOLECULE_GITHUB_API_URL"):
        load({"MOLECULE_GITHUB_API_URL": url})


def test_the_token_for_github_is_never_shown() -> None:
    assert "ghp-secret" not in repr(load({"GITHUB_TOKEN": "ghp-secret"})[0])


@pytest.mark.parametrize("where", ["environment", "file"])
def test_an_organisation_that_could_not_be_demanded_of_every_request_stops_the_start(where: str) -> None:
    given = {"MOLECULE_ORG_ID": "default"}
    with pytest.raises(settings.SettingProblem, match="MOLECULE_ORG_ID is set: .* Unset it here"):
        settings.load({}, given if where == "environment" else {}, given if where == "file" else {})


@pytest.mark.parametrize(
    ("environ", "allowed"),
    [
        ({}, ("loopback",)),
        ({"MOLECULE_BIND_HOST": "::1"}, ("loopback",)),
        ({"MOLECULE_BIND_HOST": "localhost"}, ("loopback",)),
        ({"MOLECULE_BIND_HOST": "0.0.0.0"}, ()),
        ({"MOLECULE_BIND_HOST": "10.0.0.1"}, ()),
        ({"MOLECULE_BIND_HOST": "0.0.0.0", "MOLECULE_ALLOW_PRIVATE_URLS": "loopback"}, ("loopback",)),
        ({"EXTERNAL_PLATFORM_URL": "https://molecule.example"}, ()),
        ({"MOLECULE_TRUSTED_PROXIES": "10.0.0.0/8"}, ()),
        ({"MOLECULE_ALLOW_PRIVATE_URLS": "none"}, ()),
    ],
)
def test_agents_on_this_machine_are_called_by_default_only_while_no_other_machine_reaches_us(
    environ: dict[str, str], allowed: tuple[str, ...]
) -> None:
    assert load(environ)[0].allow_private_urls == allowed


@pytest.mark.parametrize("given", ["http://molecule", "a b", "user@molecule", "molecule:http", "molecule/x"])
def test_an_allowed_host_is_a_name_with_or_without_a_port(given: str) -> None:
    assert value("MOLECULE_ALLOWED_HOSTS", "Molecule, molecule.internal:8080") == (
        "molecule",
        "molecule.internal:8080",
    )
    with pytest.raises(settings.SettingProblem, match="MOLECULE_ALLOWED_HOSTS must be hosts such as"):
        load({"MOLECULE_ALLOWED_HOSTS": given})
