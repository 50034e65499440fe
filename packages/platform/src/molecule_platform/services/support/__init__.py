"""Mechanisms that every service uses: signals, waiters, timers, logs."""
