"""The adapter keeps the contract of adapters; the program that it runs here is a few lines of Python."""

import sys

from command_adapter import CommandAdapter

from molecule_runtime.adapters.base import AdapterConfig
from molecule_runtime.testing import AdapterContract

PROGRAM = """
import sys, time
conversation = sys.stdin.read()
asked = conversation.splitlines()[-1]
if "wait" in asked:
    time.sleep(60)
if "fail" in asked:
    sys.exit("the password is hunter2")
if "Which bird" in asked:
    print("heron" if "heron" in conversation else "I do not know")
for number in range(3):
    print("line", number, flush=True)
"""


class TestCommandAdapter(AdapterContract):
    adapter = CommandAdapter
    remember_text = "I like herons."
    recall_text = "Which bird do I like?"
    remembered = "heron"
    stream_text = "Say something long."
    long_text = "wait"
    error_text = "fail"
    error_private = "hunter2"

    def configure(self, config: AdapterConfig) -> None:
        config.runtime_config.update(command=sys.executable, args=["-c", PROGRAM])
