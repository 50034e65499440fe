"""The adapter of `echo`."""

from molecule_runtime.kit.setup.adapter import AdapterConfig, BaseAdapter
from molecule_runtime.runtimes.echo.executor import EchoExecutor


class EchoAdapter(BaseAdapter):
    """Answers `echo: <text>`; directives make it slow, chatty, broken or curious."""

    @staticmethod
    def name() -> str:
        """The runtime id."""
        return "echo"

    @staticmethod
    def display_name() -> str:
        """The name for people."""
        return "Echo"

    @staticmethod
    def description() -> str:
        """One line."""
        return "Answers with what it was asked; for tests and demonstrations."

    def memory_filename(self) -> str:
        """Where plugins write what the agent shall remember."""
        return "AGENTS.md"

    async def setup(self, config: AdapterConfig) -> None:
        """Nothing is needed."""

    async def create_executor(self, config: AdapterConfig) -> EchoExecutor:
        """The executor."""
        self._executor = EchoExecutor(config, adapter=self)
        return self._executor
