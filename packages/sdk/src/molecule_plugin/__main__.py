"""`python -m molecule_plugin`."""

import sys

from molecule_plugin.cli.main import main

__all__ = ["main"]

if __name__ == "__main__":
    sys.exit(main())
