"""For the tests of plugins: a context that records, a plugin from a dictionary, a clean uninstall."""

import asyncio
import stat
import tempfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from molecule_plugin.install import install_plugin_dir
from molecule_plugin.keys import SigningKey
from molecule_plugin.memory import file_appender
from molecule_plugin.plugin_manifest import read_manifest
from molecule_plugin.protocol import InstallContext
from molecule_plugin.signatures import sign_plugin
from molecule_plugin.uninstall import uninstall_plugin


@dataclass
class FakeContext(InstallContext):
    """An `InstallContext` that remembers what an adaptor registered and appended."""

    tools: dict[str, object] = field(default_factory=dict[str, object])
    subagents: dict[str, object] = field(default_factory=dict[str, object])
    memory: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])


def fake_context(tmp_path: Path, runtime: str = "claude_code") -> FakeContext:
    """A context over `<tmp_path>/configs`, for the plugin in `<tmp_path>/plugin` unless you set another."""
    configs = tmp_path / "configs"
    configs.mkdir(parents=True, exist_ok=True)
    ctx = FakeContext(configs, "ws-test", runtime, tmp_path / "plugin")
    append = file_appender(configs)

    def append_to_memory(filename: str, content: str) -> None:
        ctx.memory.append((filename, content))
        append(filename, content)

    ctx.register_tool = ctx.tools.__setitem__
    ctx.register_subagent = ctx.subagents.__setitem__
    ctx.append_to_memory = append_to_memory
    return ctx


def build_plugin(
    tmp_path: Path, files: Mapping[str, str | bytes], sign_with: SigningKey | None = None
) -> Path:
    """Write a plugin's files to `<tmp_path>/plugin` and sign it, if told; a `.sh` file can be executed."""
    plugin = tmp_path / "plugin"
    plugin.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = plugin / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        path.chmod(0o755 if path.suffix == ".sh" else 0o644)
    if sign_with is not None:
        sign_plugin(plugin, [sign_with])
    return plugin


def snapshot(directory: Path) -> dict[str, tuple[int, bytes]]:
    """Every path below a directory with its mode and, for a file, its bytes."""
    return {
        path.relative_to(directory).as_posix(): (
            stat.S_IMODE(path.lstat().st_mode),
            path.read_bytes() if path.is_file() else b"",
        )
        for path in sorted(directory.rglob("*"))
    }


def assert_clean_uninstall(plugin_dir: Path) -> None:
    """Install a plugin for each runtime it names and remove it: the configs directory must be as it was.

    `setup.sh` does not run, since what it does cannot be taken back.
    """
    manifest = read_manifest(plugin_dir)
    runtimes = (manifest.runtimes if manifest else None) or ("claude_code",)
    for runtime in runtimes:
        with ThreadPoolExecutor(1) as apart:  # a test that is itself asynchronous may call this
            apart.submit(asyncio.run, _install_and_remove(plugin_dir, runtime)).result()


async def _install_and_remove(plugin_dir: Path, runtime: str) -> None:
    with tempfile.TemporaryDirectory() as directory:
        ctx = fake_context(Path(directory), runtime)
        ctx.run_setup = False
        (ctx.configs_dir / ctx.memory_filename).write_text("# Memory\n\nWritten by the user.")
        before = snapshot(ctx.configs_dir)
        result = await install_plugin_dir(plugin_dir, ctx)
        await uninstall_plugin(result.plugin_name, ctx)
        after = snapshot(ctx.configs_dir)
    changed = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    if changed:
        raise AssertionError(f"installing and removing for {runtime} left changes: {', '.join(changed)}")
