"""The command line: `molecule-plugin`, or `python -m molecule_plugin`."""
