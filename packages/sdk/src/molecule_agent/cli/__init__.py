"""The command line: `molecule-agent`, or `python -m molecule_agent`."""
