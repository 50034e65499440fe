"""What the house needs from outside, as protocols. Docstrings are contracts, tested on every adapter."""
