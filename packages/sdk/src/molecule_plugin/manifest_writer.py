"""Putting the digest into `plugin.yaml` by changing that line alone: comments and order stay."""

from pathlib import Path

import yaml

from molecule_plugin.errors import PluginManifestError
from molecule_plugin.plugin_manifest import MANIFEST
from molecule_plugin.safe_paths import write_atomically
from molecule_plugin.text_reader import UnreadableFile, read_text
from molecule_plugin.values import named
from molecule_plugin.yaml_reader import MAX_MANIFEST_BYTES, parse_yaml


def write_sha256(plugin_dir: Path, digest: str) -> bool:
    """Set `sha256` in a plugin's manifest; false when it says so already."""
    path = plugin_dir / MANIFEST
    try:
        text = read_text(path, MAX_MANIFEST_BYTES)
    except UnreadableFile as unreadable:
        raise PluginManifestError(f"{path} cannot be read: {unreadable}") from None
    changed = with_sha256(text, digest)
    if changed == text:
        return False
    write_atomically(path, changed.encode(), path.stat().st_mode & 0o777)
    return True


def with_sha256(text: str, digest: str) -> str:
    """The text of a manifest with its `sha256` set; `PluginManifestError` when it cannot be done safely."""
    before = parse_yaml(text)
    if before.problem:
        raise PluginManifestError(f"plugin.yaml cannot be read: {before.problem}")
    if named(before.value).get("sha256") == digest:
        return text
    changed = _edited(text, f'"{digest}"')
    if parse_yaml(changed).texts != {**before.texts, ("sha256",): digest}:
        raise PluginManifestError(f'plugin.yaml is written in an unusual way; set sha256: "{digest}" by hand')
    return changed


def _edited(text: str, quoted: str) -> str:
    root = yaml.SafeLoader(text).get_single_node()
    if not isinstance(root, yaml.MappingNode):
        raise PluginManifestError("plugin.yaml: manifest root must be a mapping")
    entries = {str(key.value): (key, value) for key, value in root.value if isinstance(key, yaml.ScalarNode)}
    if "sha256" in entries:
        value = entries["sha256"][1]
        start, end = value.start_mark.index, value.end_mark.index
        return text[:start] + (quoted if start != end else f" {quoted}") + text[end:]
    if root.flow_style:
        end = root.end_mark.index - 1
        return f"{text[:end]}, sha256: {quoted}{text[end:]}"
    key, value = entries.get("version") or entries.get("name") or root.value[-1]
    return _with_line_after(text, value.end_mark.index, " " * key.start_mark.column + f"sha256: {quoted}")


def _with_line_after(text: str, index: int, line: str) -> str:
    ending = "\r\n" if "\r\n" in text else "\n"
    end = text.find("\n", index)
    if end < 0:
        return f"{text}{ending}{line}{ending}"
    return f"{text[: end + 1]}{line}{ending}{text[end + 1 :]}"
