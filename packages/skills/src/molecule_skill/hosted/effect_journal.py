"""Journal of a run: matches what a handler does with what the run did before it was cut off.

Every effect has a place, counted in the order in which the handler asks for it. An effect with a key is
found by its key wherever it stands; one without is found at its place, where kind and fingerprint must be
the same: the code that runs again is otherwise not the code that ran.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from molecule_skill.errors import RunRefused
from molecule_skill.store.protocol import RunStore
from molecule_skill.store.records import JournalEntry, NewEvent, RequestRecord, StateChange, StoredEvent
from molecule_wire import JSON


@dataclass(frozen=True, slots=True)
class JournalPosition:
    """Where an effect stands: what is recorded of it, and the ordinal for what will be."""

    ordinal: int
    recorded: JournalEntry | RequestRecord | None

    @property
    def entry(self) -> JournalEntry | None:
        """The recorded step, call, artifact or use of state."""
        return self.recorded if isinstance(self.recorded, JournalEntry) else None

    @property
    def request(self) -> RequestRecord | None:
        """The recorded question or form."""
        return self.recorded if isinstance(self.recorded, RequestRecord) else None


class Journal:
    """The effects of one run."""

    def __init__(self, store: RunStore, run_id: str, fence: int, attempt: int) -> None:
        self._store, self._run_id, self._fence = store, run_id, fence
        self._by_ordinal: dict[int, JournalEntry | RequestRecord] = {}
        self._by_key: dict[str, JournalEntry | RequestRecord] = {}
        self._attempt = attempt
        self._place = 0
        self._used: set[str] = set()

    async def load(self) -> None:
        """Read what an earlier process recorded."""
        entries: Sequence[JournalEntry | RequestRecord] = [
            *await self._store.journal(self._run_id),
            *await self._store.requests(self._run_id),
        ]
        for one in entries:
            self._remember(one)

    def begin(self, attempt: int) -> None:
        """The handler starts from its first line."""
        self._attempt, self._place = attempt, 0
        self._used.clear()

    def find(self, kind: str, key: str | None, fingerprint: str, label: str) -> JournalPosition:
        """The place of the next effect. Raises ValueError for a key used twice, RunRefused on divergence."""
        self._place += 1
        if key is not None:
            if key in self._used:
                raise ValueError(f"the key {key!r} is used twice in this run; give every step its own")
            self._used.add(key)
            found = self._by_key.get(key)
        else:
            found = self._by_ordinal.get(self._place)
        if found is None:
            return JournalPosition(self._free(), None)
        if (found.kind, found.key, found.fingerprint) == (kind, key, fingerprint):
            return JournalPosition(found.ordinal, found)
        if found.attempt < self._attempt:
            # An attempt that failed binds nobody: a retry may take another way.
            return JournalPosition(found.ordinal if key is None else self._free(), None)
        named = f" with the key {key!r}" if key is not None else ""
        raise RunRefused(
            "replay-diverged",
            f"at place {self._place}{named} the journal has a {found.kind}"
            f"{_named(found)}, but the code now does a {kind} {label!r}; "
            "a skill that is run again must do the same things in the same order",
            place=self._place,
        )

    async def record(
        self, entry: JournalEntry, events: Sequence[NewEvent] = (), state: StateChange | None = None
    ) -> list[StoredEvent]:
        """Write an effect down, with what is told of it and the state that it saves."""
        stored = await self._store.put_journal(self._run_id, self._fence, entry, events, state)
        self._remember(entry)
        return stored

    def entry(
        self,
        place: JournalPosition,
        kind: str,
        key: str | None,
        fingerprint: str,
        state: str,
        *,
        runs: int = 1,
    ) -> JournalEntry:
        """An entry for a place in the current attempt."""
        return JournalEntry(place.ordinal, kind, key, fingerprint, state, self._attempt, runs)

    def remember(self, request: RequestRecord) -> None:
        """Know an interaction that was written down as a row of `requests`."""
        self._remember(request)

    def _remember(self, one: JournalEntry | RequestRecord) -> None:
        self._by_ordinal[one.ordinal] = one
        if one.key is not None:
            self._by_key[one.key] = one

    def _free(self) -> int:
        """The current place, or the next one after all others when a keyed effect has it."""
        if self._place not in self._by_ordinal:
            return self._place
        return max(self._by_ordinal) + 1


def _named(found: JournalEntry | RequestRecord) -> str:
    if found.key is not None:
        return f" with the key {found.key!r}"
    if isinstance(found, RequestRecord):
        label: JSON = found.prompt.get("prompt") or found.prompt.get("title")
        return f" {label!r}"
    return ""
