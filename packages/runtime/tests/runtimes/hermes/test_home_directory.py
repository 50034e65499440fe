"""What is written into hermes' home, and what of the user's stays."""

import stat
from pathlib import Path
from typing import Any

import pytest
import yaml

from molecule_runtime.runtimes.hermes.errors import HermesError
from molecule_runtime.runtimes.hermes.gateway_settings import GatewaySettings
from molecule_runtime.runtimes.hermes.home_directory import (
    PLUGIN_NAME,
    PLUGIN_SOURCE,
    merge_config,
    plugin_problem,
    prepare_home,
)
from molecule_runtime.runtimes.hermes.plugin import NAME, VERSION


def _settings(home: Path, **variables: str) -> GatewaySettings:
    env = {
        "HERMES_HOME": str(home),
        "MOLECULE_A2A_PLATFORM_ENABLED": "true",
        "HERMES_CUSTOM_BASE_URL": "http://127.0.0.1:9/v1",
        "HERMES_CUSTOM_API_KEY": "custom-canary",
        "OPENROUTER_API_KEY": "router-canary",
        "UNKNOWN_API_KEY": "not-for-hermes",
        **variables,
    }
    return GatewaySettings.read(env, "tiny")


def _config(home: Path) -> dict[str, Any]:
    return yaml.safe_load((home / "config.yaml").read_text())


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def _content(home: Path) -> dict[str, tuple[bytes, int]]:
    return {
        str(path.relative_to(home)): (path.read_bytes(), path.stat().st_mtime_ns)
        for path in home.rglob("*")
        if path.is_file()
    }


def test_a_new_home_is_private_and_complete(tmp_path: Path) -> None:
    home = tmp_path / "hermes"
    prepared = prepare_home(_settings(home))
    assert _mode(home) == 0o700
    assert {_mode(path) for path in home.rglob("*") if path.is_file()} == {0o600}
    variables = dict(line.split("=", 1) for line in (home / ".env").read_text().splitlines())
    assert len(prepared.api_key) == 40
    assert variables == {
        "API_SERVER_ENABLED": "true",
        "API_SERVER_HOST": "127.0.0.1",
        "API_SERVER_PORT": "8642",
        "API_SERVER_KEY": prepared.api_key,
        "OPENROUTER_API_KEY": "router-canary",
    }
    config = _config(home)
    assert len(prepared.secret) == 43
    extra = {"host": "127.0.0.1", "port": 8645, "shared_secret": prepared.secret}
    assert config["platforms"] == {"molecule-a2a": {"enabled": True, "extra": extra}}
    assert config["plugins"] == {"enabled": ["molecule-a2a"]}
    assert config["display"] == {"busy_input_mode": "queue", "busy_ack_enabled": False}
    assert config["model"]["provider"] == "custom"
    assert plugin_problem(config) == ""
    copied = {path.name: path.read_bytes() for path in (home / "plugins/molecule-a2a").iterdir()}
    assert copied == {path.name: path.read_bytes() for path in PLUGIN_SOURCE.iterdir() if path.is_file()}
    assert "plugin.yaml" in copied


def test_the_plugin_has_one_name_and_version() -> None:
    manifest = yaml.safe_load((PLUGIN_SOURCE / "plugin.yaml").read_text())
    assert (manifest["name"], manifest["version"], manifest["kind"]) == (PLUGIN_NAME, VERSION, "platform")
    assert NAME == PLUGIN_NAME


def test_a_second_run_changes_nothing(tmp_path: Path) -> None:
    first = prepare_home(_settings(tmp_path))
    before = _content(tmp_path)
    assert prepare_home(_settings(tmp_path)) == first
    assert _content(tmp_path) == before


def test_keys_that_are_given_win_over_those_of_before(tmp_path: Path) -> None:
    prepare_home(_settings(tmp_path))
    variables = {"API_SERVER_KEY": "another-key", "MOLECULE_A2A_PLATFORM_SHARED_SECRET": "another-secret"}
    prepared = prepare_home(_settings(tmp_path, **variables))
    assert (prepared.api_key, prepared.secret) == ("another-key", "another-secret")
    assert "API_SERVER_KEY=another-key\n" in (tmp_path / ".env").read_text()
    assert _config(tmp_path)["platforms"]["molecule-a2a"]["extra"]["shared_secret"] == "another-secret"


def test_what_a_user_wrote_stays(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("# mine\nexport TELEGRAM_BOT_TOKEN='1:2'\nAPI_SERVER_PORT=1\n\nX=1\n")
    user = {
        "model": {"default": "old", "context_length": 5},
        "plugins": {"enabled": ["other"]},
        "platforms": {"telegram": {"enabled": True}, "molecule-a2a": {"reply_to_mode": "off"}},
        "display": {"busy_input_mode": "interrupt", "skin": "x"},
        "agent": {"max_turns": 7},
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(user))
    tmp_path.chmod(0o755)
    prepare_home(_settings(tmp_path))
    assert _mode(tmp_path) == 0o700
    lines = (tmp_path / ".env").read_text().splitlines()
    assert lines[:5] == ["# mine", "export TELEGRAM_BOT_TOKEN='1:2'", "API_SERVER_PORT=8642", "", "X=1"]
    config = _config(tmp_path)
    assert config["agent"] == {"max_turns": 7}
    assert config["model"]["context_length"] == 5
    assert config["model"]["default"] == "tiny"
    assert config["plugins"]["enabled"] == ["other", "molecule-a2a"]
    assert config["platforms"]["telegram"] == {"enabled": True}
    assert config["platforms"]["molecule-a2a"]["reply_to_mode"] == "off"
    assert config["display"] == {"busy_input_mode": "interrupt", "skin": "x", "busy_ack_enabled": False}


def test_a_model_of_the_user_stays_when_none_is_named() -> None:
    settings = GatewaySettings.read({"HERMES_HOME": "/nowhere"})
    assert merge_config({"model": "mine"}, settings)["model"] == "mine"
    assert merge_config({}, settings)["model"] == {"default": "hermes-4-70b", "provider": "nous"}


def test_without_the_plugin_its_platform_is_off(tmp_path: Path) -> None:
    prepare_home(_settings(tmp_path))
    prepare_home(_settings(tmp_path, MOLECULE_A2A_PLATFORM_ENABLED="no"))
    assert _config(tmp_path)["platforms"]["molecule-a2a"]["enabled"] is False
    assert "platforms" not in merge_config({}, _settings(tmp_path, MOLECULE_A2A_PLATFORM_ENABLED=""))


def test_a_secret_is_left_out_only_on_request(tmp_path: Path) -> None:
    assert prepare_home(_settings(tmp_path, MOLECULE_A2A_ALLOW_NO_SECRET="true")).secret == ""


def test_values_of_variables_are_quoted(tmp_path: Path) -> None:
    prepare_home(_settings(tmp_path, OPENROUTER_API_KEY="a b#'\\"))
    assert "OPENROUTER_API_KEY='a b#\\'\\\\'\n" in (tmp_path / ".env").read_text()
    with pytest.raises(HermesError, match="OPENROUTER_API_KEY holds a control character"):
        prepare_home(_settings(tmp_path, OPENROUTER_API_KEY="a\nb"))


def test_a_home_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HermesError, match=r"cannot be written .*set HERMES_HOME to another one\.$"):
        prepare_home(_settings(tmp_path / "file" / "home"))


@pytest.mark.parametrize("text", ["a: [", "- 1", "\x00", "a: *b"])
def test_a_broken_config_is_told_without_its_content(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.yaml").write_text("api_key: canary-value\n" + text)
    with pytest.raises(HermesError, match="correct or remove it") as caught:
        prepare_home(_settings(tmp_path))
    assert "canary-value" not in str(caught.value)
    assert (tmp_path / "config.yaml").read_text().endswith(text)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, "plugins.enabled"),
        ({"plugins": {"enabled": ["molecule_a2a"]}}, "plugins.enabled"),
        ({"plugins": {"enabled": ["molecule-a2a"], "disabled": ["molecule-a2a"]}}, "plugins.disabled"),
        ({"plugins": {"enabled": ["molecule-a2a"]}}, "platforms.molecule-a2a.enabled"),
    ],
)
def test_why_hermes_would_not_load_the_plugin(config: dict[str, Any], words: str) -> None:
    assert words in plugin_problem(config)


def test_ports_must_be_numbers() -> None:
    with pytest.raises(RuntimeError, match="^API_SERVER_PORT must be an integer, got 'x'$"):
        GatewaySettings.read({"API_SERVER_PORT": "x"})


def test_settings_show_no_key(tmp_path: Path) -> None:
    text = repr(prepare_home(_settings(tmp_path, API_SERVER_KEY="api-canary")))
    assert "canary" not in text
