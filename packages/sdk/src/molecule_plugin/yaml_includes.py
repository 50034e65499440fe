"""`!include file` in a template: the tree of the file takes the place of the line."""

from pathlib import Path

import yaml

from molecule_plugin.text_reading import Unreadable, read_text

LARGEST_TEMPLATE = 2 * 1024 * 1024
TAG = "!include"
_DEEPEST = 16
_MOST = 1000


class Includes:
    """The files that one template may include: only below its root, not too many, not too deep."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._left = _MOST

    def expand(self, node: yaml.Node, depth: int = 0) -> yaml.Node:
        """The tree with each `!include` in it replaced."""
        top = self._one(node, depth)
        seen: set[int] = set()
        waiting = [top] if top is node else []
        while waiting:
            here = waiting.pop()
            if id(here) not in seen:
                seen.add(id(here))
                waiting += self._children(here, depth)
        return top

    def _children(self, node: yaml.Node, depth: int) -> list[yaml.Node]:
        if isinstance(node, yaml.SequenceNode):
            node.value = [self._one(child, depth) for child in node.value]
            return list(node.value)
        if isinstance(node, yaml.MappingNode):
            node.value = [(key, self._one(child, depth)) for key, child in node.value]
            return [child for _, child in node.value]
        return []

    def _one(self, node: yaml.Node, depth: int) -> yaml.Node:
        if node.tag != TAG:
            return node
        name = str(node.value) if isinstance(node, yaml.ScalarNode) else ""
        try:
            child = yaml.SafeLoader(self._text(name, depth)).get_single_node()
        except (Unreadable, OSError, ValueError, yaml.YAMLError) as problem:
            reason = " ".join(str(problem).split())[:200]
            raise Unreadable(f"{TAG} {name!r}: {reason}", node.start_mark.line + 1) from None
        if child is None:
            return yaml.ScalarNode("tag:yaml.org,2002:null", "", node.start_mark, node.end_mark)
        return self.expand(child, depth + 1)

    def _text(self, name: str, depth: int) -> str:
        self._left -= 1
        if depth == _DEEPEST or self._left < 0:
            raise Unreadable(f"at most {_MOST} files, {_DEEPEST} deep")
        path = (self._root / name).resolve()
        if not path.is_relative_to(self._root.resolve()):
            raise Unreadable("leaves the template")
        return read_text(path, LARGEST_TEMPLATE)
