"""`python -m molecule_agent`."""

import sys

from molecule_agent.cli.connect import connect_command as _connect_command
from molecule_agent.cli.connect import resolve_handler as _resolve_handler
from molecule_agent.cli.main import main
from molecule_plugin.digest import compute_plugin_sha256

__all__ = ["_connect_command", "_resolve_handler", "compute_plugin_sha256", "main"]

if __name__ == "__main__":
    sys.exit(main())
