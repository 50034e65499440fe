"""The plugin template in examples/ is what `molecule-plugin init` writes, and it has no faults."""

from molecule_plugin import lint_plugin
from molecule_plugin.template import template_files
from scripts import repository

FOLDER = repository.ROOT / "examples" / "plugin-template"


def test_the_template_is_what_init_writes() -> None:
    found = {
        path.relative_to(FOLDER).as_posix(): path.read_text() for path in FOLDER.rglob("*") if path.is_file()
    }
    written = template_files("plugin-template", ["claude_code"], "example-skill")
    assert found == written, (
        "run: rm -r examples/plugin-template && molecule-plugin init examples/plugin-template"
    )


def test_the_template_has_neither_faults_nor_warnings() -> None:
    assert lint_plugin(FOLDER) == []
