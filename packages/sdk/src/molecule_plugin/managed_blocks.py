"""The blocks a plugin has in a memory file, each between two marker lines; what stands outside is the user's.

All functions take the text of a memory file and give it back changed; nothing here touches a disk.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

RESERVED = "<!-- molecule:"

_BEGIN = re.compile(r"<!-- molecule:begin plugin=(\S+) block=(.+) sha256=([0-9a-f]{64}) -->\s*")
_END = re.compile(r"<!-- molecule:end plugin=(\S+) block=(.+) -->\s*")


@dataclass(frozen=True)
class Block:
    """One rule or prompt fragment as it is shipped: `rule/good.md` and its prose."""

    plugin: str
    name: str
    prose: str

    @property
    def heading(self) -> str:
        """The line that names the block to a reader; older versions wrote it without a fence."""
        kind, _, file = self.name.partition("/")
        return f"# Plugin: {self.plugin} / {kind}: {file}"

    @property
    def text(self) -> str:
        """What stands between the markers."""
        return f"{self.heading}\n\n{self.prose}"

    @property
    def sha256(self) -> str:
        """The digest in the begin marker."""
        return digest_of(self.text)

    def fenced(self) -> str:
        """The block with its markers, without a final newline."""
        begin = f"<!-- molecule:begin plugin={self.plugin} block={self.name} sha256={self.sha256} -->"
        return f"{begin}\n{self.text}\n<!-- molecule:end plugin={self.plugin} block={self.name} -->"


@dataclass
class MemoryEdit:
    """The new text of a memory file, which blocks are still to be appended, and what a user should know."""

    text: str
    missing: list[Block] = field(default_factory=list[Block])
    warnings: list[str] = field(default_factory=list[str])


@dataclass(frozen=True)
class ManagedBlock:
    """A block found in a file: lines `start` up to, not including, `stop`."""

    block: str
    sha256: str
    text: str
    start: int
    stop: int
    closed: bool

    @property
    def edited(self) -> bool:
        """Whether somebody changed the text between the markers."""
        return digest_of(self.text) != self.sha256


def digest_of(text: str) -> str:
    """SHA-256 of a block's text."""
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()


def find(text: str, plugin: str) -> list[ManagedBlock]:
    """The blocks of one plugin, in the order of the file.

    A block whose end marker is lost ends where the next block begins; is there none, it is not `closed`.
    """
    lines = text.split("\n")
    begins = [(at, found) for at, line in enumerate(lines) if (found := _BEGIN.fullmatch(line))]
    stops = [*(at for at, _ in begins[1:]), None]
    return [
        _fence(lines, at, found, stop)
        for (at, found), stop in zip(begins, stops, strict=False)
        if found[1] == plugin
    ]


def _fence(lines: list[str], start: int, begin: re.Match[str], next_begin: int | None) -> ManagedBlock:
    plugin, name, sha256 = begin.groups()
    limit = len(lines) if next_begin is None else next_begin
    for at in range(start + 1, limit):
        if (end := _END.fullmatch(lines[at])) and end.groups() == (plugin, name):
            return ManagedBlock(name, sha256, _between(lines, start, at), start, at + 1, True)
    inner = _between(lines, start, limit).rstrip("\n")
    return ManagedBlock(name, sha256, inner, start, limit, next_begin is not None)


def _between(lines: list[str], start: int, stop: int) -> str:
    return "\n".join(line.removesuffix("\r") for line in lines[start + 1 : stop])


def update(text: str, plugin: str, blocks: Sequence[Block]) -> MemoryEdit:
    """Bring a plugin's blocks up to date where they stand; those the file lacks are left to be appended.

    A block that somebody edited stays, as text of the user's own, when the plugin ships another one by now.
    """
    shipped = {block.name: block for block in blocks}
    edited = MemoryEdit(text)
    present: set[str] = set()
    for fence in reversed(find(text, plugin)):
        block = None if fence.block in present else shipped.get(fence.block)
        if block is not None and block.sha256 == fence.sha256:
            present.add(fence.block)
        elif block is not None and fence.closed and not fence.edited:
            _replace(edited, fence, block.fenced().split("\n"))
            present.add(fence.block)
        else:
            _retire(edited, fence)
    for block in blocks:
        if block.name not in present and not _fence_legacy(edited, block):
            edited.missing.append(block)
    return edited


def remove(text: str, plugin: str, blocks: Iterable[Block] = ()) -> MemoryEdit:
    """Remove a plugin's blocks; `blocks`, as shipped, also finds those of older versions without a fence."""
    edited = MemoryEdit(text)
    for fence in reversed(find(text, plugin)):
        _retire(edited, fence)
    for block in blocks:
        _remove_legacy(edited, block)
    return edited


def _retire(edited: MemoryEdit, fence: ManagedBlock) -> None:
    """Remove a block, but keep what cannot be told from the user's own text."""
    if not fence.closed:
        edited.warnings.append(f"block {fence.block} has no end marker — left as it is")
    elif fence.edited:
        edited.warnings.append(f"block {fence.block} was edited — its text is kept without the markers")
        heading, _, body = fence.text.partition("\n")
        own = body.lstrip("\n") if heading.startswith("# Plugin: ") else fence.text
        _replace(edited, fence, own.split("\n"))
    else:
        _replace(edited, fence, [])


def _replace(edited: MemoryEdit, fence: ManagedBlock, new: list[str]) -> None:
    lines = edited.text.split("\n")
    lines[fence.start : fence.stop] = new
    edited.text = "\n".join(lines)


def _fence_legacy(edited: MemoryEdit, block: Block) -> bool:
    """Put markers around an older copy of the block; true when that was all there was to do."""
    place = _find_legacy(edited.text, block)
    if place is None:
        return False
    start, stop = place
    if stop is None:
        edited.warnings.append(f"an older {block.name} stands in the memory file and was edited — kept")
        return False
    edited.text = edited.text[:start] + block.fenced() + edited.text[stop:]
    return True


def _remove_legacy(edited: MemoryEdit, block: Block) -> None:
    place = _find_legacy(edited.text, block)
    if place is None:
        return
    start, stop = place
    if stop is None:
        edited.warnings.append(f"block {block.name} was edited — only its heading is removed")
        stop = start + len(block.heading)
    edited.text = edited.text[:start] + edited.text[stop:].removeprefix("\n")


def _find_legacy(text: str, block: Block) -> tuple[int, int | None] | None:
    """Where a heading without fence begins and where its body ends; no end when the body is another."""
    found = re.search(rf"(?m)^{re.escape(block.heading)}$", text)
    if found is None or _is_fenced(text, found.start(), block.plugin):
        return None
    body = re.compile(rf"\n+{re.escape(block.prose)}(?=\n|\Z)").match(text, found.end())
    return found.start(), body.end() if body else None


def _is_fenced(text: str, position: int, plugin: str) -> bool:
    line = text.count("\n", 0, position)
    return any(fence.start < line < fence.stop for fence in find(text, plugin))
