"""Which adaptor installs a plugin into a runtime: the platform's, the plugin's own, or the raw drop."""

import importlib.machinery
import importlib.metadata
import importlib.util
import logging
import sys
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from types import CodeType, ModuleType

from molecule_plugin.errors import PluginError
from molecule_plugin.plugin_layout import ADAPTERS_SUBDIR
from molecule_plugin.plugin_manifest import read_manifest
from molecule_plugin.protocol import AdaptorSource, PluginAdaptor
from molecule_plugin.raw_drop import RawDropAdaptor
from molecule_plugin.safe_paths import Root, is_plain_file
from molecule_wire.registry import ADAPTORS_GROUP, underscored

_MODULES = "molecule_plugin_adaptor"

log = logging.getLogger("molecule_plugin")


def resolve(
    plugin_name: str, runtime: str, plugin_root: Path, *, registry_root: Path | None = None
) -> tuple[PluginAdaptor, str]:
    """The adaptor for a plugin and where it was found. It never raises: the raw drop takes what fails.

    This runs code of the plugin: verify the plugin first. `registry_root` holds the platform's own adaptors,
    as `<plugin>/<runtime>.py`.
    """
    runtime_name = underscored(runtime)
    for source, load in _offers(plugin_name, runtime_name, Path(plugin_root), registry_root):
        adaptor = _attempt(plugin_name, runtime_name, source, load)
        if adaptor is not None:
            return adaptor, source
    return RawDropAdaptor(plugin_name, runtime_name), AdaptorSource.RAW_DROP


def forget(plugin_name: str) -> None:
    """Unload the adaptors of a plugin that was upgraded or removed."""
    for module in [name for name in sys.modules if name.startswith(f"{_MODULES}:{plugin_name}:")]:
        del sys.modules[module]


def _offers(
    plugin: str, runtime: str, plugin_root: Path, registry_root: Path | None
) -> Iterator[tuple[str, Callable[[], object]]]:
    if registry_root is not None and is_plain_file(path := registry_root / plugin / f"{runtime}.py"):
        yield AdaptorSource.REGISTRY, lambda: load_module(plugin, runtime, path)
    for point in importlib.metadata.entry_points(group=ADAPTORS_GROUP, name=f"{plugin}:{runtime}"):
        yield AdaptorSource.REGISTRY, point.load
    own = _own_adaptor(plugin_root, runtime)
    if own is not None:
        yield AdaptorSource.PLUGIN, lambda: load_module(plugin, runtime, own)


def _own_adaptor(plugin_root: Path, runtime: str) -> Path | None:
    named = f"{ADAPTERS_SUBDIR}/{runtime}.py"
    try:
        manifest = read_manifest(plugin_root)
        path = Root(plugin_root).path(manifest.adapters.get(runtime, named) if manifest else named)
    except PluginError as problem:
        log.warning("the adaptor of %s for %s cannot be found: %s", plugin_root.name, runtime, problem)
        return None
    return path if is_plain_file(path) else None


def _attempt(plugin: str, runtime: str, source: str, load: Callable[[], object]) -> PluginAdaptor | None:
    try:
        return _adaptor_from(load(), plugin, runtime)
    except (Exception, SystemExit) as problem:
        log.debug("the %s adaptor of plugin %s for %s failed", source, plugin, runtime, exc_info=True)
        log.warning("the %s adaptor of plugin %s for %s cannot be used: %r", source, plugin, runtime, problem)
        return None


def _adaptor_from(offer: object, plugin: str, runtime: str) -> PluginAdaptor:
    """Make the adaptor that a module, a class or a factory offers."""
    make = getattr(offer, "get_adaptor", None) or getattr(offer, "Adaptor", None) or offer
    if isinstance(make, ModuleType) or not callable(make):
        raise TypeError("it has neither get_adaptor(plugin_name, runtime) nor a class Adaptor")
    adaptor = _construct(make, plugin, runtime)
    for name, value in (("plugin_name", plugin), ("runtime", runtime)):
        if not hasattr(adaptor, name):
            setattr(adaptor, name, value)
    if not isinstance(adaptor, PluginAdaptor):
        raise TypeError("what it offers has no install and uninstall")
    return adaptor


def _construct(make: Callable[..., object], plugin: str, runtime: str) -> object:
    if not isinstance(make, type):
        return make(plugin, runtime)
    try:
        return make(plugin, runtime)
    except TypeError:
        return make()


class _SourceOnly(importlib.machinery.SourceFileLoader):
    """Reads the source each time and leaves no compiled file, which would change the plugin's digest."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def load_module(plugin: str, runtime: str, path: Path) -> ModuleType:
    """Run the source at `path` as a module whose name no other version shares."""
    prefix = f"{_MODULES}:{plugin}:{runtime}:"
    name = prefix + sha256(path.read_bytes()).hexdigest()[:16]
    for old in [module for module in sys.modules if module.startswith(prefix)]:
        del sys.modules[old]
    spec = importlib.util.spec_from_loader(name, _SourceOnly(name, str(path)))
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module
