"""Prints a greeting.  usage: python greet.py <name>"""

import sys

print("Hello, " + (" ".join(sys.argv[1:]) or "world") + "!")
