"""Memory fences: blocks come, change and go, and the user's own text stays byte for byte."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_plugin import managed_blocks
from molecule_plugin.managed_blocks import Block

GOOD = Block("demo", "rule/good.md", "- real content")
OTHER = Block("demo", "fragment/more.md", "more")
FOREIGN = Block("else", "rule/good.md", "- of another plugin")


def _file(*parts: str) -> str:
    return "".join(f"{part}\n" for part in parts)


def test_a_block_is_written_in_the_form_of_the_contract() -> None:
    assert GOOD.fenced() == (
        f"<!-- molecule:begin plugin=demo block=rule/good.md sha256={GOOD.sha256} -->\n"
        "# Plugin: demo / rule: good.md\n\n- real content\n"
        "<!-- molecule:end plugin=demo block=rule/good.md -->"
    )
    assert OTHER.heading == "# Plugin: demo / fragment: more.md"


def test_a_block_that_the_file_lacks_is_left_to_be_appended() -> None:
    edited = managed_blocks.update("mine\n", "demo", [GOOD])
    assert (edited.text, edited.missing, edited.warnings) == ("mine\n", [GOOD], [])


def test_the_same_block_again_changes_nothing() -> None:
    text = _file("mine", GOOD.fenced(), "more of mine")
    assert managed_blocks.update(text, "demo", [GOOD]) == managed_blocks.MemoryEdit(text)


def test_another_version_replaces_a_block_where_it_stands() -> None:
    newer = Block("demo", "rule/good.md", "- newer")
    edited = managed_blocks.update(_file("above", GOOD.fenced(), FOREIGN.fenced(), "below"), "demo", [newer])
    assert edited == managed_blocks.MemoryEdit(_file("above", newer.fenced(), FOREIGN.fenced(), "below"))


def test_a_block_that_is_no_longer_shipped_is_removed() -> None:
    edited = managed_blocks.update(_file(GOOD.fenced(), "mine", OTHER.fenced()), "demo", [GOOD])
    assert edited == managed_blocks.MemoryEdit(_file(GOOD.fenced(), "mine"))


def test_a_second_copy_of_a_block_is_removed() -> None:
    assert managed_blocks.update(_file(GOOD.fenced(), GOOD.fenced()), "demo", [GOOD]).text == _file(
        GOOD.fenced()
    )


def test_an_edited_block_stays_when_the_plugin_ships_another_text() -> None:
    text = _file("above", GOOD.fenced().replace("real", "my own"), "below")
    newer = Block("demo", "rule/good.md", "- newer")
    edited = managed_blocks.update(text, "demo", [newer])
    assert edited.text == _file("above", "- my own content", "below")
    assert edited.missing == [newer]
    assert edited.warnings == ["block rule/good.md was edited — its text is kept without the markers"]


def test_an_edited_block_stays_when_the_plugin_goes() -> None:
    edited = managed_blocks.remove(_file(GOOD.fenced().replace("real", "my own")), "demo")
    assert "my own content" in edited.text
    assert managed_blocks.RESERVED not in edited.text
    assert edited.warnings


def test_a_block_without_end_marker_ends_where_the_next_begins() -> None:
    broken = GOOD.fenced().rsplit("\n", 1)[0]
    edited = managed_blocks.remove(_file("mine", broken, FOREIGN.fenced()), "demo")
    assert edited == managed_blocks.MemoryEdit(_file("mine", FOREIGN.fenced()))


def test_text_that_followed_a_lost_end_marker_is_not_deleted() -> None:
    broken = GOOD.fenced().rsplit("\n", 1)[0]
    edited = managed_blocks.remove(_file(broken, "mine", FOREIGN.fenced()), "demo")
    assert "\nmine\n" in edited.text
    assert edited.warnings


def test_the_last_block_without_end_marker_is_left_alone_with_a_warning() -> None:
    text = _file(GOOD.fenced().rsplit("\n", 1)[0], "mine")
    edited = managed_blocks.remove(text, "demo")
    assert edited.text == text
    assert edited.warnings == ["block rule/good.md has no end marker — left as it is"]


@pytest.mark.parametrize("other", ["<!-- molecule:begin -->\nx\n<!-- molecule:end -->", FOREIGN.fenced()])
def test_markers_of_others_are_not_ours(other: str) -> None:
    assert managed_blocks.remove(_file(other), "demo") == managed_blocks.MemoryEdit(_file(other))


def test_an_older_block_without_fence_gets_one_when_its_body_is_the_shipped_text() -> None:
    edited = managed_blocks.update(_file("above", GOOD.text, "below"), "demo", [GOOD])
    assert edited == managed_blocks.MemoryEdit(_file("above", GOOD.fenced(), "below"))


def test_an_older_block_with_another_body_is_kept_beside_the_new_one() -> None:
    text = _file("# Plugin: demo / rule: good.md", "", "- changed")
    edited = managed_blocks.update(text, "demo", [GOOD])
    assert (edited.text, edited.missing) == (text, [GOOD])
    assert edited.warnings


def test_removing_an_older_block_takes_heading_and_equal_body() -> None:
    assert managed_blocks.remove(_file("above", GOOD.text, "below"), "demo", [GOOD]).text == _file(
        "above", "below"
    )


def test_removing_an_older_block_with_another_body_takes_only_the_heading() -> None:
    edited = managed_blocks.remove(_file("# Plugin: demo / rule: good.md", "", "- changed"), "demo", [GOOD])
    assert edited.text == "\n- changed\n"
    assert edited.warnings == ["block rule/good.md was edited — only its heading is removed"]


_prose = st.text(st.characters(codec="utf-8"), max_size=60).filter(
    lambda text: managed_blocks.RESERVED not in text
)
_user_text = _prose.map(lambda text: text.replace("# Plugin:", "")).map(lambda text: f"{text}\n")


@given(st.lists(st.tuples(_user_text, st.integers(0, 3)), max_size=5), _user_text)
def test_adding_and_removing_blocks_anywhere_leaves_the_users_text(
    parts: list[tuple[str, int]], end: str
) -> None:
    blocks = [Block("demo", f"rule/{number}.md", f"prose {number}") for number in range(4)]
    text = "".join(own + blocks[number].fenced() + "\n" for own, number in parts) + end
    assert managed_blocks.remove(text, "demo").text == "".join(own for own, _ in parts) + end


@given(_prose)
def test_a_block_of_any_prose_is_found_again_unedited(prose: str) -> None:
    block = Block("demo", "rule/any file.md", prose.replace("\r\n", "\n").strip())
    (fence,) = managed_blocks.find(f"x\n{block.fenced()}\ny\n", "demo")
    assert (fence.block, fence.edited, fence.closed) == ("rule/any file.md", False, True)
