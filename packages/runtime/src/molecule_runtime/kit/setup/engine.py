"""Starting an engine: from an adapter to an executor that takes turns."""

from typing import Any

from molecule_runtime.kit.setup.adapter import AdapterConfig, BaseAdapter
from molecule_runtime.kit.tools.tool_set import ToolSet
from molecule_runtime.kit.turns.a2a_sdk_executor import GuardedExecutor
from molecule_runtime.kit.turns.executor import TurnExecutor


async def start_executor(adapter: BaseAdapter, config: AdapterConfig) -> TurnExecutor:
    """Set the adapter up, make its executor and start it."""
    await adapter.setup(config)
    executor = await make_executor(adapter, config)
    await executor.start()
    return executor


async def make_executor(adapter: BaseAdapter, config: AdapterConfig) -> TurnExecutor:
    """The executor of an adapter. One that is not the kit's own runs behind the guard.

    An executor that brings no tools is offered those of the adapter's setup, or the built-in ones.
    """
    made: Any = await adapter.create_executor(config)
    if not callable(getattr(made, "execute", None)):
        raise RuntimeError(f"create_executor() of the adapter returned {type(made).__name__}, no executor")
    if adapter._executor is None:
        adapter._executor = made
    executor = made if isinstance(made, TurnExecutor) else GuardedExecutor(made, config)
    executor.adapter = executor.adapter or adapter
    if executor.tools is None:
        executor.tools = ToolSet(_offered(adapter, config))
    return executor


def _offered(adapter: BaseAdapter, config: AdapterConfig) -> list[Any]:
    if adapter._setup is not None:
        return adapter._setup.result.tools
    # Imported here: an adapter under test needs neither plugins nor skills.
    from molecule_runtime.kit.setup.common_setup import built_in_tools

    return list(built_in_tools(config, config.platform, ()))
