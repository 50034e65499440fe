"""Merging a plugin's `settings-fragment.json` into the settings of a workspace, and taking it out again.

Nothing here touches a disk. What was there before always wins; what was added is told in `Entries`, so that
it can be found again unless somebody changed it.
"""

import copy
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import cast

from molecule_plugin.values import items, mapping, named, text, texts

HOOKS = "hooks"
SERVERS = "mcpServers"
CLAUDE_DIR_VARIABLE = "${CLAUDE_DIR}"

Settings = dict[str, object]


@dataclass(frozen=True)
class Hook:
    """One handler of an event, known by its matcher and the set of its commands."""

    event: str
    matcher: str
    commands: tuple[str, ...]

    @property
    def identity(self) -> tuple[str, str, frozenset[str]]:
        """What makes two handlers the same."""
        return self.event, self.matcher, frozenset(self.commands)


@dataclass
class Entries:
    """What a plugin has in the settings: its handlers, its servers and other entries with their digests.

    An entry of another mapping is named `<key>/<entry>`, a key that is no mapping by itself.
    """

    hooks: list[Hook] = field(default_factory=list[Hook])
    servers: dict[str, str] = field(default_factory=dict[str, str])
    keys: dict[str, str] = field(default_factory=dict[str, str])


def digest_of(value: object) -> str:
    """SHA-256 of a value of the settings, whatever the order of its keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def merge(
    settings: Settings,
    fragment: Mapping[str, object],
    plugin: str,
    claude_dir: str,
    others: Mapping[str, Entries],
) -> tuple[Entries, list[str]]:
    """Add a fragment to `settings` in place; what was added, and what a user should know.

    `others` says what the other installed plugins have there: an entry that one of them added in the same
    words belongs to both.
    """
    merging = _SettingsMerge(settings, plugin, claude_dir, others)
    for key, value in fragment.items():
        if key == HOOKS:
            merging.add_hooks(value)
        elif mapping(value) is not None:
            merging.add_members(key, named(value))
        else:
            merging.add_value(key, value)
    return merging.added, merging.warnings


class _SettingsMerge:
    def __init__(
        self, settings: Settings, plugin: str, claude_dir: str, others: Mapping[str, Entries]
    ) -> None:
        self.added = Entries()
        self.warnings: list[str] = []
        self._settings = settings
        self._plugin = plugin
        self._claude_dir = claude_dir
        self._others = others

    def add_hooks(self, value: object) -> None:
        for event, handlers in named(value).items():
            known = items(named(self._settings.get(HOOKS)).get(event, []))
            if known is None or items(handlers) is None:
                self.warnings.append(f"hooks.{event} is not a list of handlers — not merged")
                continue
            for handler in items(handlers) or []:
                self._add_handler(event, known, self._placed(handler))

    def _add_handler(self, event: str, known: list[object], handler: object) -> None:
        hook = hook_of(event, handler)
        if all(hook_of(event, other).identity != hook.identity for other in known):
            if (events := self._section(HOOKS)) is None:
                return
            known.append(handler)
            events[event] = known
        elif not self._is_anothers(hook):
            return
        self.added.hooks.append(hook)

    def _is_anothers(self, hook: Hook) -> bool:
        return any(
            hook.identity == other.identity for theirs in self._others.values() for other in theirs.hooks
        )

    def add_members(self, key: str, members: Mapping[str, object]) -> None:
        for name, value in members.items():
            known = named(self._settings.get(key))
            if name not in known:
                if (section := self._section(key)) is None:
                    return
                section[name] = value
                self._note(key, name, value)
            elif known[name] != value:
                holder = self._holder(key, name, known[name]) or "the workspace's own settings"
                self.warnings.append(
                    f"{key}.{name} of plugin '{self._plugin}' conflicts with {holder} — the first is kept"
                )
            elif self._holder(key, name, value):
                self._note(key, name, value)

    def add_value(self, key: str, value: object) -> None:
        if key not in self._settings:
            self._settings[key] = value
            self.added.keys[_path(key)] = digest_of(value)

    def _note(self, key: str, name: str, value: object) -> None:
        if key == SERVERS:
            self.added.servers[name] = digest_of(value)
        else:
            self.added.keys[_path(key, name)] = digest_of(value)

    def _holder(self, key: str, name: str, value: object) -> str | None:
        digest = digest_of(value)
        for plugin, entries in self._others.items():
            noted = entries.servers.get(name) if key == SERVERS else entries.keys.get(_path(key, name))
            if noted == digest:
                return f"plugin '{plugin}'"
        return None

    def _section(self, key: str) -> dict[str, object] | None:
        section = self._settings.setdefault(key, {})
        if mapping(section) is None:
            self.warnings.append(f"{key} of the existing settings is not an object — not merged")
            return None
        return cast("dict[str, object]", section)

    def _placed(self, handler: object) -> object:
        """The handler with the absolute `.claude` directory in its commands."""
        placed = copy.deepcopy(handler)
        for step in items(named(placed).get(HOOKS)) or []:
            command = named(step).get("command")
            if isinstance(command, str):
                cast("dict[str, object]", step)["command"] = command.replace(
                    CLAUDE_DIR_VARIABLE, self._claude_dir
                )
        return placed


def hook_of(event: str, handler: object) -> Hook:
    """What a handler is known by."""
    fields = named(handler)
    steps = [named(step) for step in items(fields.get(HOOKS)) or []]
    commands = texts([step.get("command") for step in steps])
    return Hook(event, text(fields.get("matcher")), commands)


def take_out(
    settings: Settings, entries: Entries, others: Iterable[Entries], original: Mapping[str, object]
) -> list[str]:
    """Remove a plugin's entries from `settings` in place; what was changed meanwhile stays, with a warning.

    Entries that another plugin has too stay silently. A container that becomes empty goes, unless `original`,
    the settings before the first plugin, had it.
    """
    theirs = list(others)
    warnings: list[str] = []
    taken = {hook.identity for other in theirs for hook in other.hooks}
    # A plugin may name the same handler twice where it was added once.
    for hook in {hook.identity: hook for hook in entries.hooks if hook.identity not in taken}.values():
        _take_out_hook(settings, hook, warnings)
    for path, digest in _values(entries).items():
        if not any(_values(other).get(path) == digest for other in theirs):
            _take_out_value(settings, path, digest, warnings)
    _tidy(settings, entries, original)
    return warnings


def _values(entries: Entries) -> dict[str, str]:
    return {_path(SERVERS, name): digest for name, digest in entries.servers.items()} | entries.keys


def _take_out_hook(settings: Settings, hook: Hook, warnings: list[str]) -> None:
    handlers = items(named(settings.get(HOOKS)).get(hook.event)) or []
    for at, handler in enumerate(handlers):
        if hook_of(hook.event, handler).identity == hook.identity:
            del handlers[at]
            return
    if any(set(hook_of(hook.event, handler).commands) & set(hook.commands) for handler in handlers):
        warnings.append(f"a handler of hooks.{hook.event} was changed — kept")


def _take_out_value(settings: Settings, path: str, digest: str, warnings: list[str]) -> None:
    *above, name = _steps(path)
    section = named(settings.get(above[0])) if above else settings
    if name not in section:
        return
    if digest_of(section[name]) != digest:
        warnings.append(f"{'.'.join(_steps(path))} was changed — kept")
        return
    holder = cast("dict[str, object]", settings[above[0]]) if above else settings
    del holder[name]


def _tidy(settings: Settings, entries: Entries, original: Mapping[str, object]) -> None:
    events = mapping(settings.get(HOOKS))
    if events is not None:
        had = named(original.get(HOOKS))
        _drop_empty(events, [hook.event for hook in entries.hooks if hook.event not in had])
    sections = {HOOKS} | {_steps(path)[0] for path in _values(entries) if len(_steps(path)) > 1}
    _drop_empty(settings, [name for name in sections if name not in original])


def _drop_empty(section: dict[str, object] | dict[object, object], names: Iterable[object]) -> None:
    whole = cast("dict[object, object]", section)
    for name in list(names):
        if whole.get(name) in ({}, []):
            del whole[name]


def _path(*steps: str) -> str:
    return "/".join(step.replace("~", "~0").replace("/", "~1") for step in steps)


def _steps(path: str) -> list[str]:
    return [step.replace("~1", "/").replace("~0", "~") for step in path.split("/")]
