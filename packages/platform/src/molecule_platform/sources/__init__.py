"""Where plugins come from, and the stock of what was fetched."""
