"""The command line of plugin authors."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from molecule_plugin import compute_plugin_sha256, lint_plugin
from molecule_plugin.__main__ import main
from molecule_plugin.lock import read_lock

Output = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without trusted keys, who works in an empty directory."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def demo(tmp_path: Path, capsys: Output) -> Path:
    """A plugin as `init` writes it."""
    assert main(["init", "demo"]) == 0
    capsys.readouterr()
    return tmp_path / "demo"


def run_command(capsys: Output, *words: str) -> tuple[int, str, str]:
    code = main(list(words))
    out, err = capsys.readouterr()
    return code, out, err


# init


def test_a_new_plugin_is_free_of_faults_and_warnings(demo: Path, capsys: Output) -> None:
    assert lint_plugin(demo) == []
    assert run_command(capsys, "validate", "--strict", "demo") == (0, "✓ demo: valid plugin\n", "")
    skill = demo / "skills" / "example-skill"
    assert {path.name for path in skill.iterdir()} == {"SKILL.md", "scripts", "references", "assets"}


def test_name_runtimes_and_skill_can_be_chosen(tmp_path: Path) -> None:
    assert main(["init", "x", "--name", "my-plugin", "--runtimes", "claude-code, llm", "--skill", "one"]) == 0
    text = (tmp_path / "x" / "plugin.yaml").read_text()
    assert "name: my-plugin\n" in text
    assert "  - claude_code\n  - llm\n" in text
    assert {path.name for path in (tmp_path / "x" / "adapters").iterdir()} == {"claude_code.py", "llm.py"}
    assert all(len(path.read_text().splitlines()) == 1 for path in (tmp_path / "x" / "adapters").iterdir())
    assert (tmp_path / "x" / "skills" / "one" / "SKILL.md").is_file()


def test_the_script_of_the_new_skill_runs(demo: Path) -> None:
    script = demo / "skills" / "example-skill" / "scripts" / "greet.py"
    done = subprocess.run([sys.executable, script, "Ada"], capture_output=True, text=True, check=True)
    assert done.stdout == "Hello, Ada!\n"


@pytest.mark.parametrize(
    ("words", "fragment"),
    [
        (["init", "full"], "full is not empty"),
        (["init", "new", "--name", "../x"], "is no plugin name"),
        (["init", "New Plugin"], "is no plugin name"),
        (["init", "new", "--runtimes", "nope"], "unknown runtime 'nope' — supported: ["),
        (["init", "new", "--skill", "Bad"], "cannot name a skill"),
    ],
)
def test_init_refuses_and_writes_nothing(
    tmp_path: Path, capsys: Output, words: list[str], fragment: str
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    code, _, err = run_command(capsys, *words)
    assert code == 1
    assert fragment in err
    assert [path.name for path in tmp_path.iterdir()] == ["full"]


# validate


def test_faults_are_told_with_file_and_line(demo: Path, capsys: Output) -> None:
    (demo / "plugin.yaml").write_text("name: demo\nversion: '1.0'\nruntimes: [lm]\n")
    (demo / "adapters" / "claude_code.py").unlink()
    (demo / "skills" / "example-skill" / "SKILL.md").write_text("---\nname: example-skill\n---\n")
    code, out, err = run_command(capsys, "validate", "plugin", "demo")
    assert (code, out) == (1, "")
    assert "✗ demo/plugin.yaml:3: unknown runtime 'lm'" in err
    assert "✗ demo/skills/example-skill/SKILL.md:2: `description` is required" in err
    assert "⚠ demo/plugin.yaml:3: runtime 'lm' has no adaptor" in err


def test_quiet_is_silent_about_what_is_valid_and_strict_counts_warnings(demo: Path, capsys: Output) -> None:
    (demo / ".DS_Store").touch()
    assert run_command(capsys, "validate", "-q", "demo") == (0, "", "")
    code, out, err = run_command(capsys, "validate", "--strict", "demo")
    assert (code, out) == (1, "")
    assert err.startswith("⚠ demo/.DS_Store: ")


def test_several_paths_are_checked_and_one_fault_suffices(demo: Path, capsys: Output) -> None:
    code, out, err = run_command(capsys, "validate", "demo", "nowhere", "demo/plugin.yaml")
    assert code == 1
    assert out == "✓ demo: valid plugin\n"
    assert err == "✗ nowhere: does not exist\n✗ demo/plugin.yaml: not a directory\n"


def test_every_kind_has_its_validator(tmp_path: Path, capsys: Output) -> None:
    (tmp_path / "t").mkdir()
    code, _, err = run_command(capsys, "validate", "workspace", "t")
    assert (code, err) == (1, "✗ t/config.yaml: missing config.yaml\n")
    code, _, err = run_command(capsys, "validate", "org", "t")
    assert (code, err) == (1, "✗ t/org.yaml: missing org.yaml\n")
    (tmp_path / "c.yaml").write_text("- type: fax\n")
    code, _, err = run_command(capsys, "validate", "channel", "c.yaml")
    assert code == 1
    assert err.startswith("✗ c.yaml:1: [0]: type='fax' — must be one of ['discord',")
    (tmp_path / "t" / "config.yaml").write_text("name: a\nruntime: llm\n")
    (tmp_path / "t" / "org.yaml").write_text("name: a\nworkspaces: [{name: b}]\n")
    assert run_command(capsys, "validate", "workspace", "t")[1] == "✓ t: valid workspace template\n"
    assert run_command(capsys, "validate", "org", "t")[1] == "✓ t: valid org template\n"


def test_a_plugin_whose_directory_is_named_like_a_kind_can_be_checked(tmp_path: Path, capsys: Output) -> None:
    assert main(["init", "org"]) == 0
    capsys.readouterr()
    assert run_command(capsys, "validate", "org") == (0, "✓ org: valid plugin\n", "")


@pytest.mark.parametrize("flag", [["--json"], ["--format", "json"]])
def test_programs_get_one_json_object(demo: Path, capsys: Output, flag: list[str]) -> None:
    (demo / "plugin.yaml").write_text("name: demo\ntags: x\n")
    code, out, err = run_command(capsys, "validate", "demo", *flag)
    assert (code, err) == (1, "")
    report = json.loads(out)
    assert not report["valid"]
    assert report["checked"][0]["findings"] == [
        {
            "file": "plugin.yaml",
            "message": "`tags` must be a list",
            "severity": "error",
            "code": "manifest-invalid",
            "line": 2,
        }
    ]


@pytest.mark.parametrize("words", [[], ["validate"], ["dance"], ["validate", "x", "--format", "xml"]])
def test_wrong_usage_is_two(words: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == 2


def test_the_module_is_a_program_and_speaks_on_a_terminal_without_unicode(demo: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "molecule_plugin", "validate", "demo"],
        capture_output=True,
        env={"PYTHONIOENCODING": "ascii", "HOME": str(demo.parent)},
    )
    assert (done.returncode, done.stdout) == (0, b"? demo: valid plugin\n")


# hash, keygen, sign, verify, pack


def test_hash_prints_the_digest_and_writes_it_on_request(demo: Path, capsys: Output) -> None:
    digest = compute_plugin_sha256(demo)
    assert run_command(capsys, "hash", "demo") == (0, f"{digest}\n", "")
    before = (demo / "plugin.yaml").read_text()
    assert run_command(capsys, "hash", "demo", "--write") == (0, f"{digest}\n", "")
    after = (demo / "plugin.yaml").read_text()
    assert [line for line in after.splitlines() if line not in before.splitlines()] == [f'sha256: "{digest}"']
    assert compute_plugin_sha256(demo) == digest
    assert run_command(capsys, "validate", "--strict", "demo")[0] == 0


def test_hash_can_print_the_older_forms(tmp_path: Path, capsys: Output) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p" / "a.txt").write_text("hello\n")
    _, out, _ = run_command(capsys, "hash", "p", "--legacy")
    assert "legacy-tree aed49f7730ca0736fe1a021375d1ca9b509a4e72910b422578df8b4b1930aeca\n" in out
    assert "legacy-manifest none\n" in out


def test_a_key_is_made_used_and_trusted(demo: Path, capsys: Output) -> None:
    code, out, _ = run_command(capsys, "keygen", "--out", "key")
    assert code == 0
    public, key_id, _ = out.splitlines()
    assert (demo.parent / "key").stat().st_mode & 0o777 == 0o600
    assert "seed" not in out
    code, out, _ = run_command(capsys, "sign", "demo", "--key", "key")
    assert code == 0
    assert key_id.removeprefix("key id: ") in out
    assert run_command(capsys, "validate", "--strict", "demo")[0] == 0
    code, out, err = run_command(capsys, "verify", "demo", "--key", public, "--require-signature")
    assert (code, err) == (0, "")
    assert f"signed by {key_id.removeprefix('key id: ')}" in out


def test_keygen_without_a_file_prints_the_secret_and_never_replaces_one(demo: Path, capsys: Output) -> None:
    assert "secret key: ed25519-seed:" in run_command(capsys, "keygen")[1]
    assert run_command(capsys, "keygen", "--out", "key")[0] == 0
    assert run_command(capsys, "keygen", "--out", "key")[0] == 1


def test_an_invalid_plugin_is_not_signed(demo: Path, capsys: Output) -> None:
    assert main(["keygen", "--out", "key"]) == 0
    before = "name: demo\nruntimes: [lm]\n"
    (demo / "plugin.yaml").write_text(before)
    code, _, err = run_command(capsys, "sign", "demo", "--key", "key")
    assert code == 1
    assert "✗ demo/plugin.yaml:2: unknown runtime 'lm'" in err
    assert (demo / "plugin.yaml").read_text() == before
    assert not (demo / "plugin.sig").exists()


def test_verify_says_why_it_failed(demo: Path, capsys: Output) -> None:
    code, _, err = run_command(capsys, "verify", "demo", "--require-signature")
    assert code == 1
    assert "is not signed" in err
    assert main(["hash", "demo", "--write"]) == 0
    (demo / "extra.txt").write_text("x")
    code, _, err = run_command(capsys, "verify", "demo")
    assert code == 1
    assert "sha256 mismatch" in err


def test_a_revoked_plugin_does_not_verify(demo: Path, capsys: Output) -> None:
    revoked = {
        "version": 1,
        "updated_at": "2026-01-01T00:00:00Z",
        "keys": [],
        "digests": [{"content_sha256": compute_plugin_sha256(demo), "reason": "it bites"}],
        "plugins": [],
    }
    (demo.parent / "revocations.json").write_text(json.dumps(revoked))
    code, _, err = run_command(capsys, "verify", "demo", "--revocations", "revocations.json")
    assert code == 1
    assert "it bites" in err


def test_a_packed_plugin_verifies_with_the_signature_beside_it(demo: Path, capsys: Output) -> None:
    assert main(["keygen", "--out", "key"]) == 0
    public = capsys.readouterr().out.splitlines()[0]
    assert main(["sign", "demo", "--key", "key"]) == 0
    capsys.readouterr()
    code, out, _ = run_command(capsys, "pack", "demo")
    assert code == 0
    assert out.startswith("demo-0.1.0.tar.gz: ")
    assert f"content sha256 {compute_plugin_sha256(demo)}" in out
    code, out, _ = run_command(capsys, "verify", "demo-0.1.0.tar.gz", "--key", public, "--require-signature")
    assert code == 0
    first = (demo.parent / "demo-0.1.0.tar.gz").read_bytes()
    assert main(["pack", "demo", "-o", "again.tar.gz"]) == 0
    assert (demo.parent / "again.tar.gz").read_bytes() == first


def test_what_is_no_archive_is_refused(demo: Path, capsys: Output) -> None:
    (demo.parent / "bad.tar.gz").write_bytes(b"not gzip")
    code, _, err = run_command(capsys, "verify", "bad.tar.gz")
    assert code == 1
    assert err.startswith("error: ")


def test_a_plugin_without_a_manifest_cannot_be_packed(tmp_path: Path, capsys: Output) -> None:
    (tmp_path / "p").mkdir()
    code, _, err = run_command(capsys, "pack", "p")
    assert code == 1
    assert "no plugin.yaml" in err


# lock


def test_plugins_are_pinned_and_the_pins_checked(demo: Path, capsys: Output) -> None:
    code, out, _ = run_command(capsys, "lock", "demo")
    assert (code, out) == (0, "✓ plugins.lock: pinned: demo\n")
    entry = read_lock(demo.parent / "plugins.lock")["demo"]
    assert (entry.version, entry.source, entry.content_sha256) == (
        "0.1.0",
        "local://demo",
        compute_plugin_sha256(demo),
    )
    assert run_command(capsys, "lock", "demo", "--check")[0] == 0
    assert run_command(capsys, "verify", "demo", "--lock", "plugins.lock")[0] == 0
    (demo / "extra.txt").write_text("x")
    assert run_command(capsys, "verify", "demo", "--lock", "plugins.lock")[0] == 1
    for words in (["lock", "demo", "--check"], ["lock", "demo"]):
        code, _, err = run_command(capsys, *words)
        assert code == 1
        assert "plugins.lock pins" in err
    assert run_command(capsys, "lock", "demo", "--update", "demo")[0] == 0
    assert run_command(capsys, "lock", "demo", "--check")[0] == 0


def test_an_org_file_pins_what_its_workspaces_want(tmp_path: Path, capsys: Output) -> None:
    org = tmp_path / "acme"
    assert main(["init", "acme/plugins/one"]) == 0
    (org / "org.yaml").write_text(
        "name: Acme\ndefaults: {plugins: [one]}\n"
        "workspaces:\n- {name: PM, plugins: ['!one', two], children: [{name: X, plugins: [one]}]}\n"
    )
    code, _, err = run_command(capsys, "lock", "acme/org.yaml")
    assert code == 1
    assert "plugin two: put its directory at acme/plugins/two" in err
    assert not (org / "plugins.lock").exists()
    assert main(["init", "acme/plugins/two"]) == 0
    capsys.readouterr()
    assert run_command(capsys, "lock", "acme") == (0, "✓ acme/plugins.lock: pinned: one, two\n", "")
    assert set(read_lock(org / "plugins.lock")) == {"one", "two"}
    assert run_command(capsys, "lock", "acme", "--check")[0] == 0


def test_a_plugin_that_is_not_pinned_fails_the_check(demo: Path, capsys: Output) -> None:
    code, _, err = run_command(capsys, "lock", "demo", "--check")
    assert code == 1
    assert "is not pinned" in err
    assert not (demo.parent / "plugins.lock").exists()
