"""The snapshot of a workspace: given to the adapter before it is set up, written when the process stops."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from typing import Any, cast

from molecule_runtime.kit.setup.adapter import BaseAdapter
from molecule_runtime.kit.state import snapshot
from molecule_runtime.kit.turns.history import HistoryStore
from molecule_runtime.links.heartbeat import HeartbeatLoop
from molecule_runtime.settings.environment import Environment
from molecule_wire import JSONObject

PRE_STOP_SECONDS = 5.0

log = logging.getLogger("molecule_runtime")


def restore(environment: Environment, adapter: BaseAdapter, histories: HistoryStore) -> bool:
    """Give the adapter what it left at its last stop; whether there was something."""
    kept = snapshot.begin_restore(
        str(environment.snapshot_path), workspace_id=environment.workspace_id, runtime=adapter.name()
    )
    if kept is None:
        return False
    try:
        adapter.restore_state(kept)
        histories.load(cast("JSONObject", kept.get("sessions") or {}))
    except Exception:
        log.warning("the snapshot was not restored", exc_info=True)
        snapshot.reject_snapshot(environment.snapshot_path, "the adapter could not read it")
        return False
    return True


async def write(
    environment: Environment,
    adapter: BaseAdapter,
    histories: HistoryStore,
    heartbeat: HeartbeatLoop,
    transcript: Callable[[int, int], Awaitable[JSONObject]],
    interrupted: list[str],
) -> None:
    """Write what the next process needs; an adapter that fails costs its own part only."""
    state: dict[str, Any] = {}
    try:
        async with asyncio.timeout(PRE_STOP_SECONDS):
            adapter_state: Any = adapter.pre_stop_state()
            state = dict(await adapter_state if inspect.isawaitable(adapter_state) else adapter_state)
            if "transcript_lines" not in state:
                kept = await transcript(0, snapshot.MAX_TRANSCRIPT_LINES)
                state["transcript_lines"] = kept["lines"]
    except Exception:
        log.warning("the adapter's state is not in the snapshot", exc_info=True)
    built = snapshot.build_snapshot(
        heartbeat,
        state,
        workspace_id=environment.workspace_id,
        runtime=adapter.name(),
        sessions=histories.dump(),
        pending_turns=interrupted,
    )
    if not snapshot.write_snapshot(built, str(environment.snapshot_path)):
        log.error("the snapshot was not written")
