"""What is wrong with config.yaml is told at once, each problem with its place."""

import contextlib
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from molecule_runtime.domain.config import WorkspaceConfig
from molecule_runtime.settings import yaml_files
from molecule_runtime.settings.config import ConfigError, load_config


def problems(folder: Path, text: str | bytes) -> list[str]:
    file = folder / "config.yaml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError) as caught:
        load_config(folder, {})
    return [problem.removeprefix(f"{file}:") for problem in caught.value.problems]


def test_every_wrong_type_is_listed_with_line_column_and_path(tmp_path: Path) -> None:
    text = """\
name: [a]
version: {a: 1}
model: 5
runtime_config:
  timeout: soon
  args: [1, [2]]
  models: 3
skills: {a: b}
env:
  required: [A, {none_of: [B]}, 3]
a2a:
  port: "8000"
  streaming: "yes"
delegation: fast
rbac:
  allowed_actions:
    writer: [memory.write, 1]
hitl: {channels: dashboard}
effort: extreme
task_budget: 100
observability: {sample_ratio: 1.5}
sub_workspaces: [child]
"""
    assert problems(tmp_path, text) == [
        "1:7: name: expected string, got list",
        "2:10: version: expected string, got mapping",
        "3:8: model: expected string, got integer",
        "5:12: runtime_config.timeout: expected integer, got string",
        "6:13: runtime_config.args.1: expected string, got list",
        "7:11: runtime_config.models: expected string or mapping, got integer",
        "8:9: skills: expected list, got mapping",
        "10:17: env.required.1: expected string or {any_of: [names]}, got mapping",
        "10:33: env.required.2: expected string, got integer",
        "12:9: a2a.port: expected integer, got string",
        "13:14: a2a.streaming: expected boolean, got string",
        "14:13: delegation: expected mapping, got string",
        "17:28: rbac.allowed_actions.writer.1: expected string, got integer",
        "18:18: hitl.channels: expected mapping, got string",
        "19:9: effort: expected one of \"\", low, medium, high, xhigh, max, got 'extreme'",
        "20:14: task_budget: expected 0 or an integer of at least 20000, got 100",
        "21:31: observability.sample_ratio: expected number from 0 to 1, got 1.5",
        "22:18: sub_workspaces.0: expected mapping, got string",
    ]


def test_a_config_error_is_a_value_error_with_one_line_for_each_problem(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("name: 1\nrole: 2")
    with pytest.raises(ValueError) as caught:
        load_config(tmp_path, {})
    assert len(str(caught.value).splitlines()) == 2


@pytest.mark.parametrize(
    ("text", "place", "sentence"),
    [
        ("- a", "1:1", "(root): expected mapping, got list"),
        ("\n  hello", "2:3", "(root): expected mapping, got string"),
        ("name: [a", "1:9", "(root): expected YAML, got "),
        ("name: a\n  b: c", "2:4", "(root): expected YAML, got mapping values are not allowed here"),
        ("name: a\n---\nname: b", "2:1", "(root): expected YAML, got but found another document"),
        ("name: *nobody", "1:7", "(root): expected YAML, got found undefined alias"),
        ("name: a\x07b", "1:8", "(root): expected YAML, got a character that YAML does not allow"),
        (
            "name: !!python/name:os.system x",
            "1:7",
            "name: expected plain value, got tag !!python/name:os.system",
        ),
        ("extra: !!timestamp 2026-01-01", "1:8", "extra: expected plain value, got tag !!timestamp"),
        ("skills: !!set {a}", "1:9", "skills: expected plain value, got tag !!set"),
        ("other: !mine x", "1:8", "other: expected plain value, got tag !mine"),
        ("tier: !!int one", "1:7", "tier: expected !!int, got string"),
        ('name: "\\ud800"', "1:7", "name: expected text that can be stored, got NUL or half a character"),
        ("? [a]\n: b", "1:3", "(root): expected string as key, got something else"),
        ("<<: 3", "1:5", "(root): expected mapping to merge, got integer"),
        (b"name: ok\nrole: \xff", "2:7", "(root): expected UTF-8 text, got byte 0xff"),
    ],
)
def test_what_is_no_configuration_is_told_with_its_place(
    tmp_path: Path, text: str | bytes, place: str, sentence: str
) -> None:
    [problem] = problems(tmp_path, text)
    assert problem.startswith(f"{place}: {sentence}")


def test_a_key_that_stands_twice_is_told_with_both_lines(tmp_path: Path) -> None:
    text = "rbac: {roles: [admin]}\na2a:\n  port: 1\n  port: 2\nrbac: {roles: [reader]}"
    assert problems(tmp_path, text) == [
        "4:3: a2a.port: expected one value, got a second one (the first is in line 3)",
        "5:1: rbac: expected one value, got a second one (the first is in line 1)",
    ]


def test_merged_mappings_give_what_the_block_does_not_say_itself(tmp_path: Path) -> None:
    text = "x: &x {port: 1, bind: a}\ny: &y {bind: b, public_url: 'http://y'}\na2a: {<<: [*x, *y], port: 2}"
    (tmp_path / "config.yaml").write_text(text)
    a2a = load_config(tmp_path, {}).a2a
    assert (a2a.port, a2a.bind, a2a.public_url) == (2, "a", "http://y")


def test_dates_stay_as_they_are_written(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("version: 2026-11-17\nruntime_config: {since: 2026-99-99}")
    config = load_config(tmp_path, {})
    assert (config.version, config.runtime_config.extra) == ("2026-11-17", {"since": "2026-99-99"})


def test_an_alias_bomb_is_refused(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    [problem] = problems(tmp_path, "\n".join(lines))
    assert f"expected at most {yaml_files.MAX_VALUES} values" in problem


@pytest.mark.parametrize("text", ["a: &a [*a]", "a: &a {b: *a}", "a: &a {<<: *a}", f"a: {'[' * 1_000}"])
def test_endless_nesting_is_refused(tmp_path: Path, text: str) -> None:
    [problem] = problems(tmp_path, text)
    assert f"expected at most {yaml_files.MAX_DEPTH} levels, got more" in problem


def test_a_huge_file_is_refused_without_being_parsed(tmp_path: Path) -> None:
    [problem] = problems(tmp_path, b"a" * (yaml_files.MAX_BYTES + 1))
    assert problem == f"1:1: (root): expected at most {yaml_files.MAX_BYTES} bytes, got more"


scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.dates()
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
known = st.sampled_from([*WorkspaceConfig.__dataclass_fields__, "extra", "warnings"])
nested = st.sampled_from(
    ["mode", "port", "timeout", "required", "roles", "backend", "args", "models", "channels"]
)
blocks = st.dictionaries(nested, values, max_size=3)
mappings = st.dictionaries(known | st.text(max_size=8), values | blocks, max_size=6)


@given(mapping=mappings)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@example(mapping={"tier": float("nan"), "delegation": {"timeout": float("inf")}, "a2a": {"port": 10**400}})
@example(mapping={"delegation": {"timeout": 10**400}})
def test_any_mapping_loads_or_raises_config_error(tmp_path: Path, mapping: dict[str, Any]) -> None:
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(mapping, allow_unicode=True), "utf-8")
    with contextlib.suppress(ConfigError):
        assert isinstance(load_config(tmp_path, {}), WorkspaceConfig)


@given(text=st.text("abc:-[]{}&*!<>|'\"\\ \n\t#%@0~?,", max_size=60))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@example(text="%YAML 9.9\n---\na: b")
@example(text='"\\U99999999"')
@example(text="a: 1__")
@example(text="a: !!binary '=='")
@example(text="a: " + "9" * 5000)
@example(text="a: 190:20:30.15")
def test_any_text_loads_or_raises_config_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.yaml").write_text(text, "utf-8")
    with contextlib.suppress(ConfigError):
        assert isinstance(load_config(tmp_path, {}), WorkspaceConfig)
