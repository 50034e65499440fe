"""`sha256` is put into `plugin.yaml` without touching anything else in it."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_plugin.errors import PluginManifestError
from molecule_plugin.manifest_writer import with_sha256, write_sha256
from molecule_plugin.yaml_reader import parse_yaml

DIGEST = "ab" * 32


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("name: a\n", f'name: a\nsha256: "{DIGEST}"\n'),
        ("name: a", f'name: a\nsha256: "{DIGEST}"\n'),
        (
            "# top\nname: a  # why\nversion: 1.0.0\n# then\ntags: [x]  # y\n",
            f'# top\nname: a  # why\nversion: 1.0.0\nsha256: "{DIGEST}"\n# then\ntags: [x]  # y\n',
        ),
        (f"name: a\nsha256: {'0' * 64}  # old\nb: 1\n", f'name: a\nsha256: "{DIGEST}"  # old\nb: 1\n'),
        ("name: a\nsha256:\nb: 1\n", f'name: a\nsha256: "{DIGEST}"\nb: 1\n'),
        ("name: a\r\nb: 1\r\n", f'name: a\r\nsha256: "{DIGEST}"\r\nb: 1\r\n'),
        ("  name: a\n  b: 1\n", f'  name: a\n  sha256: "{DIGEST}"\n  b: 1\n'),
        ("---\nname: a\n...\n", f'---\nname: a\nsha256: "{DIGEST}"\n...\n'),
        ("{name: a, b: [1]}\n", f'{{name: a, b: [1], sha256: "{DIGEST}"}}\n'),
        (f'name: a\nsha256: "{DIGEST}"\n', f'name: a\nsha256: "{DIGEST}"\n'),
    ],
)
def test_only_the_digest_changes(before: str, after: str) -> None:
    assert with_sha256(before, DIGEST) == after


@pytest.mark.parametrize("text", ["name: [", "- a\n", "", "name: &n a\nsha256: *n\n"])
def test_what_cannot_be_changed_safely_is_refused(text: str) -> None:
    with pytest.raises(PluginManifestError):
        with_sha256(text, DIGEST)


lines = st.lists(
    st.sampled_from(
        [
            "# note",
            "",
            "tags: [a]",
            "description: |\n  two\n  lines",
            "extra:\n  - x\n  # in\n  - y",
            "b: {c: d}",
        ]
    ),
    unique=True,
)


@given(lines, lines, st.booleans())
def test_every_other_line_stays_where_it_was(above: list[str], below: list[str], had_one: bool) -> None:
    rest = [line for line in below if line in ("# note", "") or line not in above]
    old = [f"sha256: '{'0' * 64}'"] if had_one else []
    text = "\n".join([*above, "name: a", *old, *rest]) + "\n"
    changed = with_sha256(text, DIGEST)
    assert changed == "\n".join([*above, "name: a", f'sha256: "{DIGEST}"', *rest]) + "\n"
    assert parse_yaml(changed).text("sha256") == DIGEST


def test_a_file_keeps_its_mode_and_is_left_alone_when_it_is_right(tmp_path: Path) -> None:
    path = tmp_path / "plugin.yaml"
    path.write_text("name: a\n")
    path.chmod(0o640)
    assert write_sha256(tmp_path, DIGEST)
    assert path.stat().st_mode & 0o777 == 0o640
    assert not write_sha256(tmp_path, DIGEST)
    with pytest.raises(PluginManifestError, match="cannot be read"):
        write_sha256(tmp_path / "nowhere", DIGEST)
