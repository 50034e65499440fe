"""Installing plugins into an engine by their adaptors."""

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from molecule_wire.registry import underscored

if TYPE_CHECKING:
    from molecule_plugin.protocol import InstallResult
    from molecule_runtime.kit.setup.adapter import AdapterConfig, BaseAdapter

log = logging.getLogger(__name__)


async def install_plugins(
    adapter: "BaseAdapter", config: "AdapterConfig", plugins: Any
) -> "list[InstallResult]":
    """Install each of `plugins.plugins`, which were verified when they were loaded.

    One that fails is logged and has no entry in the answer.
    """
    from molecule_plugin.protocol import InstallContext
    from molecule_plugin.resolution import resolve

    runtime = underscored(adapter.name())
    append: Callable[[str, str], None] = partial(adapter.append_to_memory_hook, config)
    results: list[InstallResult] = []
    listed = cast("list[Any]", getattr(plugins, "plugins", None) or [])
    for plugin in listed:
        root = Path(plugin.path)
        adaptor, source = resolve(plugin.name, runtime, root)
        context = InstallContext(
            configs_dir=Path(config.config_path),
            workspace_id=config.workspace_id,
            runtime=runtime,
            plugin_root=root,
            memory_filename=adapter.memory_filename(),
            register_tool=adapter.register_tool_hook,
            register_subagent=adapter.register_subagent_hook,
            append_to_memory=append,
            run_setup=not config.smoke,
        )
        try:
            result = await adaptor.install(context)
        except Exception as problem:
            log.exception("Plugin %s install via %s failed: %s", plugin.name, source, problem)
            continue
        log.info(
            "Plugin %s installed via %s adaptor (warnings: %d)", plugin.name, source, len(result.warnings)
        )
        results.append(result)
    return results
