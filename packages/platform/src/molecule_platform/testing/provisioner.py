"""A provisioner for tests: it starts nothing, remembers everything and fails when it is told to."""

import asyncio

from molecule_platform.ports.provisioner import Launch, StartFailed, StopFailed


class FakeProvisioner:
    """See `ports.provisioner.Provisioner`. A test may look at it, and change its script, from any thread."""

    def __init__(self) -> None:
        self.launches: list[Launch] = []
        self.stopped: list[str] = []
        self.running: set[str] = set()
        self.epochs: dict[str, int] = {}
        self.start_problems: list[StartFailed] = []
        self.stop_problems: list[str] = []
        self.seconds = 0.0
        self.open = asyncio.Event()
        self.open.set()
        self.starting = 0
        self.most_starting = 0

    async def start(self, launch: Launch) -> None:
        """Remember the launch, wait while it is not `open`, take the script's next problem if any."""
        self.launches.append(launch)
        self.starting += 1
        self.most_starting = max(self.starting, self.most_starting)
        try:
            await asyncio.sleep(self.seconds)
            await self.open.wait()
        finally:
            self.starting -= 1
        if self.start_problems:
            raise self.start_problems.pop(0)
        workspace_id = launch.workspace.id
        if workspace_id in self.running and self.epochs.get(workspace_id, 0) > launch.epoch:
            raise StartFailed("a newer start runs")
        self.running.add(workspace_id)
        self.epochs[workspace_id] = launch.epoch

    async def stop(self, workspace_id: str, through: int) -> None:
        """End it, unless it is of a newer start or the script says that it does not end."""
        await asyncio.sleep(self.seconds)
        if self.stop_problems:
            raise StopFailed(self.stop_problems.pop(0))
        if workspace_id in self.running and self.epochs.get(workspace_id, 0) <= through:
            self.stopped.append(workspace_id)
            self.running.discard(workspace_id)

    def die(self, workspace_id: str) -> None:
        """The process ends by itself."""
        self.running.discard(workspace_id)

    async def is_running(self, workspace_id: str) -> bool:
        """Whether it was started and did not end."""
        return workspace_id in self.running

    async def logs(self, workspace_id: str, lines: int) -> str:
        """Nothing is ever written."""
        return ""

    def config_dir(self, workspace_id: str) -> str:
        """A folder that does not exist."""
        return f"/configs/{workspace_id}"

    def launches_of(self, workspace_id: str) -> list[Launch]:
        """How a workspace was started, each time."""
        return [launch for launch in self.launches if launch.workspace.id == workspace_id]
