"""`molecule message tree`: who asked whom, how long each waited and worked, and what failed."""

from typing import Annotated, Any

import typer
from rich.text import Text
from rich.tree import Tree

from molecule_platform.cli import client, output
from molecule_platform.cli.messages import Id, messages
from molecule_platform.cli.session import ApiSession, command

__all__ = ["messages"]


@command(messages, "tree", serves=("message.tree",))
def show_tree(
    session: ApiSession,
    message_id: Id,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="How many messages at most.")] = 200,
) -> None:
    """Show who asked whom: what led to a message, and everything that was sent for it."""
    path = f"/messages/{client.segment(message_id)}/tree"
    found = session.client.get(path, {"limit": str(limit)}).object()
    shown: list[Tree | str] = [_drawn(found, message_id)]
    if found["truncated"]:
        shown.append(f"There are more than {limit} messages: --limit shows more of them.")
    session.answer(found, *shown)


def _drawn(found: dict[str, Any], asked_for: str) -> Tree:
    """The messages below each other; one whose parent is not shown stands at the top."""
    top = Tree("", hide_root=True)
    branches: dict[str, Tree] = {}
    for row in found["messages"]:
        above = branches.get(row["parent_message_id"] or "", top)
        branches[row["id"]] = above.add(_line(row, is_asked_for=row["id"] == asked_for))
    return top


def _line(row: dict[str, Any], *, is_asked_for: bool) -> Text:
    ends = f"{row['caller_name'] or row['caller']} → {row['target_name'] or row['target_id']}"
    line = Text(output.one_line(ends), style="bold" if is_asked_for else "")
    line.append("  ").append_text(output.status(row["status"]))
    line.append(f"  waited {_duration(row['waited_ms'])}", style="dim")
    if row["worked_ms"] is not None:
        line.append(f", worked {_duration(row['worked_ms'])}", style="dim")
    if row["attempts"] > 1:
        line.append(f", {row['attempts']} attempts", style="dim")
    if row["error"] is not None:
        line.append(f"\n{output.one_line(str(row['error'].get('message') or ''))}")
    return line


def _duration(milliseconds: int) -> str:
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    seconds = milliseconds / 1000
    return f"{seconds:.1f} s" if seconds < 60 else f"{int(seconds // 60)} min {int(seconds % 60)} s"
