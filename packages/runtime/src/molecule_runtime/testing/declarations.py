"""What an adapter says of itself, checked: each function raises AssertionError with what is wrong."""

import json
import re
from pathlib import Path

from molecule_runtime.domain.capabilities import RuntimeCapabilities
from molecule_runtime.kit.setup.adapter import BaseAdapter
from molecule_runtime.testing.memory_workspace import step

PROOFS = {
    "heartbeat": "that the adapter sends a sign of life by itself",
    "scheduler": "that a schedule of the engine starts work without a message",
    "session": "that turns run side by side and that a session goes on after a restart",
    "status_mgmt": "that the adapter reports degraded and ready by itself",
    "retry": "that a rate limit and a 5xx of the model are tried again",
    "activity_decoration": "that model, tokens and latency are reported",
    "channel_dispatch": "that the adapter sends to the channel by itself",
}
"""What the proof of each flag has to show."""

_RUNTIME_ID = re.compile(r"[a-z0-9]+([-_][a-z0-9]+)*")


def check_identity(adapter: BaseAdapter) -> None:
    """Name, display name, description, schema and memory file."""
    with step("name"):
        name = adapter.name()
    assert _RUNTIME_ID.fullmatch(name), f"name() is {name!r}, not an id such as 'my-engine'"
    for label, text in (("display_name", adapter.display_name()), ("description", adapter.description())):
        assert len(text.strip().splitlines()) == 1, f"{label}() is {text!r}, not one line of text"
    with step("get_config_schema"):
        schema = adapter.get_config_schema()
        json.dumps(schema)
    is_object = isinstance(schema, dict)  # pyright: ignore[reportUnnecessaryIsInstance] - authors err
    assert is_object, f"get_config_schema() is {schema!r}, not a JSON Schema"
    with step("memory_filename"):
        file = adapter.memory_filename()
    assert Path(file).name == file, f"memory_filename() is {file!r}, not the name of a file"


def flags_of(adapter: BaseAdapter) -> dict[str, bool]:
    """The flags by their names on the wire."""
    with step("capabilities"):
        flags = adapter.capabilities().to_dict()
    known = RuntimeCapabilities().to_dict()
    wrong = sorted(flags.keys() ^ known.keys())
    assert not wrong, (
        f"capabilities().to_dict() must have the keys {', '.join(known)}; see {', '.join(wrong)}"
    )
    odd = [f"{name} is {value!r}" for name, value in flags.items() if type(value) is not bool]
    assert not odd, f"the flags of capabilities() must be true or false: {', '.join(odd)}"
    return flags


def check_idle_timeout(adapter: BaseAdapter) -> None:
    """None, or a positive whole number of seconds."""
    with step("idle_timeout_override"):
        seconds = adapter.idle_timeout_override()
    is_right = seconds is None or (type(seconds) is int and seconds > 0)
    assert is_right, f"idle_timeout_override() is {seconds!r}, not None or a positive int"


def missing_proof(flag: str) -> str:
    """What the author of a flag without a proof has to write."""
    head = f"`async def prove_{flag}(self, folder: Path) -> None`"
    return f"capabilities() declares {flag}, and nothing proves it: write {head}, which shows {PROOFS[flag]}"
