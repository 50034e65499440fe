"""Testing kit for skill authors: answers given beforehand, a clock, recorded calls, scripted peers."""

from importlib.util import find_spec

from molecule_skill.interactions import Decline
from molecule_skill.testing.clock import ManualClock
from molecule_skill.testing.identity import StaticAuthResolver
from molecule_skill.testing.peers import CallRecorder, RecordedCall, ScriptedPeer
from molecule_skill.testing.places import (
    PLACES,
    Case,
    GatePlace,
    LocalPlace,
    Place,
    Seen,
    assert_same_everywhere,
    author_kinds,
)

__all__ = [
    "PLACES",
    "CallRecorder",
    "Case",
    "Decline",
    "GatePlace",
    "LocalPlace",
    "ManualClock",
    "Place",
    "RecordedCall",
    "ScriptedPeer",
    "Seen",
    "StaticAuthResolver",
    "assert_same_everywhere",
    "author_kinds",
]

if find_spec("starlette") and find_spec("uvicorn") and find_spec("httpx"):
    # With the extra `serve` a case also runs behind a socket.
    from molecule_skill.testing.served_places import A2APlace, HttpPlace

    PLACES.extend((HttpPlace(), A2APlace("1.0"), A2APlace("0.3")))
