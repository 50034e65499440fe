"""Writes docs/reference/ from the tables in the code.  usage: python -m scripts.reference"""

import subprocess
import sys
from collections.abc import Iterable, Sequence

from molecule_platform import settings
from molecule_platform.web.pipeline import route_table
from molecule_wire import errors
from scripts import live_platform, python_reference, repository

FOLDER = repository.ROOT / "docs" / "reference"
PACKAGES = ("molecule_agent", "molecule_agent.testing", "molecule_plugin")
NOTE = "<!-- Written by `make docs`; edit the table in the code instead. -->"


def pages() -> dict[str, str]:
    """File name → text, for every page of the reference."""
    return {
        "routes.md": routes_page(),
        "settings.md": settings_page(),
        "cli.md": cli_page(),
        "errors.md": errors_page(),
        **{f"{name}.md": python_page(name) for name in PACKAGES},
    }


def python_page(package: str) -> str:
    return python_reference.page(package, NOTE)


def routes_page() -> str:
    rows = [
        (f"`{route.method}`", f"`{route.path}`", ", ".join(str(who) for who in route.who), route.summary)
        for route in route_table.TABLE
    ]
    text = (
        "Every route of the platform. Who may call it: `public` needs no credential, `any` a valid one, "
        "`self` the workspace of the path, `peer` a workspace that the tree allows, `org` a user or token of "
        "the organisation; in brackets the scope it needs."
    )
    return _page("Routes", text, ("method", "path", "who may call", "what it does"), rows)


def settings_page() -> str:
    rows = [
        (f"`{setting.name}`", f"`{setting.default}`" if setting.default else "", setting.sentence)
        for setting in settings.SETTINGS
    ]
    text = (
        "A flag goes over the environment, the environment over `molecule.toml` in the data directory, and "
        "that over the default."
    )
    return _page("Settings", text, ("name", "default", "what it does"), rows)


def errors_page() -> str:
    rows = [
        (f"`{code}`", str(entry.status), f"`{entry.class_name}`", "yes" if entry.retryable else "no")
        for code, entry in sorted(errors.TABLE.items())
    ]
    text = (
        'An error is JSON: `{"error": "<sentence>", "code": "<code>", "request_id": "<id>"}`. The sentence '
        "says what to do next; the id is found in the log of the platform. A message can also end with a "
        f"code that no HTTP answer has: {', '.join(f'`{code}`' for code in sorted(errors.OUTCOME_CODES))}."
    )
    return _page("Errors", text, ("code", "HTTP status", "raised by the SDK", "worth a retry"), rows)


def cli_page() -> str:
    """What `--help` says of every command; typer knows how to say it in Markdown."""
    module = "molecule_platform.cli.main"
    command = [
        sys.executable,
        "-m",
        "typer",
        module,
        "utils",
        "docs",
        "--name",
        "molecule",
        "--title",
        "Command line",
    ]
    done = subprocess.run(
        command, env=live_platform.clean_environment(), check=True, capture_output=True, text=True
    )
    title, _, rest = done.stdout.strip().partition("\n")
    return f"{title}\n\n{NOTE}\n{rest}\n"


def _page(title: str, text: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [_row(header), _row(["---"] * len(header)), *(_row(row) for row in rows)]
    return f"# {title}\n\n{NOTE}\n\n{text}\n\n" + "\n".join(lines) + "\n"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        path = FOLDER / name
        changed = not path.exists() or path.read_text() != text
        path.write_text(text)
        print(f"{path.relative_to(repository.ROOT)}: {'written' if changed else 'unchanged'}")


if __name__ == "__main__":
    main()
