"""Platform plugin of the hermes gateway: A2A messages of a Molecule workspace.

This folder is copied into `$HERMES_HOME/plugins/molecule-a2a` and runs in hermes' interpreter. It may use
only the standard library and what hermes has; nothing of Molecule is installed there.
"""

import importlib.util
from typing import Any

NAME = "molecule-a2a"
VERSION = "1.0.0"

_HINT = (
    "You are a member of an organisation of AI agents. Messages come from other agents or from people; your "
    "final answer is sent back to the sender as one message. Nobody can answer a question while you work: if "
    "you need to know something, ask for it in your answer."
)


def register(ctx: Any) -> None:
    """Offer the platform to the gateway."""
    ctx.register_platform(
        name=NAME,
        label="Molecule",
        adapter_factory=_make_adapter,
        check_fn=has_requirements,
        install_hint="install hermes-agent with the extra 'messaging', which brings aiohttp",
        allow_update_command=False,
        emoji="⚛",
        platform_hint=_HINT,
    )


def has_requirements() -> bool:
    """Whether hermes' environment has the HTTP library."""
    return importlib.util.find_spec("aiohttp") is not None


def _make_adapter(config: Any) -> Any:
    # Imported here, so that a missing aiohttp is reported by the check above and not as a broken plugin.
    from .adapter import MoleculeAdapter

    return MoleculeAdapter(config)
