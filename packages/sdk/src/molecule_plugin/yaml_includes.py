"""`!include file` in a template: the tree of the file takes the place of the line."""

from pathlib import Path

import yaml

from molecule_plugin.text_reader import UnreadableFile, read_text

MAX_TEMPLATE_BYTES = 2 * 1024 * 1024
TAG = "!include"
_MAX_DEPTH = 16
_MAX_FILES = 1000


class Includes:
    """The files that one template may include: only below its root, not too many, not too deep.

    A name is relative to the file that it stands in.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._left = _MAX_FILES

    def expand(self, node: yaml.Node, depth: int = 0, folder: Path | None = None) -> yaml.Node:
        """The tree of a file in a folder, by default the root, with each `!include` in it replaced."""
        folder = folder or self._root
        top = self._one(node, depth, folder)
        seen: set[int] = set()
        waiting = [top] if top is node else []
        while waiting:
            here = waiting.pop()
            if id(here) not in seen:
                seen.add(id(here))
                waiting += self._children(here, depth, folder)
        return top

    def _children(self, node: yaml.Node, depth: int, folder: Path) -> list[yaml.Node]:
        if isinstance(node, yaml.SequenceNode):
            node.value = [self._one(child, depth, folder) for child in node.value]
            return list(node.value)
        if isinstance(node, yaml.MappingNode):
            node.value = [(key, self._one(child, depth, folder)) for key, child in node.value]
            return [child for _, child in node.value]
        return []

    def _one(self, node: yaml.Node, depth: int, folder: Path) -> yaml.Node:
        if node.tag != TAG:
            return node
        name = str(node.value) if isinstance(node, yaml.ScalarNode) else ""
        try:
            path = self._path(folder, name, depth)
            child = yaml.SafeLoader(read_text(path, MAX_TEMPLATE_BYTES)).get_single_node()
        except (UnreadableFile, OSError, ValueError, yaml.YAMLError) as problem:
            reason = " ".join(str(problem).split())[:200]
            raise UnreadableFile(f"{TAG} {name!r}: {reason}", node.start_mark.line + 1) from None
        if child is None:
            return yaml.ScalarNode("tag:yaml.org,2002:null", "", node.start_mark, node.end_mark)
        return self.expand(child, depth + 1, path.parent)

    def _path(self, folder: Path, name: str, depth: int) -> Path:
        self._left -= 1
        if depth == _MAX_DEPTH or self._left < 0:
            raise UnreadableFile(f"at most {_MAX_FILES} files, {_MAX_DEPTH} deep")
        path = (folder / name).resolve()
        if not path.is_relative_to(self._root.resolve()):
            raise UnreadableFile("leaves the template")
        return path
