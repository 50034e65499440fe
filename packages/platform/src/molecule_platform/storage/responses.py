"""How messages ended, as events: told by the message, and written down before it no longer can."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, func, select, update

from molecule_platform.domain import responses
from molecule_platform.domain.events import Event
from molecule_platform.domain.messages import Message
from molecule_platform.storage import mailbox_sql as sql
from molecule_platform.storage.event_rows import INSERT, row_of
from molecule_platform.storage.tables import message_transitions, messages

# Of an answer that is too long to be told one byte too many is read, to see that.
_BEGINNING = func.substr(messages.c.result, 1, responses.SHOWN_MOST_BYTES + 1)
_TOLD = [_BEGINNING.label("result") if column.name == "result" else column for column in sql.WITHOUT_BODY]


def told_by(connection: Connection, steps: Iterable[Mapping[Any, Any]]) -> list[Event]:
    """The events told together with those steps by which a message ended."""
    numbers = {step["message_id"]: step["event_id"] + 1 for step in steps if step["also_told"]}
    if not numbers:
        return []
    wanted = select(*_TOLD).where(messages.c.id.in_(numbers))
    ended = [Message(**row) for row in connection.execute(wanted).mappings()]
    return [responses.event(message, numbers[message.id]) for message in ended]


def write_down(connection: Connection, message_ids: Sequence[str]) -> None:
    """Keep what these messages tell: they are about to be forgotten, or to begin anew."""
    step = message_transitions.c
    told = step.message_id.in_(message_ids) & step.also_told
    steps = connection.execute(select(message_transitions).where(told)).mappings().all()
    if steps:
        INSERT.run_all(connection, [row_of(event) for event in told_by(connection, steps)])
        connection.execute(update(message_transitions).where(told).values(also_told=False))
