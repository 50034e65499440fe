"""The budgets of the house, each measured by its own module; `python -m benchmarks.run` measures them all."""
