"""`molecule task`: what an agent works on, over the standard A2A base that any client can use."""

import functools
from typing import Annotated, Any

import typer
from rich.console import RenderableType
from rich.table import Table

from molecule_platform.cli import client, output, problems, workspace_lookup
from molecule_platform.cli import follow as cli_follow
from molecule_platform.cli.follow import WaitingForReply
from molecule_platform.cli.session import ApiSession, command
from molecule_platform.cli.workspaces import Reference
from molecule_wire.a2a import tasks as machine
from molecule_wire.a2a import text as a2a_text

tasks = typer.Typer(no_args_is_help=True, help="What an agent works on.")

VERSION = {"A2A-Version": "1.0"}

Id = Annotated[str, typer.Argument(metavar="TASK", help="Its id, or that of a message of it.")]


@command(tasks, "list", serves=("agent.rest",))
def list_tasks(
    session: ApiSession,
    workspace: Reference,
    state: Annotated[
        str | None, typer.Option(help="Only in this state, such as working or input-required.")
    ] = None,
    context: Annotated[str | None, typer.Option(help="Only of this conversation.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=100, help="How many at most.")] = 20,
) -> None:
    """List the tasks of an agent, the one that changed last first."""
    row = workspace_lookup.find(session.client, workspace)
    asked = {"status": None if state is None else _state_1_0(state), "contextId": context, "pageSize": limit}
    query = {name: str(value) for name, value in asked.items() if value is not None}
    found = session.client.send(_request("GET", row, "", query)).object()
    session.answer(found, functools.partial(_listed, session, row, found.get("tasks") or []))


@command(tasks, "show", serves=("agent.rest",))
def show(session: ApiSession, workspace: Reference, task: Id) -> None:
    """Show a task as it stands, with everything that was made."""
    row = workspace_lookup.find(session.client, workspace)
    found = _asked(session, row, "GET", task)
    session.answer(found, functools.partial(_facts, found), *_made(found))


@command(tasks, "watch", serves=("agent.rest", "task.events"))
def watch(session: ApiSession, workspace: Reference, task: Id, count: cli_follow.Count = None) -> None:
    """Follow a task until it has ended; Ctrl-C stops only the watching.

    With --json, each event is a line.
    """
    row = workspace_lookup.find(session.client, workspace)
    found = _asked(session, row, "GET", task)
    path = workspace_lookup.path(row["id"], f"/tasks/{client.segment(found['id'])}/events")
    try:
        watched = cli_follow.print_lines if session.as_json else functools.partial(_watched, row=row)
        heard = watched(session, path, count)
    except KeyboardInterrupt:
        return
    if heard.failure is not None:
        raise problems.Problem(f"the task of {row['name']} ended as {heard.failure}", "task-failed")


@command(tasks, "cancel", serves=("agent.rest",))
def cancel(session: ApiSession, workspace: Reference, task: Id) -> None:
    """Cancel a task: it ends at once, and its agent is told to stop."""
    row = workspace_lookup.find(session.client, workspace)
    ended = _asked(session, row, "POST", task, ":cancel")
    session.answer(ended, f"The task of {row['name']} is {_word(ended)}.")


def _watched(
    session: ApiSession, path: str, count: int | None, row: workspace_lookup.Row
) -> cli_follow.AnswerPrinter:
    with cli_follow.talk(session, row["name"]) as heard:
        cli_follow.follow(session, path, heard, WaitingForReply(None), count)
    if heard.is_over and not heard.has_said and heard.failure is None:
        output.show(f"The task of {row['name']} ended without words.")
    return heard


def _request(
    method: str, row: workspace_lookup.Row, rest: str, query: dict[str, str] | None = None
) -> client.ApiRequest:
    path = client.with_query(f"/agents/{client.segment(row['id'])}/tasks{rest}", query)
    return client.ApiRequest(method, path, None if method == "GET" else {}, VERSION)


def _asked(
    session: ApiSession, row: workspace_lookup.Row, method: str, task: str, verb: str = ""
) -> dict[str, Any]:
    try:
        return session.client.send(_request(method, row, f"/{client.segment(task)}{verb}")).object()
    except problems.Refused as refused:
        if refused.status != 404:
            raise
        lists = session.hint(f"task list {row['name']}")
        sentence = f"{row['name']} has no task {task}: `{lists}` shows those it has"
        raise problems.Problem(sentence, "task-not-found") from refused


def _listed(session: ApiSession, row: workspace_lookup.Row, found: list[dict[str, Any]]) -> RenderableType:
    if found:
        return _table(found)
    step = (session.hint(f"send {row['name']} 'Hello'"), "gives it one")
    return f"{row['name']} has no such task.\n{output.steps([step])}"


def _table(found: list[dict[str, Any]]) -> Table:
    lines = [
        (
            output.moment(task["status"].get("timestamp")),
            output.status(_word(task)),
            task["id"],
            output.one_line(a2a_text.text_of_message(task["status"].get("message"))),
        )
        for task in found
    ]
    return output.table(("when", "state", "id", "details"), lines)


def _facts(task: dict[str, Any]) -> Table:
    return output.facts(
        [
            ("task", task["id"]),
            ("state", output.status(_word(task))),
            ("since", output.moment(task["status"].get("timestamp"))),
            ("context", str(task.get("contextId", ""))),
            ("messages", str(len(task.get("history") or [])) if task.get("history") else ""),
            ("artifacts", str(len(task.get("artifacts") or [])) if task.get("artifacts") else ""),
        ]
    )


def _made(task: dict[str, Any]) -> list[str]:
    said = a2a_text.text_of(task)
    return [f"\n{said}"] if said else []


def _word(task: dict[str, Any]) -> str:
    return machine.state_of(task).removeprefix("TASK_STATE_").lower().replace("_", "-")


def _state_1_0(state: str) -> str:
    return "TASK_STATE_" + state.upper().replace("-", "_")
