"""`plugin.yaml`: what validators say about it, and what installers read from it."""

from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import molecule_plugin
from molecule_plugin import errors, validate_manifest
from molecule_plugin.manifest import read_manifest
from molecule_plugin.manifest_rules import document_findings, manifest_findings
from molecule_plugin.plugin_manifest import manifest_of
from molecule_plugin.yaml_reader import parse_yaml
from molecule_wire import registry
from tests.rows import each_row

yaml_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.dates() | st.binary(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.text(max_size=8) | st.integers() | st.none(), inner, max_size=4)
    ),
    max_leaves=12,
)
KEYS = [*molecule_plugin.PLUGIN_YAML_SCHEMA["properties"], "other"]


def written(folder: Path, text: str) -> Path:
    path = folder / "plugin.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def faults(text: str) -> list[str]:
    return [finding.message for finding in document_findings(parse_yaml(text))]


def test_a_small_manifest_is_valid(tmp_path: Path) -> None:
    assert validate_manifest(written(tmp_path, "name: demo\nversion: 1.0.0\n")) == []


def test_a_missing_manifest_is_named_with_its_path(tmp_path: Path) -> None:
    path = tmp_path / "plugin.yaml"
    assert validate_manifest(path) == [f"manifest not found: {path}"]
    assert validate_manifest(str(path)) == [f"manifest not found: {path}"]


@each_row(
    ("text", "fragment"),
    [
        ("name: [", "yaml parse error: "),
        (
            "name: a\nname2: b: c\n",
            "yaml parse error: mapping values are not allowed here (line 2, column 9)",
        ),
        ("name: !!python/object:os.system x", "yaml parse error: "),
        ('name: a\ndescription: "\\0"\n', "yaml parse error: a text holds NUL"),
        ('name: a\nx: {"\\uD800": 1}\n', "yaml parse error: a text holds NUL or half a character"),
        ("- a\n", "manifest root must be a mapping"),
        ("", "manifest root must be a mapping"),
        ("version: '1'\n", "`name` is required and must be a non-empty string"),
        ("name: '  '\n", "`name` is required and must be a non-empty string"),
        ("name: 7\n", "`name` is required and must be a non-empty string"),
        ("name: a\ntags: x\n", "`tags` must be a list"),
        ("name: a\nskills: {}\n", "`skills` must be a list"),
        ("name: a\nrules: 1\n", "`rules` must be a list"),
        ("name: a\nprompt_fragments: x\n", "`prompt_fragments` must be a list"),
        ("name: a\nruntimes: llm\n", "`runtimes` must be a list"),
        ("name: a\nruntimes: [1]\n", "`runtimes` entry must be string, got int"),
        ("name: a\nsha256: 12\n", "`sha256` must be a string (64 lowercase hex characters)"),
        ("name: a\nsha256: abc\n", "`sha256` must be exactly 64 hex characters, got 3"),
        (
            f"name: a\nsha256: '{'A' * 64}'\n",
            "`sha256` must contain only lowercase hex characters (0–9, a–f)",
        ),
    ],
)
def test_each_fault_has_its_words(text: str, fragment: str) -> None:
    assert any(fragment in fault for fault in faults(text)), faults(text)


def test_an_unknown_runtime_is_answered_with_the_list() -> None:
    [fault] = faults("name: a\nruntimes: [claude-code, lm]\n")
    assert fault.startswith("unknown runtime 'lm' — supported: ['agent_framework', ")
    assert fault.endswith("(use underscore form, e.g. 'claude_code')")


@each_row("runtime", sorted(registry.SUPPORTED_RUNTIMES))
def test_every_runtime_of_the_registry_is_accepted(runtime: str) -> None:
    assert faults(f"name: a\nruntimes: [{runtime}]\n") == []


def test_the_environment_can_name_more_runtimes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOLECULE_EXTRA_RUNTIMES", "my-runtime, other")
    assert faults("name: a\nruntimes: [my_runtime, other]\n") == []


def test_a_fault_carries_file_and_line(tmp_path: Path) -> None:
    path = written(tmp_path, "# about\nname: a\n\nruntimes:\n  - llm\n  - lm\ntags: x\n")
    found = {(one.file, one.line) for one in manifest_findings(path)}
    assert found == {("plugin.yaml", 6), ("plugin.yaml", 7)}
    assert str(manifest_findings(path)[0]) == "plugin.yaml:7: `tags` must be a list"


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere.yaml").write_text("name: a\n")
    (tmp_path / "plugin.yaml").symlink_to("elsewhere.yaml")
    assert "a link" in validate_manifest(tmp_path / "plugin.yaml")[0]
    with pytest.raises(errors.PluginManifestError, match="a link"):
        read_manifest(tmp_path)


def test_a_manifest_that_explodes_or_loops_or_is_huge_is_answered_quickly(tmp_path: Path) -> None:
    levels = [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
    assert faults("name: a\na0: &a0 [x]\n" + "\n".join(levels) + "\n") == []
    assert faults("name: a\nloop: &l [*l]\nmap: &m {m: *m}\n") == []
    assert "nested too deeply" in faults("name: " + "[" * 600)[0]
    assert "longer than" in validate_manifest(written(tmp_path, "name: a\n#" + "x" * 70_000))[0]
    (tmp_path / "plugin.yaml").write_bytes(b"name: \xff\n")
    assert "not UTF-8" in validate_manifest(tmp_path / "plugin.yaml")[0]


@settings(max_examples=60)
@given(st.dictionaries(st.sampled_from(KEYS), yaml_values, max_size=6) | yaml_values)
def test_no_value_makes_the_validator_raise(value: object) -> None:
    text = yaml.safe_dump(value, allow_unicode=True)
    assert all(fault for fault in faults(text))
    try:
        manifest_of(parse_yaml(text))
    except errors.PluginManifestError:
        assert faults(text)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text() | st.text("[]{}&*!|>:- \n'\"abc0", max_size=60))
def test_no_text_makes_the_validator_raise(tmp_path: Path, text: str) -> None:
    (tmp_path / "plugin.yaml").write_bytes(text.encode("utf-8", "surrogatepass"))
    validate_manifest(tmp_path / "plugin.yaml")


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("AKIA" + "ABCDEFGHIJKLMNOP", "AWS key"),
        ("ghp_" + "a1" * 18, "GitHub token"),
        ("ghs_" + "a1" * 18, "GitHub token"),
        ("sk-" + "abcd1234" * 4, "sk- key"),
        ('header "Bearer abcdefgh"', "bearer token"),
        ("Bearer " + "abcd1234" * 4, "bearer token"),
        ("0123456789abcdef" * 4, "64+ hex string"),
        ("password=hunter2x", "password/api_key/secret assignment"),
        ("api_key: 'abcdef99'", "password/api_key/secret assignment"),
        ("-----BEGIN RSA PRIVATE KEY-----", "private key block"),
        ("xoxb-" + "1234567890-abc", "Slack token"),
        ("postgres://me:pw@db/x", "URL with credentials"),
    ],
)
def test_each_kind_of_secret_is_found_wherever_it_stands(value: str, kind: str) -> None:
    rest = "— bundles must not contain credentials; use platform secrets instead"
    for key, manifest in (
        ("homepage", {"name": "a", "homepage": value}),
        ("tags[1]", {"name": "a", "tags": ["x", value]}),
        ("x.y[0].z", {"name": "a", "x": {"y": [{"z": value}]}}),
    ):
        assert faults(yaml.safe_dump(manifest)) == [f"possible secret detected in `{key}`: {kind} {rest}"]


def test_a_secret_is_never_repeated_in_the_message() -> None:
    token = "ghp_" + "a1" * 18
    assert token not in str(faults(f"name: a\nx: {token}\n"))


def test_a_password_under_its_own_key_is_an_assignment() -> None:
    assert "assignment" in faults("name: a\nconfig: {api_key: abcdef0123}\n")[0]
    assert faults("name: a\nconfig: {api_key: '${API_KEY}', secret: true}\n") == []


@pytest.mark.parametrize(
    "key", ["sha256", "content_sha256", "digest", "checksum", "commit", "ref", "base_ref"]
)
def test_digests_under_their_names_are_no_secrets(key: str) -> None:
    assert faults(f"name: a\n{key}: {'ab12' * 16}\n") == []
    assert faults(f"name: a\n{key}: [{'ab12' * 16}]\n") == (
        [] if key != "sha256" else faults("name: a\nsha256: []\n")
    )


def test_installers_read_every_field(tmp_path: Path) -> None:
    written(
        tmp_path,
        "name: demo\nversion: 1.10\ntags: [a, 1]\nruntimes: [claude-code, llm, claude_code]\n"
        "adapters: {claude-code: a/b.py, x: 1}\nhooks: [h]\nrequires: [other]\n"
        "permissions: {network: [a.example], env: [KEY], setup: true, mcp_servers: [m]}\nfuture: {x: 1}\n",
    )
    manifest = read_manifest(tmp_path)
    assert manifest is not None
    assert (manifest.name, manifest.version, manifest.tags) == ("demo", "1.10", ("a",))
    assert manifest.runtimes == ("claude_code", "llm")
    assert manifest.adapters == {"claude_code": "a/b.py"}
    assert manifest.permissions.network == ("a.example",)
    assert manifest.permissions.env == ("KEY",)
    assert manifest.permissions.setup
    assert manifest.extra == {"future": {"x": 1}}
    assert manifest.warnings == ("`version` is not in quotes and was read as the text '1.10'",)
    assert manifest.supports("claude-code")
    assert not manifest.supports("crewai")


def test_a_manifest_without_runtimes_supports_all_and_a_directory_without_one_has_none(
    tmp_path: Path,
) -> None:
    assert read_manifest(tmp_path) is None
    manifest = read_manifest(written(tmp_path, "name: demo\n").parent)
    assert manifest is not None
    assert manifest.version == "0.0.0"
    assert manifest.runtimes is None
    assert manifest.supports("anything")


@pytest.mark.parametrize(
    "text", ["name: [", "- a", "version: '1'", "name: a\nsha256: abc", "name: a\nsha256: null"]
)
def test_a_manifest_that_cannot_be_relied_on_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(errors.PluginManifestError):
        read_manifest(written(tmp_path, text).parent)


def test_the_schema_asks_for_a_name_and_knows_every_key() -> None:
    schema = molecule_plugin.PLUGIN_YAML_SCHEMA
    assert schema["required"] == ["name"]
    assert {"version", "runtimes", "sha256", "permissions", "requires", "hooks"} <= set(schema["properties"])
