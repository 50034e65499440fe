"""Tables as a reader with few columns sees them."""

from collections.abc import Callable

import pytest

from molecule_platform.cli import output

Shown = Callable[..., list[str]]
ID = "01a1ea17-daa2-7533-8f44-77ee4b091b27"


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shown:
    """Print a table in a terminal of 80 columns; the lines that are not empty."""

    def show(columns: tuple[str, ...], *rows: tuple[str, ...]) -> list[str]:
        monkeypatch.setenv("COLUMNS", "80")
        output.show(output.table(columns, rows))
        return [line.rstrip() for line in capsys.readouterr().out.splitlines() if line.strip()]

    return show


def test_names_are_cut_before_an_id_is(shown: Shown) -> None:
    lines = shown(("name", "status", "waiting", "id"), ("a" * 60, "awaiting_agent", "3", ID))
    assert max(map(len, lines)) <= 80
    assert lines[-1].split() == [f"{'a' * 11}…", "awaiting_agent", "3", ID]


def test_a_table_that_does_not_fit_is_told_row_by_row(shown: Shown) -> None:
    columns = ("token", "for", "may do", "works until", "id")
    words = "org.read, org.write, org.send"
    lines = shown(columns, ("l2OMv6uw…", "the build server", words, "it is revoked", ID))
    told = dict(line.split(None, 1) for line in lines if not line.startswith(("may", "works")))
    assert told == {"token": "l2OMv6uw…", "for": "the build server", "id": ID}
    assert f"may do       {words}" in lines


def test_a_table_that_fits_is_a_table(shown: Shown) -> None:
    assert len(shown(("name", "id"), ("lead", ID), ("writer", ID))) == 4
