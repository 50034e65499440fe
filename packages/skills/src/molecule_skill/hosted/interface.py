"""Port of the gate: what every transport uses to open, follow, answer and cancel runs.

`RunGate` implements it. Methods that name a `principal` show it only its own runs: for anybody else, and for
an unknown id, they raise `RunRefused` with the code `not-found`. Every refusal is an exception for which
`molecule_skill.errors.report_of` gives status, code, text and the extra members of the body.
"""

from typing import Any, Protocol

from molecule_skill.hosted.invocation import Answerer, Invocation, Readiness
from molecule_skill.hosted.run_reader import RunReader
from molecule_skill.store.records import (
    ArtifactRecord,
    RequestState,
    RunRecord,
)
from molecule_wire import JSON


class Gate(Protocol):
    """The runs of one agent in this process."""

    async def start(self) -> None:
        """Start the agent, then take up what an earlier process left: re-run, retry or interrupt it.

        An agent that cannot start does not raise here: `readiness` says why, and `open` refuses.
        """
        ...

    async def close(self) -> None:
        """Drain: refuse new runs, wait `drain_seconds`, end the rest, then shut the agent down.

        A durable run that is still going keeps its row and is taken up by the next process; any other ends as
        `run-interrupted`.
        """
        ...

    def readiness(self) -> Readiness:
        """Whether runs are admitted now."""
        ...

    async def identify(self, token: str | None, headers: dict[str, str]) -> tuple[Any, Answerer]:
        """Authenticate a caller: its model, and its principal with scopes. Raises `AuthError`.

        `open` does this by itself; it is for the routes that only look at runs or answer.
        """
        ...

    async def open(self, invocation: Invocation, identified: tuple[Any, Answerer] | None = None) -> Any:
        """Check an invocation in the order of the contract, insert the run and start it.

        `identified` is what `identify` gave for the same request. Returns the run's `HostedRunContext`:
        `run_id`, `caller`, `attached` (True when an idempotency key led to a run that was there already). The
        run goes on whoever waits for it. The first failure is raised: `AuthError`, `SkillNotFound`,
        `RunRefused` (`idempotency-conflict`, `agent-busy` with `retry_after`, `agent-stopping`),
        `MissingScopes`, `SkillInputError`.
        """
        ...

    def reader(self, run_id: str, principal: str | None) -> RunReader:
        """Who reads a run for one principal: its record, events and files, now or when there are new ones.

        Any number of readers may follow a run. What a reader raises, it raises when it reads.
        """
        ...

    async def run(self, run_id: str, principal: str | None) -> RunRecord:
        """The run as it is now."""
        ...

    async def run_of_key(self, principal: str, key: str) -> RunRecord | None:
        """The run that a caller's idempotency key led to, or None."""
        ...

    async def runs(
        self, principal: str | None, *, limit: int = 50, before: str | None = None
    ) -> list[RunRecord]:
        """A page of runs, newest first."""
        ...

    async def answer(
        self,
        request_id: str,
        by: Answerer,
        value: JSON = None,
        *,
        declined: bool = False,
        reason: str = "",
        kind: str | None = None,
        run_id: str | None = None,
    ) -> RequestState:
        """Answer or decline an interaction, once; `kind` and `run_id`, where given, must be its own.

        The same answer again returns the same state. Raises `RunRefused`: `not-found` for an unknown id and
        for everybody who may not answer, `already-answered` for another answer than the first,
        `interaction-closed` when it expired, was cancelled or the run is over, `answer-invalid` with `errors`
        for a value of the wrong type, after which it is still pending.
        """
        ...

    async def cancel(self, run_id: str, principal: str | None) -> RunRecord:
        """Cancel a run; one that is final already is returned unchanged. Does not wait for the handler."""
        ...

    async def artifact(self, run_id: str, principal: str | None, name: str) -> ArtifactRecord:
        """One file; `read_artifact` gives its bytes."""
        ...

    async def read_artifact(
        self, record: ArtifactRecord, *, start: int = 0, length: int | None = None
    ) -> bytes:
        """A range of a file's bytes."""
        ...
