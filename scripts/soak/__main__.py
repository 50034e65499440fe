"""Runs the soak and prints what came of it; exits 1 when a message was lost or answered twice.

usage: python -m scripts.soak [sqlite|postgres] [--messages N] [--kills N] [--seconds N]
"""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from scripts.soak.run import Plan, soak

PLANS = {
    "sqlite": Plan("sqlite", messages=5_000, kills=50, seconds=200.0),
    "postgres": Plan("postgres", messages=1_500, kills=16, seconds=90.0),
}
"""Together five minutes at most."""


def main() -> int:
    parser = argparse.ArgumentParser(description="Kill the platform while it works and count what is lost.")
    parser.add_argument("engine", nargs="?", choices=PLANS, help="this one only")
    for name in ("messages", "kills", "seconds"):
        parser.add_argument(f"--{name}", type=int)
    chosen = parser.parse_args()
    kept = True
    for plan in [PLANS[chosen.engine]] if chosen.engine else PLANS.values():
        changed = Plan(
            plan.engine,
            chosen.messages or plan.messages,
            chosen.kills or plan.kills,
            chosen.seconds or plan.seconds,
        )
        with tempfile.TemporaryDirectory() as folder:
            found = asyncio.run(soak(changed, Path(folder)))
        print("\n".join(found.lines()), flush=True)
        kept = kept and found.kept
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
