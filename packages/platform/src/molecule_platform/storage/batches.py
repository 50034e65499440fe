"""Group commit: everything that waits is committed together, and each job still stands or falls alone."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import Connection

from molecule_platform.domain.errors import ApiError
from molecule_platform.ports.storage import StorageDown, Transaction
from molecule_platform.storage import counters, driver_errors, write_counter
from molecule_platform.storage.transaction import SqlTransaction
from molecule_wire.a2a.errors import A2AError

MAX_JOBS = 512
# How long one batch may keep the other replicas from writing: a slow replica does not hold them up.
BATCH_SECONDS = 0.5


@dataclass(slots=True)
class Job:
    """One caller's transaction, and where its outcome goes. It keeps neither of them once it is resolved."""

    work: Callable[[Transaction], Any] | None
    done: asyncio.Future[Any]
    value: Any = None
    problem: BaseException | None = None
    signals: list[str] = field(default_factory=list[str])


def run(transaction: SqlTransaction, job: Job) -> None:
    """Run one job on an open transaction, and keep what came of it."""
    assert job.work is not None
    job.problem, job.signals = None, []
    transaction.signals = []
    try:
        job.value = job.work(transaction)
    except (ApiError, A2AError) as refusal:
        # Its frames hold the job and the body of the request, and nobody needs them to understand a refusal.
        job.problem = refusal.with_traceback(None)
    except Exception as problem:  # noqa: BLE001 - it belongs to the job's caller, who gets it
        job.problem = driver_errors.translated(problem)
    else:
        job.signals = transaction.signals


def run_together(connection: Connection, jobs: Sequence[Job]) -> int | None:
    """Run jobs one after another on an open transaction, as many as there is time for; how many it were.

    None if one of them left half its work: then the transaction is to be undone, and the jobs are run apart.
    """
    counters.begin(connection)
    transaction = SqlTransaction(connection)
    until = time.monotonic() + BATCH_SECONDS
    number = 0
    for number, job in enumerate(jobs, 1):  # noqa: B007 - the last one is returned
        before = write_counter.count(connection)
        run(transaction, job)
        if isinstance(job.problem, StorageDown):
            raise job.problem
        refused = isinstance(job.problem, ApiError | A2AError) and write_counter.count(connection) == before
        if job.problem is not None and not refused:
            return None
        if time.monotonic() > until:
            break
    counters.keep(connection)
    return number


def run_apart(connection: Connection, jobs: Sequence[Job]) -> None:
    """Run the jobs one after another on an open transaction, a savepoint around each."""
    counters.begin(connection)
    transaction = SqlTransaction(connection)
    cursor = connection.connection.cursor()
    for job in jobs:
        cursor.execute("SAVEPOINT job")
        ended = counters.ended(connection).copy()
        run(transaction, job)
        if job.problem is not None:
            cursor.execute("ROLLBACK TO SAVEPOINT job")
            counters.undo(connection, ended)
        cursor.execute("RELEASE SAVEPOINT job")
    counters.keep(connection)


def signals_of(jobs: Sequence[Job]) -> list[str]:
    """The bells to ring for a batch, each once, in order."""
    return list(dict.fromkeys(subject for job in jobs for subject in job.signals))


def resolve(jobs: Sequence[Job]) -> None:
    """Tell every caller how its job ended; one that stopped waiting is passed over."""
    for job in jobs:
        if not job.done.done():
            if job.problem is not None:
                job.done.set_exception(job.problem)
            else:
                job.done.set_result(job.value)
        # The problem's traceback leads back to the job, and the work holds the body of its request.
        job.work = job.value = job.problem = None


def fail(jobs: Sequence[Job], problem: BaseException) -> None:
    """Mark every job of a batch as failed, since nothing was written."""
    for job in jobs:
        job.problem, job.signals = problem, []
