"""The validators of plugins, workspace and org templates, and channels."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from molecule_plugin import (
    ValidationError,
    validate_channel_config,
    validate_channel_file,
    validate_manifest,
    validate_org_template,
    validate_plugin,
    validate_skill,
    validate_workspace_template,
)
from molecule_plugin.channel import channel_findings
from molecule_plugin.org import org_findings
from molecule_plugin.workspace import template_findings
from molecule_wire import registry
from tests.rows import each_row

WORKSPACE = {"name": "Ada", "runtime": "llm"}
ORG = {"name": "Acme", "workspaces": [{"name": "PM"}]}
TELEGRAM = {"type": "telegram", "config": {"bot_token": "123:" + "a" * 35}}

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.dates(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(max_size=8)
            | st.sampled_from(["name", "children", "schedules", "channels", "config", "type", "plugins"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)


def workspace(folder: Path, value: object) -> list[str]:
    (folder / "config.yaml").write_text(yaml.safe_dump(value), encoding="utf-8")
    return [error.message for error in validate_workspace_template(folder)]


def org(folder: Path, value: object) -> list[str]:
    (folder / "org.yaml").write_text(yaml.safe_dump(value), encoding="utf-8")
    return [error.message for error in validate_org_template(folder)]


def org_node(folder: Path, **fields: object) -> list[str]:
    return org(folder, {"name": "Acme", "workspaces": [{"name": "PM", **fields}]})


# Workspace templates


def test_a_workspace_template_needs_name_and_runtime_and_no_more(tmp_path: Path) -> None:
    assert [error.message for error in validate_workspace_template(tmp_path)] == ["missing config.yaml"]
    assert workspace(tmp_path, WORKSPACE) == []
    assert workspace(tmp_path, WORKSPACE | {"tier": 3, "runtime_config": None}) == []
    assert workspace(tmp_path, {}) == ["missing required field: name", "missing required field: runtime"]


@pytest.mark.parametrize(
    ("changed", "fragment"),
    [
        ({"runtime": "nope"}, "runtime='nope' — must be one of: ['agent-framework', "),
        ({"tier": 4}, "tier must be 1, 2, or 3; got 4"),
        ({"tier": True}, "tier must be 1, 2, or 3; got True"),
        ({"tier": "2"}, "tier must be 1, 2, or 3; got '2'"),
        ({"runtime_config": []}, "runtime_config must be an object"),
        (
            {"runtime_config": {"required_env": "KEY"}},
            "runtime_config.required_env must be a list of env var names",
        ),
        (
            {"runtime_config": {"required_env": [1]}},
            "runtime_config.required_env must be a list of env var names",
        ),
        ({"runtime_config": {"timeout": "5"}}, "runtime_config.timeout must be a number; got '5'"),
        ({"runtime_config": {"timeout": True}}, "runtime_config.timeout must be a number; got True"),
    ],
)
def test_each_fault_of_a_workspace_has_its_words(
    tmp_path: Path, changed: dict[str, object], fragment: str
) -> None:
    [fault] = workspace(tmp_path, WORKSPACE | changed)
    assert fragment in fault


def test_a_workspace_file_that_is_no_object_is_said(tmp_path: Path) -> None:
    assert workspace(tmp_path, []) == ["config.yaml must be a YAML object"]
    (tmp_path / "config.yaml").write_text("a: [")
    assert validate_workspace_template(tmp_path)[0].message.startswith("invalid YAML: ")


@each_row("runtime", sorted(registry.SUPPORTED_RUNTIMES))
def test_every_runtime_of_the_registry_is_accepted(tmp_path: Path, runtime: str) -> None:
    assert workspace(tmp_path, {"name": "Ada", "runtime": runtime}) == []
    assert org_node(tmp_path, runtime=runtime) == []


def test_an_error_is_a_value_with_file_line_and_text(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("name: Ada\nruntime: llm\ntier: 9\n")
    [error] = validate_workspace_template(tmp_path)
    assert error == ValidationError("config.yaml", "tier must be 1, 2, or 3; got 9")
    assert str(error) == "config.yaml:3: tier must be 1, 2, or 3; got 9"
    assert str(ValidationError("a", "b")) == "a: b"


# Org templates


def test_an_org_template_needs_a_name_and_workspaces(tmp_path: Path) -> None:
    assert [error.message for error in validate_org_template(tmp_path)] == ["missing org.yaml"]
    assert org(tmp_path, ORG) == []
    assert org(tmp_path, ORG | {"defaults": None}) == []
    assert org(tmp_path, {"workspaces": []}) == [
        "missing required field: name",
        "missing required field: workspaces (non-empty list)",
    ]
    assert org(tmp_path, 3) == ["org.yaml must be a YAML object"]
    assert "defaults must be an object" in org(tmp_path, ORG | {"defaults": []})[0]
    assert "workspaces must be a list" in org(tmp_path, ORG | {"workspaces": {"PM": {"tier": 1}}})[0]
    (tmp_path / "org.yaml").write_text("a: [")
    assert validate_org_template(tmp_path)[0].message.startswith("invalid YAML")


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"tier": 0}, "workspaces[0:PM]: tier must be 1, 2, or 3; got 0"),
        ({"tier": True}, "workspaces[0:PM]: tier must be 1, 2, or 3"),
        ({"runtime": "x"}, "workspaces[0:PM]: runtime='x' — must be one of"),
        ({"workspace_access": "all"}, "workspaces[0:PM]: workspace_access='all' — must be one of"),
        ({"workspace_access": "read_only"}, "requires workspace_dir to be set"),
        ({"channels": {"a": 1}}, "workspaces[0:PM].channels: must be a list"),
        ({"channels": ["x"]}, "workspaces[0:PM].channels[0]: must be an object"),
        ({"schedules": "x"}, "workspaces[0:PM].schedules: must be a list"),
        ({"schedules": [{"prompt": "x"}]}, "workspaces[0:PM].schedules[0]: missing 'cron_expr'"),
        ({"schedules": [{"cron_expr": "* * * * *"}]}, "workspaces[0:PM].schedules[0]: missing 'prompt'"),
        ({"plugins": "x"}, "workspaces[0:PM].plugins: must be a list of strings"),
        ({"plugins": [1]}, "workspaces[0:PM].plugins: must be a list of strings"),
        ({"external": True}, "workspaces[0:PM]: external=true requires url to be set"),
        ({"children": {"a": 1}}, "workspaces[0:PM].children: must be a list"),
        ({"children": [{"name": "A"}, 3]}, "workspaces[0:PM].children[1]: must be an object, got int"),
        (
            {"children": [{"name": "A"}, {"name": "X", "children": [{"tier": 1}]}]},
            "workspaces[0:PM].children[1:X].children[0]: missing required field 'name'",
        ),
    ],
)
def test_each_fault_of_a_node_has_its_label_and_words(
    tmp_path: Path, fields: dict[str, object], fault: str
) -> None:
    [message] = org_node(tmp_path, **fields)
    assert fault in message


def test_a_good_node_may_use_everything(tmp_path: Path) -> None:
    assert (
        org_node(
            tmp_path,
            tier=1,
            runtime="claude-code",
            workspace_access="read_write",
            workspace_dir="/srv/x",
            channels=[TELEGRAM],
            schedules=[
                {"cron_expr": "0 9 * * 1-5", "prompt_file": "x.md", "timezone": "Europe/Berlin"},
            ],
            plugins=["a", "!b"],
            children=[{"name": "X", "external": True, "url": "https://x.example"}],
        )
        == []
    )
    assert org_findings(tmp_path) == []


def test_what_only_may_be_wrong_is_a_warning(tmp_path: Path) -> None:
    assert (
        org_node(
            tmp_path,
            external=True,
            delivery_mode="poll",
            schedules=[{"cron_expr": "61 * * * *", "prompt": "x", "timezone": "Mars/Base"}],
            channels=[{"type": "telegram", "config": {"bot_token": "wrong"}}, {"type": "fax"}],
        )
        == []
    )
    assert [found.code for found in org_findings(tmp_path)] == [
        "external-without-url",
        "bot-token-format",
        "channel-invalid",
        "cron-invalid",
        "timezone-invalid",
    ]


@pytest.mark.parametrize("zone", ["", "../etc/passwd", "/etc/passwd", "Europe", 3, "x" * 5000])
def test_odd_time_zones_are_warnings(tmp_path: Path, zone: object) -> None:
    org_node(tmp_path, schedules=[{"cron_expr": "* * * * *", "prompt": "x", "timezone": zone}])
    assert [found.code for found in org_findings(tmp_path)] == ["timezone-invalid"]


def test_the_map_form_is_an_org_file_too(tmp_path: Path) -> None:
    assert org(tmp_path, {"org_name": "Acme", "workspaces": {"PM": {"children": [{"name": "X"}]}}}) == []
    assert org(tmp_path, {"org_name": "Acme", "workspaces": {"PM": {"tier": 9}, "QA": 3}}) == [
        "workspaces[0:PM]: tier must be 1, 2, or 3; got 9",
        "workspaces[1:QA]: must be an object, got int",
    ]


def test_a_fault_of_a_node_has_its_line(tmp_path: Path) -> None:
    (tmp_path / "org.yaml").write_text(
        "name: A\nworkspaces:\n- name: PM\n  children:\n  - name: X\n    tier: 9\n"
    )
    assert [error.line for error in validate_org_template(tmp_path)] == [6]


def test_included_files_are_looked_at_and_stay_inside(tmp_path: Path) -> None:
    folder = tmp_path / "org"
    (folder / "teams").mkdir(parents=True)
    (folder / "org.yaml").write_text("name: A\nworkspaces:\n- !include teams/dev.yaml\n")
    (folder / "teams" / "dev.yaml").write_text("name: Dev\ntier: 9\n")
    assert [error.message for error in validate_org_template(folder)] == [
        "workspaces[0:Dev]: tier must be 1, 2, or 3; got 9"
    ]
    (tmp_path / "secret.yaml").write_text("name: Dev\n")
    for hostile, fragment in (
        ("../secret.yaml", "leaves the template"),
        ("/etc/hostname", "leaves the template"),
        ("org.yaml", "16 deep"),
        ("nowhere.yaml", "No such file"),
    ):
        (folder / "org.yaml").write_text(
            f"name: A\nworkspaces:\n- !include {hostile}\n- !include {hostile}\n"
        )
        [error] = validate_org_template(folder)
        assert fragment in error.message
        assert error.line == 3


def test_an_included_file_names_others_as_it_sees_them(tmp_path: Path) -> None:
    (tmp_path / "teams" / "deep").mkdir(parents=True)
    (tmp_path / "org.yaml").write_text("name: A\nworkspaces:\n- !include teams/dev.yaml\n")
    (tmp_path / "teams" / "dev.yaml").write_text("name: Dev\nchildren:\n- !include deep/one.yaml\n")
    (tmp_path / "teams" / "deep" / "one.yaml").write_text("!include ../../two.yaml\n")
    (tmp_path / "two.yaml").write_text("name: Two\ntier: 9\n")
    assert [error.message for error in validate_org_template(path=tmp_path)] == [
        "workspaces[0:Dev].children[0:Two]: tier must be 1, 2, or 3; got 9"
    ]


def test_every_validator_takes_its_path_by_name(tmp_path: Path) -> None:
    for validate in (validate_workspace_template, validate_plugin, validate_skill, validate_manifest):
        assert validate(path=tmp_path / "nowhere")


def test_an_org_that_loops_or_explodes_is_answered(tmp_path: Path) -> None:
    (tmp_path / "org.yaml").write_text("name: A\nworkspaces: &w\n- name: PM\n  children: *w\n")
    assert validate_org_template(tmp_path) == []
    bomb = ["n0: &n0 {name: x}"]
    bomb += [f"n{n}: &n{n} {{name: x, children: [{', '.join([f'*n{n - 1}'] * 9)}]}}" for n in range(1, 25)]
    (tmp_path / "org.yaml").write_text("\n".join(["name: A", *bomb, "workspaces: [*n24]"]))
    assert validate_org_template(tmp_path) == []


# Channels


@pytest.mark.parametrize(
    "channel",
    [
        TELEGRAM,
        {"type": "slack", "config": {"bot_token": "x", "channel_id": "C1"}, "enabled": False},
        {"type": "slack", "config": {"webhook_url": "https://hooks.slack.com/x"}},
        {"type": "discord", "config": {"webhook_url": "https://discord.com/api/webhooks/1/x"}},
        {"type": "lark", "config": {"webhook_url": "https://open.feishu.cn/x"}},
    ],
)
def test_every_channel_of_the_registry_is_accepted(channel: dict[str, object]) -> None:
    assert validate_channel_config(channel) == []


@pytest.mark.parametrize(
    ("channel", "faults"),
    [
        ({}, ["missing required field: type"]),
        ({"type": "fax"}, ["type='fax' — must be one of ['discord', 'lark', 'slack', 'telegram']"]),
        ({"type": 3}, ["type=3 — must be one of ['discord', 'lark', 'slack', 'telegram']"]),
        ({"type": "lark", "config": []}, ["config must be an object; got list"]),
        ({"type": "telegram", "config": {}}, ["config.bot_token is required for type='telegram'"]),
        ({"type": "discord"}, ["config.webhook_url is required for type='discord'"]),
        (
            {"type": "slack", "config": {"bot_token": "x"}},
            ["config.channel_id is required for type='slack' (or give config.webhook_url)"],
        ),
        (TELEGRAM | {"enabled": "yes"}, ["enabled must be a boolean; got 'yes'"]),
    ],
)
def test_each_fault_of_a_channel_has_its_words(channel: dict[str, object], faults: list[str]) -> None:
    assert validate_channel_config(channel, "here") == [ValidationError("here", fault) for fault in faults]


def test_a_channel_file_is_one_channel_or_a_list_in_yaml_or_json(tmp_path: Path) -> None:
    path = tmp_path / "channels.json"
    assert [error.message for error in validate_channel_file(path)] == ["file does not exist"]
    for text, faults in (
        ('[{"type": "discord", "config": {"webhook_url": "https://x"}}]', []),
        ("type: discord\nconfig: {webhook_url: 'https://x'}\n", []),
        ('{\n\t"type": "discord",\n\t"config": {"webhook_url": "https://x"}\n}', []),
        ("", ["file is empty"]),
        ("{", ["invalid YAML / JSON: "]),
        ("3", ["top-level must be a channel object or list; got int"]),
        ("- 3\n- type: fax\n", ["[0]: entry must be an object", "[1]: type='fax' — must be one of"]),
    ):
        path.write_text(text)
        found = [error.message for error in validate_channel_file(path)]
        assert len(found) == len(faults)
        assert all(fault in message for fault, message in zip(faults, found, strict=True))


def test_a_telegram_token_of_another_form_is_a_warning() -> None:
    doubtful = {"type": "telegram", "config": {"bot_token": "abc"}}
    assert [found.code for found in channel_findings(doubtful)] == ["bot-token-format"]
    assert channel_findings({"type": "telegram", "config": {"bot_token": "${BOT_TOKEN}"}}) == []


# Plugins


def test_a_plugin_is_judged_part_by_part(tmp_path: Path) -> None:
    root = tmp_path / "demo"
    (root / "skills" / "bad").mkdir(parents=True)
    (root / "skills" / "notes.txt").write_text("not a skill")
    (root / "rules").mkdir()
    (root / "rules" / "r.md").write_text("# r\n<!-- molecule:begin -->\n")
    (root / "README.md").write_text("<!-- molecule: is fine here -->")
    (root / "link").symlink_to("/etc/hostname")
    (root / "plugin.sig").write_bytes(b"x" * 9000)
    assert validate_plugin(root) == {
        "plugin.yaml": [f"manifest not found: {root}/plugin.yaml"],
        "skills/bad": [f"SKILL.md not found: {root}/skills/bad/SKILL.md"],
        "rules/r.md": ["contains the reserved marker '<!-- molecule:'; write it another way"],
        "link": ["is a link; a plugin holds only files and directories"],
        "plugin.sig": ["plugin.sig is larger than 8192 bytes"],
    }


def test_a_plugin_over_a_limit_names_the_file(tmp_path: Path) -> None:
    root = tmp_path / "demo"
    (root / "rules").mkdir(parents=True)
    (root / "plugin.yaml").write_text("name: demo\n")
    (root / "rules" / "big.md").write_text("x" * (256 * 1024 + 1))
    with (root / "huge.bin").open("wb") as file:
        file.truncate(51 * 1024 * 1024)
    (root / "/".join("d" * 40)).mkdir(parents=True)
    faults = validate_plugin(root)
    assert "longer than 262144 bytes" in faults["rules/big.md"][0]
    assert "larger than 52428800 bytes" in faults["huge.bin"][0]
    assert "deeper than 32 levels" in faults["/".join("d" * 33)][0]


def test_an_empty_or_missing_plugin_lacks_only_its_manifest(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "nowhere"):
        assert list(validate_plugin(place)) == ["plugin.yaml"]


# Whatever is in the file


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(json_values)
def test_no_value_makes_a_validator_raise(tmp_path: Path, value: object) -> None:
    text = yaml.safe_dump(value)
    for name, validate in (
        ("config.yaml", template_findings),
        ("org.yaml", org_findings),
    ):
        (tmp_path / name).write_text(text, encoding="utf-8")
        assert all(found.message for found in validate(tmp_path))
    assert all(error.message for error in validate_channel_config(value))
    validate_channel_file(tmp_path / "org.yaml")


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(json_values, max_size=3), json_values)
def test_no_tree_of_workspaces_makes_the_org_validator_raise(
    tmp_path: Path, nodes: list[object], defaults: object
) -> None:
    org(
        tmp_path,
        {"name": "A", "defaults": defaults, "workspaces": [{"name": "x", "children": nodes}, *nodes]},
    )
