"""How messages ended, as events: told by the message, and written down before it no longer can."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec
from sqlalchemy import Connection, func, select, update

from molecule_platform.domain import responses
from molecule_platform.domain.events import Event
from molecule_platform.domain.messages import Message
from molecule_platform.storage import mailbox_sql as sql
from molecule_platform.storage.event_rows import INSERT, row_of
from molecule_platform.storage.tables import message_transitions, messages

# Of an answer that is too long to be told one byte too many is read, to see that.
_BEGINNING = func.substr(messages.c.result, 1, responses.MAX_SHOWN_BYTES + 1)
_TOLD = [_BEGINNING.label("result") if column.name == "result" else column for column in sql.WITHOUT_BODY]


def told_by(
    connection: Connection,
    steps: Iterable[Mapping[Any, Any]],
    said: Callable[[Message], Any] = responses.body,
) -> list[Event]:
    """The events told together with those steps by which a message ended."""
    ends = [(step["message_id"], step["event_id"] + 1) for step in steps if step["also_told"]]
    if not ends:
        return []
    wanted = select(*_TOLD).where(messages.c.id.in_({message_id for message_id, _ in ends}))
    found = {row["id"]: Message(**row) for row in connection.execute(wanted).mappings()}
    ended = [(found[message_id], number) for message_id, number in ends if message_id in found]
    return [
        responses.event(message, number, said(message)) for message, number in ended if not message.is_open
    ]


def write_down(connection: Connection, message_ids: Sequence[str]) -> None:
    """Keep what these messages tell: they are about to be forgotten, or to begin anew."""
    step = message_transitions.c
    told = step.message_id.in_(message_ids) & step.also_told
    steps = connection.execute(select(message_transitions).where(told)).mappings().all()
    if steps:
        INSERT.run_all(connection, [row_of(event) for event in told_by(connection, steps, _as_kept)])
        connection.execute(update(message_transitions).where(told).values(also_told=False))


def _as_kept(message: Message) -> Any:
    """What the message says for a row: the bytes of an answer go into it as they are."""
    if message.error is not None or message.result is None:
        return responses.body(message)
    if len(message.result) > responses.MAX_SHOWN_BYTES:
        return None
    return {"jsonrpc": "2.0", "id": message.message_ref, "result": msgspec.Raw(message.result)}
