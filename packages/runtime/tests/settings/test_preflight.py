"""Preflight tells what keeps a workspace from starting, and what its operator should know."""

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from molecule_runtime.domain.config import (
    A2AConfig,
    EnvConfig,
    RuntimeConfig,
    SandboxConfig,
    WorkspaceConfig,
)
from molecule_runtime.settings.preflight import (
    PreflightIssue,
    PreflightReport,
    render_preflight_report,
    run_preflight,
)


class Echo:
    @staticmethod
    def name() -> Any:
        return "echo"


class Nameless(Echo):
    @staticmethod
    def name() -> Any:
        return " "


class Numbered(Echo):
    @staticmethod
    def name() -> Any:
        return 7


class Broken(Echo):
    @staticmethod
    def name() -> Any:
        raise OSError("disk")


def rows() -> list[dict[str, Any]]:
    return [{"name": "echo", "available": True}, {"name": "hermes", "available": False}]


def finding(adapter: type[Echo]) -> Any:
    def find(_runtime: str) -> type[Echo]:
        return adapter

    return find


def raising(problem: BaseException) -> Any:
    def find(_runtime: str) -> Any:
        raise problem

    return find


def check(
    config: WorkspaceConfig, folder: Path, env: dict[str, str] | None = None, **changes: Any
) -> PreflightReport:
    facts: dict[str, Any] = {
        "get_adapter": finding(Echo),
        "list_adapters": rows,
        "find_command": lambda command: f"/bin/{command}",  # pyright: ignore[reportUnknownLambdaType]
        "free_bytes": lambda _folder: 10**12,  # pyright: ignore[reportUnknownLambdaType]
    }
    return run_preflight(config, folder, env=env or {}, **{**facts, **changes})


def echo(**keys: Any) -> WorkspaceConfig:
    return WorkspaceConfig(runtime="echo", **keys)


def details(issues: list[PreflightIssue], title: str) -> list[str]:
    return [issue.detail for issue in issues if issue.title == title]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "system-prompt.md").write_text("You echo.")
    return tmp_path


def test_a_workspace_with_nothing_wrong_has_an_empty_report(folder: Path) -> None:
    report = check(echo(), folder)
    assert (report.warnings, report.failures, report.ok) == ([], [], True)


@pytest.mark.parametrize(
    ("find", "sentence"),
    [
        (
            raising(KeyError("no adapter for runtime 'x'; known: echo")),
            "no adapter for runtime 'x'; known: echo",
        ),
        (
            raising(ModuleNotFoundError("No module named 'mine'")),
            "cannot be imported: No module named 'mine'",
        ),
        (raising(AttributeError("mine")), "has no class `Adapter`: mine"),
        (raising(RuntimeError("runtime 'x' needs: pip install y")), "runtime 'x' needs: pip install y"),
        (raising(SyntaxError("bad")), "raised SyntaxError when it was imported"),
        (finding(Broken), "name() raised OSError"),
        (finding(Nameless), "must return a non-empty string, not an empty string"),
        (finding(Numbered), "must return a non-empty string, not int"),
    ],
)
def test_a_runtime_that_cannot_be_used_is_a_failure_with_its_own_text(
    folder: Path, find: Any, sentence: str
) -> None:
    report = check(echo(), folder, get_adapter=find)
    [detail] = details(report.failures, "Runtime")
    assert sentence in detail
    assert not report.ok


@pytest.mark.parametrize(
    "problem",
    [KeyError("OPENAI_KEY"), RuntimeError("one\ntwo"), AttributeError("mine"), SystemExit(3)],
    ids=lambda problem: type(problem).__name__,
)
def test_what_a_module_raises_is_its_own_fault_whatever_the_kind(
    folder: Path, problem: BaseException
) -> None:
    report = check(echo(), folder, {"ADAPTER_MODULE": "mine"}, get_adapter=raising(problem))
    [detail] = details(report.failures, "Runtime")
    sentence = " ".join(str(problem).split())
    kind = type(problem).__name__
    assert detail == f"Adapter module 'mine' raised {kind} when it was imported: {sentence}"


def test_a_configuration_without_a_runtime_is_told_which_there_are(folder: Path) -> None:
    report = check(
        WorkspaceConfig(), folder, get_adapter=raising(KeyError("no adapter for runtime 'llm'; known: echo"))
    )
    [issue] = report.failures
    assert "is the default when config.yaml names no runtime" in issue.detail
    assert "to one of echo," in issue.fix


def test_without_a_list_of_adapters_the_failure_stands_alone(folder: Path) -> None:
    def broken() -> list[Any]:
        raise RuntimeError

    report = check(echo(), folder, get_adapter=raising(KeyError()), list_adapters=broken)
    assert details(report.failures, "Runtime") == ["no adapter for runtime 'echo'"]


def test_adapters_are_looked_up_in_the_registry(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = ModuleType("molecule_runtime.registry.adapters")
    vars(registry).update(get_adapter=finding(Numbered), list_adapters=rows)
    monkeypatch.setitem(sys.modules, registry.__name__, registry)
    assert "not int" in details(run_preflight(echo(), folder, env={}).failures, "Runtime")[0]
    vars(registry).update(get_adapter=raising(KeyError("none")))
    assert "to one of echo," in run_preflight(echo(), folder, env={}).failures[0].fix


def test_an_adapter_with_another_name_is_a_warning(folder: Path) -> None:
    report = check(WorkspaceConfig(runtime="python"), folder)
    assert details(report.warnings, "Runtime") == [
        "config.yaml names runtime 'python', the adapter reports 'echo'; the adapter wins"
    ]
    assert report.ok


@pytest.mark.parametrize(("port", "ok"), [(0, True), (1, True), (65_535, True), (65_536, False), (-1, False)])
def test_a_port_is_0_to_65535(folder: Path, port: int, ok: bool) -> None:
    report = check(echo(a2a=A2AConfig(port=port)), folder)
    assert details(report.failures, "A2A port") == ([] if ok else [f"Invalid A2A port: {port}"])


def test_each_missing_variable_is_a_failure_told_once(folder: Path) -> None:
    config = echo(
        model="lab:big",
        runtime_config=RuntimeConfig(
            required_env=["A", "B"],
            models=[
                "x",
                {"id": "lab:big", "required_env": ["D", {"any_of": ["G", "H"]}]},
                {"id": "y", "required_env": "Z"},
            ],
        ),
        env=EnvConfig(required=["A", {"any_of": ["E", "F"]}, {"any_of": []}], optional=["O"]),
    )
    missing = "Missing required environment variable: "
    assert details(check(config, folder, {"B": "set", "D": "  "}).failures, "Required env") == [
        missing + name for name in ("A", "E or F", "D", "G or H")
    ]
    assert check(config, folder, dict.fromkeys("ABFDH", "set")).ok


@pytest.mark.parametrize(
    "entry", [{"id": "m"}, {"id": "m", "required_env": None}, {"id": "m", "required_env": {"any_of": 3}}, 3]
)
def test_odd_entries_of_models_do_no_harm(folder: Path, entry: Any) -> None:
    assert check(echo(model="m", runtime_config=RuntimeConfig(models=[entry])), folder).ok


def test_an_auth_token_file_is_deprecated_and_must_exist_unless_a_variable_is_set(folder: Path) -> None:
    config = echo(
        runtime_config=RuntimeConfig(auth_token_file=".token", required_env=[{"any_of": ["A", "B"]}])
    )
    report = check(config, folder)
    assert details(report.failures, "Auth token") == ["Missing auth token file: .token"]
    assert details(report.warnings, "Auth token") == ["runtime_config.auth_token_file is deprecated"]
    assert check(config, folder, {"B": "set"}).ok
    (folder / ".token").write_text("t")
    assert details(check(config, folder).failures, "Auth token") == []
    old = check(echo(runtime_config=RuntimeConfig(auth_token_env="T")), folder)
    assert details(old.warnings, "Auth token") == ["runtime_config.auth_token_env is deprecated"]


def test_missing_prompt_files_and_skills_are_warnings(folder: Path) -> None:
    (folder / "skills" / "here").mkdir(parents=True)
    (folder / "skills" / "here" / "SKILL.md").write_text("---")
    (folder / "skills" / "empty").mkdir()
    config = echo(prompt_files=["system-prompt.md", "gone.md"], skills=["here", "empty", "gone", "*"])
    report = check(config, folder)
    assert details(report.warnings, "Prompt file") == ["Missing prompt file: gone.md"]
    assert details(report.warnings, "Skill") == [
        "Missing skill package: empty",
        "Missing skill package: gone",
    ]
    assert report.ok


def test_a_model_without_endpoint_or_key_is_a_warning_for_those_who_use_one(folder: Path) -> None:
    def warned(model: str, env: dict[str, str], runtime: str = "langgraph") -> list[str]:
        return details(check(WorkspaceConfig(runtime=runtime, model=model), folder, env).warnings, "Model")

    assert warned("openai:m", {}) == ["No API key for the model openai:m"]
    assert "has no base URL" in warned("lab:m", {})[0]
    assert warned("openai:m", {"OPENAI_API_KEY": "k"}) == []
    assert warned("ollama:m", {}) == []
    assert warned("openai:m", {}, runtime="echo") == []
    assert warned("openai:m", {"ADAPTER_MODULE": "mine"}) == []
    assert warned("anthropic:m", {"CLAUDE_CODE_OAUTH_TOKEN": "t"}, runtime="claude-code") == []


@pytest.mark.parametrize(
    ("backend", "commands", "env", "ok"),
    [
        ("auto", ["podman"], {}, True),
        ("auto", ["msb"], {}, False),
        ("auto", [], {}, False),
        ("docker", ["bwrap"], {}, False),
        ("bubblewrap", ["bwrap"], {}, True),
        ("microsandbox", ["msb"], {}, True),
        ("subprocess", [], {}, True),
        ("none", [], {}, True),
        ("e2b", ["docker"], {}, False),
        ("e2b", [], {"E2B_API_KEY": "k"}, True),
    ],
)
def test_a_sandbox_that_is_not_there_is_a_warning(
    folder: Path, backend: str, commands: list[str], env: dict[str, str], ok: bool
) -> None:
    def find(command: str) -> str | None:
        return command if command in commands else None

    config = echo(sandbox=SandboxConfig(backend=backend))
    assert (details(check(config, folder, env, find_command=find).warnings, "Sandbox") == []) is ok
    for tools in (["!run_code"], ["commit_memory"]):
        config = echo(sandbox=SandboxConfig(backend=backend), tools=tools)
        assert details(check(config, folder, env, find_command=find).warnings, "Sandbox") == []


def test_disk_clock_platform_and_template_are_warnings(folder: Path) -> None:
    report = check(
        echo(template_schema_version=2),
        folder,
        free_bytes=lambda _folder: 100 * 1024 * 1024,  # pyright: ignore[reportUnknownLambdaType]
        platform_problem="Platform not reachable: http://p",
        clock_skew_seconds=-61.0,
    )
    assert details(report.warnings, "Disk") == [f"Only 100 MiB free in {folder}"]
    assert details(report.warnings, "Clock") == ["The clock differs from the platform's by 61 s"]
    assert details(report.warnings, "Platform") == ["Platform not reachable: http://p"]
    assert details(report.warnings, "Template") == ["The template has schema version 2; this runtime knows 1"]
    assert report.ok
    assert check(echo(), folder, clock_skew_seconds=60.0).warnings == []


def test_a_config_directory_that_is_gone_does_not_stop_preflight(folder: Path) -> None:
    report = run_preflight(echo(), folder / "gone", env={}, get_adapter=finding(Echo), list_adapters=rows)
    assert details(report.warnings, "Prompt file") == ["Missing prompt file: system-prompt.md"]


def test_the_report_is_printed_failures_first_each_with_its_fix(capsys: pytest.CaptureFixture[str]) -> None:
    warned = PreflightIssue("warn", "Disk", "Only 1 MiB free", "")
    failed = PreflightIssue("fail", "A2A port", "Invalid A2A port: -1", "Set another.")
    render_preflight_report(PreflightReport([warned], [failed]))
    assert capsys.readouterr().out == (
        "[FAIL] A2A port: Invalid A2A port: -1\n  Fix: Set another.\n[WARN] Disk: Only 1 MiB free\n"
    )
    render_preflight_report(PreflightReport())
    assert capsys.readouterr().out == ""
