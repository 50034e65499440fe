"""Testing kit for skill authors: answers given beforehand, a clock, recorded calls, scripted peers."""

from importlib.util import find_spec

from molecule_skill.interactions import Decline
from molecule_skill.testing.clock import ManualClock
from molecule_skill.testing.environments import (
    PLACES,
    Case,
    CaseResult,
    GateEnvironment,
    LocalEnvironment,
    RunEnvironment,
    assert_same_everywhere,
    author_kinds,
)
from molecule_skill.testing.identity import StaticAuthResolver
from molecule_skill.testing.peers import CallRecorder, RecordedCall, ScriptedPeer

__all__ = [
    "PLACES",
    "CallRecorder",
    "Case",
    "Decline",
    "GateEnvironment",
    "LocalEnvironment",
    "ManualClock",
    "RunEnvironment",
    "RecordedCall",
    "ScriptedPeer",
    "CaseResult",
    "StaticAuthResolver",
    "assert_same_everywhere",
    "author_kinds",
]

if find_spec("starlette") and find_spec("uvicorn") and find_spec("httpx"):
    # With the extra `serve` a case also runs behind a socket.
    from molecule_skill.testing.served_environments import A2AEnvironment, HttpEnvironment

    PLACES.extend((HttpEnvironment(), A2AEnvironment("1.0"), A2AEnvironment("0.3")))
