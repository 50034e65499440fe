"""The environment is read once, with its aliases, its defaults and its rules."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import pytest

from molecule_runtime.domain.config import A2AConfig
from molecule_runtime.domain.config_keys import declared_keys
from molecule_runtime.domain.config_types import BooleanType, IntegerType
from molecule_runtime.settings.config import ConfigError
from molecule_runtime.settings.environment import Environment, MissingWorkspaceId

KEYS = declared_keys(Environment)
INTEGERS = [key.env[0] for key in KEYS.values() if isinstance(key.type, IntegerType)]
FLAGS = [(name, key.env[0]) for name, key in KEYS.items() if isinstance(key.type, BooleanType)]
SECRETS = [
    "MOLECULE_WORKSPACE_TOKEN",
    "AUDIT_LEDGER_DB",
    "AUDIT_LEDGER_SALT",
    "LANGFUSE_SECRET_KEY",
    "MOLECULE_MCP_TOKEN",
    "MOLECULE_WORKSPACES",
    "ANTHROPIC_API_KEY",
]


def read(
    env: Mapping[str, str] | None = None,
    *,
    container: bool = False,
    folders: tuple[str, ...] = (),
    **more: str,
) -> Environment:
    return Environment.read(
        {"WORKSPACE_ID": "ws-1", **(env or {}), **more},
        has_container_mark=lambda: container,
        is_directory=lambda path: str(path) in folders,
        is_writable=lambda path: str(path) in folders,
    )


@pytest.mark.parametrize("env", [{}, {"WORKSPACE_ID": "  "}, {"MAX_TOKENS": "many"}])
def test_without_a_workspace_id_nothing_starts(env: dict[str, str]) -> None:
    with pytest.raises(MissingWorkspaceId) as caught:
        Environment.read(env)
    assert str(caught.value) == "FATAL: WORKSPACE_ID env var is not set. Aborting."
    assert isinstance(caught.value, ConfigError)


def test_the_environment_does_not_change() -> None:
    variables = {"WORKSPACE_ID": "ws-1"}
    environment = Environment.read(variables)
    variables["WORKSPACE_ID"] = "ws-2"
    assert environment.variables["WORKSPACE_ID"] == "ws-1"
    with pytest.raises(dataclasses.FrozenInstanceError):
        environment.workspace_id = "ws-2"  # type: ignore[misc]


@pytest.mark.parametrize("name", KEYS)
def test_every_name_of_a_variable_is_read(name: str) -> None:
    key = KEYS[name]
    value = {"link": "poll", "require_caller": "off", "log_format": "json"}.get(name, "7")
    value = {"tier": "3"}.get(name, value)
    expected = "False" if isinstance(key.type, BooleanType) else value
    for variable in key.env:
        env = {"WORKSPACE_ID": "ws-1", variable: value}
        if name == "workspace_id":
            env = {variable: value}
        environment = Environment.read(env)
        assert str(getattr(environment, name)) == expected


def test_the_first_name_that_is_set_wins() -> None:
    names = ["PLATFORM_URL", "MOLECULE_URL", "MOLECULE_PLATFORM_URL"]
    for first, name in enumerate(names):
        variables = {each: f"http://{each.lower()}" for each in names[first:]}
        assert read(variables).platform_url == f"http://{name.lower()}"
    assert read(PLATFORM_URL="  ", MOLECULE_URL="http://other").platform_url == "http://other"


@pytest.mark.parametrize("variable", INTEGERS)
@pytest.mark.parametrize("value", ["seven", "7.5", "7s", "٧", "1_0"])
def test_what_is_no_integer_is_refused_by_the_name_of_its_variable(variable: str, value: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read({variable: value})
    assert str(caught.value) == f"{variable}: expected integer, got string"


def test_every_bad_variable_is_told() -> None:
    with pytest.raises(ConfigError) as caught:
        read(MAX_TOKENS="many", MOLECULE_LINK="pigeon", MOLECULE_MCP_PORT="70000")
    assert sorted(caught.value.problems) == [
        "MAX_TOKENS: expected integer, got string",
        "MOLECULE_LINK: expected one of push, poll, got string",
        "MOLECULE_MCP_PORT: expected integer of at most 65535, got string",
    ]


@pytest.mark.parametrize("blank", ["", " ", "\t\n"])
def test_blank_means_the_default(blank: str) -> None:
    names = {variable: blank for key in KEYS.values() for variable in key.env if variable != "WORKSPACE_ID"}
    assert dataclasses.replace(read(names), variables={}) == dataclasses.replace(read(), variables={})


@pytest.mark.parametrize(("name", "variable"), FLAGS)
def test_flags_are_true_for_four_words_and_else_false(name: str, variable: str) -> None:
    for word in ("1", "true", "YES", " on "):
        assert getattr(read({variable: word}), name) is True
    for word in ("0", "false", "no", "off", "maybe"):
        assert getattr(read({variable: word}), name) is False


def test_the_defaults_are_those_of_the_contract() -> None:
    environment = read()
    assert environment.platform_url == "http://localhost:8080"
    assert (environment.tier, environment.require_caller, environment.link) == (1, "auto", "")
    assert (environment.stop_grace_seconds, environment.setup_timeout_seconds) == (20, 600)
    assert (environment.idle_timeout_seconds, environment.smoke_timeout_seconds) == (300, 5)
    assert (environment.mcp_port, environment.mcp_poll_timeout_seconds) == (9100, 2)
    assert environment.awareness_namespace == "workspace:ws-1"
    assert environment.log_format == "text"


def test_a_container_is_known_by_its_mark_or_its_variable() -> None:
    for environment in (read(container=True), read(DOCKER_VERSION="27")):
        assert environment.in_container
        assert environment.platform_url == "http://host.docker.internal:8080"
        assert environment.listen_host(A2AConfig()) == "0.0.0.0"
    assert not read().in_container
    assert read().listen_host(A2AConfig()) == "127.0.0.1"


def test_the_listen_address_can_be_set_in_the_file_and_over_it() -> None:
    assert read(container=True).listen_host(A2AConfig(bind="127.0.0.2")) == "127.0.0.2"
    assert read(MOLECULE_BIND_HOST="::1").listen_host(A2AConfig(bind="127.0.0.2")) == "::1"


def test_the_public_url_is_the_first_that_is_known() -> None:
    stated, empty = A2AConfig(public_url="https://stated.test/"), A2AConfig()
    assert read(AGENT_URL="https://env.test/").public_url(stated, 1) == "https://env.test"
    assert read(container=True, HOSTNAME="box").public_url(stated, 1) == "https://stated.test"
    assert read(container=True, HOSTNAME="box").public_url(empty, 8000) == "http://box:8000"
    assert read(container=True).public_url(empty, 8000) == "http://127.0.0.1:8000"
    assert read(HOSTNAME="laptop").public_url(empty, 4711) == "http://127.0.0.1:4711"


def test_files_lie_in_the_config_directory() -> None:
    environment = read(WORKSPACE_CONFIG_PATH="/c")
    assert [
        str(path)
        for path in (
            environment.token_file,
            environment.recovery_file,
            environment.snapshot_path,
            environment.tasks_db,
            environment.delegations_db,
            environment.transcripts_dir,
            environment.delegation_results_file,
            environment.audit_log_path,
            environment.work_dir,
            environment.agents_md,
            environment.uploads_dir,
        )
    ] == [
        "/c/.auth_token",
        "/c/.recovery",
        "/c/.agent_snapshot.json",
        "/c/.tasks.db",
        "/c/.delegations.db",
        "/c/.transcripts",
        "/c/.delegation_results.jsonl",
        "/c/.audit/audit.jsonl",
        "/c/workspace",
        "/c/workspace/AGENTS.md",
        "/c/workspace/.molecule/chat-uploads",
    ]


def test_places_follow_what_exists_and_what_is_set() -> None:
    assert read().config_dir == Path("/configs")
    assert read().token_file == Path("/configs/.auth_token")
    assert read(folders=("/workspace",)).work_dir == Path("/workspace")
    assert read(folders=("/workspace",), MOLECULE_WORKSPACE_DIR="/w").work_dir == Path("/w")
    assert read(folders=("/var/log/molecule",)).audit_log_path == Path("/var/log/molecule/audit.jsonl")
    assert read(WORKSPACE_CONFIG_PATH="/c", CONFIGS_DIR="/t").token_file == Path("/t/.auth_token")
    assert read(WORKSPACE_CONFIG_PATH="/c", CONFIGS_DIR="/t").config_dir == Path("/c")
    assert read(MOLECULE_CONFIGS_DIR="/t").config_dir == Path("/t")


def test_no_secret_shows_in_the_text_form() -> None:
    text = repr(read(dict.fromkeys(SECRETS, "very-secret")))
    assert "very-secret" not in text
    assert "workspace_id='ws-1'" in text


def test_a_poll_timeout_over_a_minute_is_shortened_and_told() -> None:
    environment = read(MOLECULE_MCP_POLL_TIMEOUT_SECS="90")
    assert environment.mcp_poll_timeout_seconds == 60
    assert len(environment.warnings) == 1
