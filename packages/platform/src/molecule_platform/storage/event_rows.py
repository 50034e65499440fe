"""One event as a row."""

from typing import Any

from sqlalchemy import insert

from molecule_platform.domain.events import Event
from molecule_platform.storage.prepared import Prepared
from molecule_platform.storage.tables import events

INSERT = Prepared(insert(events), names=[column.name for column in events.c])


def row_of(event: Event) -> dict[str, Any]:
    """The row of a numbered event."""
    return {
        "id": event.id,
        "org_id": event.org_id,
        "event_type": event.event_type,
        "workspace_id": event.workspace_id,
        "parties": None if event.parties is None else list(event.parties),
        "payload": event.payload,
        "created_at": event.created_at,
    }
