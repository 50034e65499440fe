"""The loading rules of config.yaml: lists, switches, tiers, variables, overrides, unknown keys."""

import logging
from pathlib import Path

import pytest

from molecule_runtime.domain.config import DEFAULT_MODEL, WorkspaceConfig
from molecule_runtime.settings.config import ConfigError, load_config


def load(folder: Path, text: str, **env: str) -> WorkspaceConfig:
    (folder / "config.yaml").write_text(text)
    return load_config(folder, env)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught:
        load_config(tmp_path, {})
    assert str(caught.value) == f"Config file not found: {tmp_path}/config.yaml"


def test_without_a_path_the_config_directory_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "config.yaml").write_text("name: Here")
    monkeypatch.setenv("WORKSPACE_CONFIG_PATH", str(tmp_path))
    assert load_config().name == "Here"


def test_the_path_of_the_file_itself_is_taken_too(tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text("name: Other")
    assert load_config(str(tmp_path / "other.yaml"), {}).name == "Other"


@pytest.mark.parametrize(
    ("written", "skills"),
    [("search", ["search"]), ("'*'", ["*"]), ("''", []), ("[]", []), ("[a, b]", ["a", "b"])],
)
def test_a_scalar_where_a_list_is_expected_becomes_a_list(
    tmp_path: Path, written: str, skills: list[str]
) -> None:
    assert load(tmp_path, f"skills: {written}").skills == skills


@pytest.mark.parametrize("written", ["[]", "null", "''"])
def test_no_prompt_files_means_the_system_prompt(tmp_path: Path, written: str) -> None:
    assert load(tmp_path, f"prompt_files: {written}").prompt_files == ["system-prompt.md"]


@pytest.mark.parametrize(
    ("written", "tier"),
    [("0", 0), ("4", 4), ("'3'", 3), ("5", 1), ("-1", 1), ("'-1'", 1), ("high", 1), ("true", 1), ("2.0", 1)]
    + [("[2]", 1), ("{a: 2}", 1), ("''", 1), ("'999999999999'", 1), ("'²'", 1)],
)
def test_a_tier_is_0_to_4_and_anything_else_is_1(tmp_path: Path, written: str, tier: int) -> None:
    assert load(tmp_path, f"tier: {written}").tier == tier


@pytest.mark.parametrize(
    ("written", "mode"),
    [("off", "off"), ("false", "off"), ("on", "warn"), ("true", "warn"), ("block", "block"), ("'off'", "off")]
    + [
        ("'on'", "warn"),
        ("{mode: off}", "off"),
        ("{mode: block}", "block"),
        ("null", "warn"),
        ("{}", "warn"),
    ],
)
def test_security_scan_is_a_switch_a_word_or_a_mapping(tmp_path: Path, written: str, mode: str) -> None:
    assert load(tmp_path, f"security_scan: {written}").security_scan.mode == mode


@pytest.mark.parametrize(("written", "mode"), [("''", ""), ("off", ""), ("on", "owasp_agentic")])
def test_compliance_can_be_turned_off(tmp_path: Path, written: str, mode: str) -> None:
    assert load(tmp_path, f"compliance: {{mode: {written}}}").compliance.mode == mode


def test_variables_are_expanded_in_three_blocks_and_nowhere_else(tmp_path: Path) -> None:
    text = """
    name: ${NAME}
    runtime_config: {provider_url: 'http://${HOST}/v1', timeout: '${SECONDS}', deep: [{a: '${HOST}'}]}
    sandbox: {memory_limit: '${LIMIT}'}
    observability: {otlp_endpoint: 'http://${HOST}:4318'}
    """
    config = load(tmp_path, text, NAME="no", HOST="models.test", SECONDS=" 30", LIMIT="1g")
    assert config.name == "${NAME}"
    assert config.runtime_config.provider_url == "http://models.test/v1"
    assert config.runtime_config.timeout == 30
    assert config.runtime_config.extra == {"deep": [{"a": "models.test"}]}
    assert config.sandbox.memory_limit == "1g"
    assert config.observability.otlp_endpoint == "http://models.test:4318"
    assert config.warnings == []


def test_an_unset_variable_stays_as_written_and_is_told(tmp_path: Path) -> None:
    config = load(tmp_path, "runtime_config:\n  command: run ${THERE} ${MISSING}", THERE="here")
    assert config.runtime_config.command == "run here ${MISSING}"
    assert config.warnings == [
        f"{tmp_path}/config.yaml:2:12: runtime_config.command: the environment variable MISSING is not set"
    ]


def test_the_value_of_a_variable_never_shows_in_an_error(tmp_path: Path) -> None:
    text = "runtime_config: {timeout: '${KEY}'}\nsandbox: {backend: '${KEY}', timeout: '${KEY}'}"
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text, KEY="sk-very-secret")
    assert len(caught.value.problems) == 3
    assert "sk-very-secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "path", "expected"),
    [
        ("DELEGATION_RETRY_ATTEMPTS", "7", "delegation.retry_attempts", 7),
        ("DELEGATION_RETRY_DELAY", "0.25", "delegation.retry_delay", 0.25),
        ("DELEGATION_TIMEOUT", "12", "delegation.timeout", 12.0),
        ("APPROVAL_TIMEOUT", "12", "hitl.default_timeout", 12),
        ("MOLECULE_SANDBOX_BACKEND", "docker", "sandbox.backend", "docker"),
        ("SANDBOX_BACKEND", "podman", "sandbox.backend", "podman"),
        ("SANDBOX_TIMEOUT", "7", "sandbox.timeout", 7),
        ("SANDBOX_MEMORY_LIMIT", "64m", "sandbox.memory_limit", "64m"),
        ("CONSOLIDATION_INTERVAL", "7", "consolidation.interval", 7),
        ("CONSOLIDATION_THRESHOLD", "7", "consolidation.threshold", 7),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://t.test", "observability.otlp_endpoint", "http://t.test"),
    ],
)
@pytest.mark.parametrize(
    "written", ["", "{delegation: {timeout: 1, retry_attempts: 1}, sandbox: {timeout: 1}}"]
)
def test_the_environment_wins_over_the_file_and_the_default(
    tmp_path: Path, name: str, value: str, path: str, expected: object, written: str
) -> None:
    block, _, key = path.partition(".")
    assert getattr(getattr(load(tmp_path, written, **{name: value}), block), key) == expected
    blank, without = load(tmp_path, written, **{name: "  "}), load(tmp_path, written)
    assert blank == without


def test_a_bad_variable_is_named_beside_the_problems_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, "name: [1]", DELEGATION_RETRY_ATTEMPTS="three", DELEGATION_TIMEOUT="soon")
    assert caught.value.problems == (
        "DELEGATION_RETRY_ATTEMPTS: expected integer, got string",
        "DELEGATION_TIMEOUT: expected number, got string",
        f"{tmp_path}/config.yaml:1:7: name: expected string, got list",
    )


def test_the_model_comes_from_the_variable_then_the_runtime_block_then_the_key(tmp_path: Path) -> None:
    both = "model: a:one\nruntime_config: {model: 'b:two'}"
    assert load(tmp_path, "").model == DEFAULT_MODEL
    assert load(tmp_path, "model: a:one").model == "a:one"
    assert load(tmp_path, both).model == "b:two"
    config = load(tmp_path, both, MODEL_PROVIDER="c:three")
    assert (config.model, config.runtime_config.model) == ("c:three", "c:three")


def test_an_unknown_key_is_kept_and_the_nearest_known_one_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "molecule_runtime.config"):
        config = load(tmp_path, "runtme: echo\na2a: {prot: 1}")
    assert config.extra == {"runtme": "echo"}
    assert config.warnings == [
        f"{tmp_path}/config.yaml:2:13: a2a.prot: unknown key has no effect; the nearest known key is 'port'",
        f"{tmp_path}/config.yaml:1:9: runtme: unknown key is kept but has no effect; "
        "the nearest known key is 'runtime'",
    ]
    assert [record.getMessage() for record in caplog.records] == config.warnings


def test_a_too_short_idle_interval_is_lengthened_and_told(tmp_path: Path) -> None:
    config = load(tmp_path, "idle_interval_seconds: 5")
    assert config.idle_interval_seconds == 30
    assert "30 is used instead of 5" in config.warnings[0]


def test_a_prompt_file_is_read_unless_the_prompt_stands_inline(tmp_path: Path) -> None:
    (tmp_path / "first.md").write_text("From the file\n")
    from_file = load(tmp_path, "initial_prompt_file: first.md\nidle_prompt_file: first.md")
    assert (from_file.initial_prompt, from_file.idle_prompt) == ("From the file", "From the file")
    assert load(tmp_path, "initial_prompt: Inline\ninitial_prompt_file: first.md").initial_prompt == "Inline"


@pytest.mark.parametrize("name", ["missing.md", "../outside.md", "/etc/hostname", ".", '"a\\0b"'])
def test_a_prompt_file_that_is_missing_or_outside_is_told_and_not_read(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "config"
    folder.mkdir()
    (tmp_path / "outside.md").write_text("secret")
    if "\\0" in name:
        with pytest.raises(ConfigError):
            load(folder, f"initial_prompt_file: {name}")
        return
    config = load(folder, f"initial_prompt_file: {name}")
    assert config.initial_prompt == ""
    assert len(config.warnings) == 1
