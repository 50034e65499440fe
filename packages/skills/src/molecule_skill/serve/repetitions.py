"""Repetitions of a message: by what the A2A server and the gate know that it came before."""

import hashlib
import json
from collections.abc import Hashable, Mapping
from typing import NamedTuple

from molecule_wire.a2a.envelopes import A2ARequest
from molecule_wire.a2a.server import service
from molecule_wire.a2a.server.task_log import Owner


class MessageKey(NamedTuple):
    """By what a message is known: to the server in memory, and in the row of its run.

    A repetition under the key of the client must have the same fingerprint. The platform's own row needs
    none: it is one message, however often it is delivered.
    """

    key: Hashable
    of_run: str
    fingerprint: str = ""


def known_by(request: A2ARequest | None, owner: Owner, headers: Mapping[str, str]) -> MessageKey | None:
    """By what a repetition of this message would be known; None for one that says nothing of the kind."""
    row = headers.get(service.MESSAGE_ID_HEADER)
    if row:
        return MessageKey(service.redelivery_key(owner.principal, headers), f"a2a:row:{row}")
    named = headers.get("idempotency-key")
    if not named or request is None:
        return None
    content = json.dumps([request.method, request.params], sort_keys=True)
    digest = hashlib.sha256(content.encode()).hexdigest()
    return MessageKey(("key", *owner, named), f"a2a:key:{owner.tenant}:{named}", digest)
