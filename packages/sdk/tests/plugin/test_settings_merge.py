"""The settings merge: what was there wins, nothing comes twice, and everything can be taken out again."""

import copy

from hypothesis import example, given
from hypothesis import strategies as st

from molecule_plugin.settings_merge import Entries, Settings, digest_of, merge, take_out


def _handler(matcher: str, *commands: str) -> dict[str, object]:
    return {"matcher": matcher, "hooks": [{"type": "command", "command": command} for command in commands]}


def _merge(
    settings: Settings, fragment: Settings, others: dict[str, Entries] | None = None
) -> tuple[Entries, list[str]]:
    return merge(settings, fragment, "demo", "/configs/.claude", others or {})


def test_the_claude_directory_is_put_into_hook_commands() -> None:
    settings: Settings = {}
    _merge(settings, {"hooks": {"Stop": [_handler("", "${CLAUDE_DIR}/hooks/x.sh")]}})
    assert settings == {"hooks": {"Stop": [_handler("", "/configs/.claude/hooks/x.sh")]}}


def test_a_handler_with_the_same_matcher_and_set_of_commands_is_not_added_again() -> None:
    settings: Settings = {"hooks": {"Stop": [_handler("Bash", "b", "a")]}}
    before = copy.deepcopy(settings)
    added, warnings = _merge(settings, {"hooks": {"Stop": [_handler("Bash", "a", "b")]}})
    assert (settings, added, warnings) == (before, Entries(), [])


def test_another_matcher_or_command_is_another_handler() -> None:
    settings: Settings = {"hooks": {"Stop": [_handler("Bash", "a")]}}
    added, _ = _merge(settings, {"hooks": {"Stop": [_handler("Edit", "a"), _handler("Bash", "b")]}})
    assert [(hook.matcher, hook.commands) for hook in added.hooks] == [("Edit", ("a",)), ("Bash", ("b",))]


def test_mappings_are_merged_entry_by_entry_and_an_existing_one_wins() -> None:
    settings: Settings = {"mcpServers": {"a": {"command": "mine"}}, "env": {"X": "1"}}
    added, warnings = _merge(
        settings, {"mcpServers": {"a": {"command": "theirs"}, "b": {"command": "b"}}, "env": {"Y": "2"}}
    )
    assert settings == {
        "mcpServers": {"a": {"command": "mine"}, "b": {"command": "b"}},
        "env": {"X": "1", "Y": "2"},
    }
    assert added.servers == {"b": digest_of({"command": "b"})}
    assert added.keys == {"env/Y": digest_of("2")}
    assert warnings == [
        "mcpServers.a of plugin 'demo' conflicts with the workspace's own settings — the first is kept"
    ]


def test_a_conflict_with_another_plugin_names_both() -> None:
    settings: Settings = {}
    first, _ = _merge(settings, {"mcpServers": {"a": {"command": "first"}}})
    _, warnings = _merge(settings, {"mcpServers": {"a": {"command": "second"}}}, {"older": first})
    assert warnings == ["mcpServers.a of plugin 'demo' conflicts with plugin 'older' — the first is kept"]


def test_a_value_that_is_no_mapping_is_added_only_where_there_is_none() -> None:
    settings: Settings = {"model": "mine"}
    added, warnings = _merge(settings, {"model": "theirs", "theme": "dark"})
    assert settings == {"model": "mine", "theme": "dark"}
    assert (added.keys, warnings) == ({"theme": digest_of("dark")}, [])


def test_settings_of_another_shape_are_left_alone() -> None:
    settings: Settings = {"hooks": {"Stop": "x"}, "mcpServers": []}
    before = copy.deepcopy(settings)
    added, warnings = _merge(settings, {"hooks": {"Stop": [_handler("", "a")]}, "mcpServers": {"a": {}}})
    assert (settings, added) == (before, Entries())
    assert len(warnings) == 2


def test_what_was_changed_since_stays_with_a_warning() -> None:
    settings: Settings = {}
    added, _ = _merge(
        settings, {"mcpServers": {"a": {"command": "x"}}, "hooks": {"Stop": [_handler("", "h", "i")]}}
    )
    changed: Settings = {"mcpServers": {"a": {"command": "mine"}}, "hooks": {"Stop": [_handler("", "h")]}}
    after = copy.deepcopy(changed)
    warnings = take_out(after, added, [], {})
    assert after == changed
    assert warnings == ["a handler of hooks.Stop was changed — kept", "mcpServers.a was changed — kept"]


def test_what_two_plugins_share_stays_until_both_are_gone() -> None:
    settings: Settings = {}
    fragment: Settings = {
        "mcpServers": {"a": {"command": "x"}},
        "hooks": {"Stop": [_handler("", "h")]},
        "env": {"a/b": "~"},
    }
    first, _ = _merge(settings, fragment)
    second, _ = _merge(settings, fragment, {"first": first})
    whole = copy.deepcopy(settings)
    assert take_out(settings, first, [second], {}) == []
    assert settings == whole
    assert take_out(settings, second, [], {}) == []
    assert settings == {}


_names = st.sampled_from(["a", "b", "x/y", "z~"])
_handlers = st.builds(_handler, _names, _names)
_values = st.none() | st.booleans() | st.text(max_size=3) | st.lists(st.integers(), max_size=2)
_settings = st.fixed_dictionaries(
    {},
    optional={
        "hooks": st.dictionaries(_names, st.lists(_handlers, max_size=3), max_size=2),
        "mcpServers": st.dictionaries(_names, st.dictionaries(_names, _values, max_size=2), max_size=3),
        "env": st.dictionaries(_names, _values, max_size=2),
        "model": _values,
    },
)


def _hook(matcher: str) -> Settings:
    return {"matcher": matcher, "hooks": [{"type": "command", "command": "a"}]}


@given(_settings, _settings, _settings, st.booleans())
@example({}, {"hooks": {"a": [_hook("a")]}}, {"hooks": {"a": [_hook("a"), _hook("a"), _hook("b")]}}, True)
def test_two_plugins_merged_and_taken_out_in_any_order_leave_the_settings(
    original: Settings, one: Settings, two: Settings, first_goes_first: bool
) -> None:
    settings = copy.deepcopy(original)
    first, _ = merge(settings, copy.deepcopy(one), "one", "/c", {})
    second, _ = merge(settings, copy.deepcopy(two), "two", "/c", {"one": first})
    again = copy.deepcopy(settings)
    merge(again, copy.deepcopy(one), "one", "/c", {"two": second})
    assert again == settings, "merging again changes nothing"
    goes, stays = (first, second) if first_goes_first else (second, first)
    assert take_out(settings, goes, [stays], original) == []
    assert take_out(settings, stays, [], original) == []
    assert settings == original
