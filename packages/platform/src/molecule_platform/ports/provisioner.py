"""What starts and stops the agents that live on our own machines."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from molecule_platform.domain.workspaces import Workspace


class StartFailed(Exception):
    """An agent's process did not start. The text says why and never holds a secret."""

    def __init__(self, sentence: str, *, retryable: bool = True) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.retryable = retryable


class StopFailed(Exception):
    """An agent's process may still run. The text says why."""


@dataclass(frozen=True)
class Launch:
    """What an agent's process is started with; what it may know alone does not show in the text form.

    `epoch` is the number of this start among those of the workspace: a newer start has a larger one.
    """

    workspace: Workspace
    epoch: int
    environment: Mapping[str, str] = field(repr=False)
    auth_token: str = field(repr=False)
    reset_session: bool = False


class Provisioner(Protocol):
    """One per house. An agent is named by its workspace; it runs at most once, on whichever machine.

    Any replica may ask for anything: the provisioner reaches the process wherever it runs. One that reaches
    only its own machine can serve only a house of one replica.
    """

    async def start(self, launch: Launch) -> None:
        """Start the agent; returns when its process runs. Raises `StartFailed`.

        It also fails, and starts nothing, when the process of a newer start already runs.
        """
        ...

    async def stop(self, workspace_id: str, through: int) -> None:
        """Let the agent finish what it does and end, if its start was this one or an earlier one.

        A process of a newer start is left alone. When there is none to stop, the stop has succeeded. It may
        be asked for again at any time, also while it goes on. Raises `StopFailed`.
        """
        ...

    async def is_running(self, workspace_id: str) -> bool:
        """Whether the agent's process is there."""
        ...

    async def logs(self, workspace_id: str, lines: int) -> str:
        """The last lines that the agent wrote."""
        ...

    def config_dir(self, workspace_id: str) -> str:
        """Where the agent's configuration lies."""
        ...
