"""Soak of durable runs: a real process is killed at random points, and nothing is lost or doubled.

`python -m packages.skills.tests.soak --kills 500 --runs 2000` is the long form.
"""

import argparse
import asyncio
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from molecule_skill.store import RunRecord, SqliteRunStore
from packages.skills.tests import soak_worker

ROOT = Path(__file__).resolve().parents[3]


@dataclass
class Report:
    """What the soak found; `faults` is empty when every promise was kept."""

    runs: int = 0
    kills: int = 0
    interrupted: int = 0
    repeated_steps: int = 0
    seconds: float = 0.0
    faults: list[str] = field(default_factory=list[str])


def soak(folder: Path, *, kills: int, runs: int, seed: int = 0) -> Report:
    """Kill the worker so often while it does so many runs; then look at every row and every trace."""
    chance, began = random.Random(seed), time.monotonic()
    database, trace = folder / "runs.db", folder / "trace"
    for number in range(kills):
        # Some work is new in each life, and some is left from the one before.
        worker = _started(database, trace, runs * (number + 1) // (kills + 1))
        assert worker.stdout is not None
        worker.stdout.readline()
        # Long enough to end the work of one life, on the average.
        time.sleep(chance.uniform(0.0, 0.12))
        worker.kill()
        worker.communicate()
    last = _started(database, trace, runs)
    _, errors = last.communicate(timeout=120)
    report = asyncio.run(_examined(database, trace.read_text(), runs))
    report.kills, report.seconds = kills, time.monotonic() - began
    if last.returncode:
        report.faults.append(f"the last worker failed: {errors[-500:]}")
    return report


def _started(database: Path, trace: Path, limit: int) -> "subprocess.Popen[str]":
    command = [sys.executable, soak_worker.__file__, str(database), str(_opened(database)), str(limit)]
    environ = os.environ | {"SOAK_TRACE": str(trace)}
    return subprocess.Popen(
        command, env=environ, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def _opened(database: Path) -> int:
    """How many runs have a row; they are opened in their order."""
    if not database.exists():
        return 0
    sql = sqlite3.connect(database)
    try:
        (count,) = sql.execute("SELECT count(*) FROM runs").fetchone()
    except sqlite3.OperationalError:
        return 0  # the first worker has made no table yet
    finally:
        sql.close()
    return count


async def _examined(database: Path, trace: str, runs: int) -> Report:
    store, report = SqliteRunStore(database), Report()
    begun = Counter(tuple(line.split()[:2]) for line in trace.splitlines() if line.endswith("begin"))
    for number in range(runs):
        record = await store.run_of_key("soak", soak_worker.CALLER, f"job-{number}")
        if record is None:
            report.faults.append(f"job-{number} has no run")
            continue
        report.runs += 1
        await _examine(store, record, number, begun, report)
    found = len(await store.runs_of("soak", None, limit=runs + 1))
    if found != runs:
        report.faults.append(f"{found} runs for {runs} keys")
    await store.close()
    return report


async def _examine(
    store: SqliteRunStore, record: RunRecord, number: int, begun: "Counter[tuple[str, ...]]", report: Report
) -> None:
    run_id = record.run_id
    events = await store.events(run_id, limit=1000)
    kinds = Counter(event.kind for event in events)
    retries = Counter(str(event.payload.get("step")) for event in events if event.kind == "retry")
    code = record.failure.code if record.failure else None
    report.interrupted += code == "run-interrupted"
    messages = [event.payload.get("message") for event in events if event.kind == "progress"]
    expected = [number, "one", f"name of {run_id}", "two", len(str(number))]
    checks = {
        f"state {record.state.value} {code}": record.result == expected or code == "run-interrupted",
        "run_finished is not told once": kinds["run_finished"] == 1 == kinds["run_started"],
        "seq has a gap": [event.seq for event in events] == list(range(1, len(events) + 1)),
        f"progress {messages}": messages == ["first", "second"][: len(messages)]
        and (messages[1:] != [] or code is not None),
        "the question is not told once": kinds["question"] <= 1 and kinds["interaction_closed"] <= 1,
    }
    for step in ("one", "two"):
        times = begun[run_id, step]
        report.repeated_steps += times == 2
        checks[f"step {step} ran {times} times and said so {retries[step]} times"] = (
            times <= 2 and (times < 2 or retries[step] == 1) and (times > 0 or code is not None)
        )
    report.faults += [f"{run_id}: {what}" for what, is_good in checks.items() if not is_good]


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        report = soak(Path(folder), kills=options.kills, runs=options.runs, seed=options.seed)
    print(report)
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
