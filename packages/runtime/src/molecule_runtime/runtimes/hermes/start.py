"""Command path of `gateway_start`: `python -m molecule_runtime.runtimes.hermes.start`."""

import sys

from molecule_runtime.runtimes.hermes.gateway_start import main

if __name__ == "__main__":
    sys.exit(main())
