"""One file per promise. Services order steps; they know no framework and no driver."""
