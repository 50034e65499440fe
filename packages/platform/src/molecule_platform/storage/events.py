"""The event log in SQL: events and message transitions, merged by their shared number."""

from collections.abc import Collection
from datetime import datetime
from itertools import takewhile

from sqlalchemy import ColumnElement, Connection, Integer, Select, cast, delete, false, or_, select

from molecule_platform.domain.events import MESSAGE_EVENT_OF, RESPONSE, Event
from molecule_platform.storage import counters, event_rows, outcome_events
from molecule_platform.storage.mailbox import steps_of
from molecule_platform.storage.tables import events, message_transitions

_KIND_OF = {event_type: kind for kind, event_type in MESSAGE_EVENT_OF.items()}


class SqlEventLog:
    """See `ports.events.EventLog`."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def append(self, event: Event) -> int:
        """Keep an event; the number that it got."""
        number = counters.draw(self._connection)
        event_rows.INSERT.run(self._connection, event_rows.row_of(event) | {"id": number})
        return number

    def after(
        self,
        event_id: int,
        limit: int,
        *,
        org_id: str | None = None,
        workspace_id: str | None = None,
        types: Collection[str] | None = None,
    ) -> list[Event]:
        """Events after a number, oldest first."""
        plain = _filtered_events(org_id, workspace_id, types).where(events.c.id > event_id)
        # The step with that very number may have told something under the next.
        steps = _filtered_steps(org_id, workspace_id, types).where(message_transitions.c.event_id >= event_id)
        found = self._events(plain.order_by(events.c.id).limit(limit))
        found += self._steps(steps.order_by(message_transitions.c.event_id).limit(limit + 1), types)
        return sorted((event for event in found if _number(event) > event_id), key=_number)[:limit]

    def newest(
        self,
        org_id: str,
        limit: int,
        *,
        workspace_id: str | None = None,
        types: Collection[str] | None = None,
        before: int | None = None,
    ) -> list[Event]:
        """The newest events, or the newest before a number, newest first."""
        plain = _filtered_events(org_id, workspace_id, types)
        steps = _filtered_steps(org_id, workspace_id, types)
        if before is not None:
            plain = plain.where(events.c.id < before)
            # The step with that very number may have been two, the first under the number before.
            steps = steps.where(message_transitions.c.event_id <= before)
        found = self._events(plain.order_by(events.c.id.desc()).limit(limit))
        found += self._steps(steps.order_by(message_transitions.c.event_id.desc()).limit(limit + 1), types)
        # A step before the number may tell something under the number itself.
        found = [event for event in found if before is None or _number(event) < before]
        return sorted(found, key=_number, reverse=True)[:limit]

    def last_id(self) -> int:
        """The number of the newest entry."""
        return counters.current(self._connection)

    def oldest_kept(self) -> int:
        """The oldest number to resume after."""
        return counters.pruned(self._connection)

    def prune(self, before: datetime, limit: int) -> int:
        """Forget the oldest entries: always a beginning of the log, so that no gap opens inside it."""
        doomed = [number for number, _at in takewhile(lambda row: row[1] < before, self._oldest(limit))]
        if doomed:
            for column in (events.c.id, message_transitions.c.event_id):
                self._connection.execute(delete(column.table).where(column <= doomed[-1]))
            counters.prune_to(self._connection, doomed[-1])
        return len(doomed)

    def _oldest(self, limit: int) -> list[tuple[int, datetime]]:
        event, step = events.c, message_transitions.c
        last_of_step = step.event_id + cast(step.also_told, Integer)
        found: list[tuple[int, datetime]] = []
        for last, at, key in (
            (event.id, event.created_at, event.id),
            (last_of_step, step.created_at, step.event_id),
        ):
            rows = self._connection.execute(select(last, at).order_by(key).limit(limit))
            found += [(row[0], row[1]) for row in rows]
        return sorted(found)[:limit]

    def _events(self, wanted: Select[*tuple[object, ...]]) -> list[Event]:
        return [Event(**row) for row in self._connection.execute(wanted).mappings()]

    def _steps(self, wanted: Select[*tuple[object, ...]], types: Collection[str] | None) -> list[Event]:
        rows = self._connection.execute(wanted).mappings().all()
        found = [step.as_event() for row in rows for step in steps_of(row)]
        if not types or RESPONSE in types:
            found += outcome_events.told_by(self._connection, rows)
        return [event for event in found if event is not None and (not types or event.event_type in types)]


def _number(event: Event) -> int:
    return event.id or 0


def _filtered_events(
    org_id: str | None, workspace_id: str | None, types: Collection[str] | None
) -> Select[*tuple[object, ...]]:
    conditions: list[ColumnElement[bool]] = []
    if org_id is not None:
        conditions.append(events.c.org_id == org_id)
    if workspace_id is not None:
        conditions.append(events.c.workspace_id == workspace_id)
    if types:
        conditions.append(events.c.event_type.in_(types))
    return select(events).where(*conditions)


def _filtered_steps(
    org_id: str | None, workspace_id: str | None, types: Collection[str] | None
) -> Select[*tuple[object, ...]]:
    step = message_transitions.c
    wanted = types or (*_KIND_OF, RESPONSE)
    kinds = [_KIND_OF[name] for name in wanted if name in _KIND_OF]
    also = [step.also_accepted] if "accepted" in kinds else []
    also += [step.also_told] if RESPONSE in wanted else []
    told = [step.kind.in_(kinds)] if kinds else []
    conditions: list[ColumnElement[bool]] = [or_(false(), *told, *also)]
    if org_id is not None:
        conditions.append(step.org_id == org_id)
    if workspace_id is not None:
        conditions.append(step.target_id == workspace_id)
    return select(message_transitions).where(*conditions)
