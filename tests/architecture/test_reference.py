"""Every route, setting, command, error code and public name is documented as the code has it."""

import functools
from collections.abc import Callable

import pytest

from scripts import reference

PAGES: dict[str, Callable[[], str]] = {
    "routes.md": reference.routes_page,
    "settings.md": reference.settings_page,
    "cli.md": reference.cli_page,
    "errors.md": reference.errors_page,
    **{f"{name}.md": functools.partial(reference.python_page, name) for name in reference.PACKAGES},
}


@pytest.mark.parametrize("name", PAGES)
def test_a_reference_page_says_what_the_code_says(name: str) -> None:
    written = (reference.FOLDER / name).read_text()
    assert written == PAGES[name](), f"docs/reference/{name} is behind the code; run `make docs`"


def test_the_reference_holds_no_page_that_nobody_writes() -> None:
    assert sorted(path.name for path in reference.FOLDER.iterdir()) == sorted(PAGES)
