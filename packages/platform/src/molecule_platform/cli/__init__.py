"""The command line: `molecule`."""
