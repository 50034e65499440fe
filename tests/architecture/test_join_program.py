"""There is one program with which an agent joins, wherever somebody is told how."""

import pytest

from molecule_platform.web.routes.workspaces import JOIN_PROGRAM
from scripts import repository, samples

SOURCE = "packages/platform/src/molecule_platform/demo/hello.py"


@pytest.mark.parametrize("page", ["README.md", "docs/remote-agent.md"])
def test_the_pages_show_the_program(page: str) -> None:
    shown = [sample.text for sample in samples.find(page, (repository.ROOT / page).read_text())]
    assert (repository.ROOT / SOURCE).read_text() in shown


def test_the_platform_gives_it_to_whoever_creates_a_workspace() -> None:
    assert (repository.ROOT / SOURCE).read_text() == JOIN_PROGRAM


def test_the_canvas_shows_it_from_where_it_stands() -> None:
    component = (repository.ROOT / "canvas/src/components/AgentCard/index.tsx").read_text()
    assert "import JOIN_PROGRAM from '@demo/hello.py?raw';" in component
    assert "<code>{JOIN_PROGRAM}</code>" in component
    assert (
        "here('../packages/platform/src/molecule_platform/demo')"
        in (repository.ROOT / "canvas/vite.config.ts").read_text()
    )
