"""Alias of `molecule_runtime.links.heartbeat`: the same module object."""

import sys

from molecule_runtime.links import heartbeat
from molecule_runtime.links.heartbeat import (
    HEARTBEAT_INTERVAL as HEARTBEAT_INTERVAL,
)
from molecule_runtime.links.heartbeat import (
    MAX_CONSECUTIVE_FAILURES as MAX_CONSECUTIVE_FAILURES,
)
from molecule_runtime.links.heartbeat import (
    MAX_SEEN_DELEGATION_IDS as MAX_SEEN_DELEGATION_IDS,
)
from molecule_runtime.links.heartbeat import (
    SELF_MESSAGE_COOLDOWN as SELF_MESSAGE_COOLDOWN,
)
from molecule_runtime.links.heartbeat import (
    HeartbeatLoop as HeartbeatLoop,
)
from molecule_runtime.links.heartbeat import (
    _runtime_metadata_payload as _runtime_metadata_payload,
)

sys.modules[__name__] = heartbeat
