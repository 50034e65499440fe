"""Runs a demo agent as a well-behaved child.  usage: python -P -m molecule_platform.cli.child SCRIPT

The agents themselves stay free of process manners, so that their files are about agents alone.
"""

import os
import runpy
import signal
import sys
import threading


def main() -> None:
    """Leave when asked to, never outlive the `molecule up` that started us, and run the script."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(0))
    threading.Thread(target=_watch_parent, daemon=True).start()
    runpy.run_path(sys.argv[1], run_name="__main__")


def _watch_parent() -> None:
    # Nobody ever writes into this pipe: reading ends when the process at its other end is gone.
    os.read(sys.stdin.fileno(), 1)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
