"""Periodic sweeps and retention."""
