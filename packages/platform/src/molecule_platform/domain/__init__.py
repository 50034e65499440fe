"""Values, rules and state machines: nothing here awaits, does I/O or reads a clock."""
