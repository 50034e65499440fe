"""The programs behind `make`; each runs as `python -m scripts.<name>` from the root of the repository."""
