"""Paths and the pattern language of file grants: one normaliser, one matcher, sound containment."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from molecule_wire.paths import check_pattern, covers, matches, normalize

SEGMENTS = st.sampled_from(["a", "b", "data", "database", ".env", "x.py", "x.tar.gz", "ü", "node_modules"])
PATHS = st.lists(SEGMENTS, min_size=1, max_size=4).map("/".join)
READ_PATTERNS = st.one_of(
    PATHS,
    PATHS.map(lambda path: f"{path}/*"),
    PATHS.map(lambda path: f"{path}/**"),
    st.sampled_from(["*", "**"]),
)
DENY_PATTERNS = st.one_of(
    SEGMENTS.map(lambda name: f"**/{name}"),
    st.sampled_from(["**/*.py", "**/*.gz", "**/*.tar.gz"]),
    SEGMENTS.map(lambda name: f"**/{name}/**"),
)
PATTERNS = st.one_of(READ_PATTERNS, DENY_PATTERNS)


@pytest.mark.parametrize(
    "path", ["a", "a/b.txt", "ä/ö", "a b", ".env", "..a", "a/...", "x" * 1024, "/".join("a" * 64)]
)
def test_good_paths_stay_as_they_are(path: str) -> None:
    assert normalize(path) == path


def test_paths_are_brought_to_form_nfc() -> None:
    assert normalize("u\u0308") == "\u00fc"


@pytest.mark.parametrize(
    "path",
    ["", "/", "/a", "a/", "a//b", ".", "..", "a/./b", "a/../b", "a\\b", "a\0b", "a\nb", "a\x7fb", "a\x85b",
     "x" * 1025, "ü" * 513, "/".join("a" * 65), "\ud800"],
)  # fmt: skip
def test_bad_paths_are_refused_and_never_repaired(path: str) -> None:
    with pytest.raises(ValueError):
        normalize(path)


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        ("a/b.txt", ["a/b.txt"], ["a/b.txt/c", "b.txt", "A/b.txt"]),
        ("a/*", ["a/b"], ["a", "a/b/c", "ab/c"]),
        ("*", ["a"], ["a/b"]),
        ("a/**", ["a/b", "a/b/c"], ["a", "ab/c", "b/a/c"]),
        ("**", ["a", "a/b"], []),
        ("**/.env", [".env", "a/.env", "a/b/.env"], ["a.env", ".env/a"]),
        ("**/*.py", ["x.py", "a/x.py"], ["py", "x.pyc", "x.py/a"]),
        ("**/node_modules/**", ["node_modules/a", "a/node_modules/b/c"], ["node_modules", "a/node_modules"]),
    ],
)
def test_each_form_matches_what_it_says(pattern: str, good: list[str], bad: list[str]) -> None:
    assert [path for path in good if not matches(pattern, path)] == []
    assert [path for path in bad if matches(pattern, path)] == []


@pytest.mark.parametrize(
    "pattern",
    ["data/?.csv", "data/[a-c*]", "{a,b}", "a*", "*a", "a/*b", "a/**/b", "*/a", "**/a/b", "**/*", "**/**",
     "**/*.*", "**/*.", "***", "a/../b", "/a", "", "a/***", "**/a*/**", "**/a/b/**"],
)  # fmt: skip
def test_patterns_outside_the_language_are_refused(pattern: str) -> None:
    with pytest.raises(ValueError):
        check_pattern(pattern, deny=True)


@pytest.mark.parametrize("pattern", ["**/.env", "**/*.py", "**/a/**"])
def test_forms_that_only_deny_cannot_read_or_write(pattern: str) -> None:
    assert check_pattern(pattern, deny=True) == pattern
    with pytest.raises(ValueError, match="only deny"):
        check_pattern(pattern)


@pytest.mark.parametrize(
    ("parent", "child", "is_covered"),
    [
        ("data/**", "data/x/*", True),
        ("data/**", "data/a.csv", True),
        ("data/**", "data/**", True),
        ("data/**", "data/*", True),
        ("data/*", "data/**", False),
        ("data/*", "data/x/a.csv", False),
        ("data/*", "data/a.csv", True),
        ("data/**", "database/**", False),
        ("data/**", "data", False),
        ("**", "**", True),
        ("*", "**", False),
        ("*", "a", True),
        ("a", "a", True),
        ("a", "a/*", False),
        ("outputs/**", "**", False),
    ],
)
def test_containment_as_the_contract_lists_it(parent: str, child: str, is_covered: bool) -> None:
    assert covers(parent, child) is is_covered


@settings(max_examples=1500)
@given(parent=PATTERNS, child=PATTERNS, path=PATHS)
def test_what_a_covered_pattern_matches_its_cover_matches_too(parent: str, child: str, path: str) -> None:
    if covers(parent, child) and matches(child, path):
        assert matches(parent, path)


def test_containment_is_sound_for_every_pair_of_short_patterns() -> None:
    """All of them, some half a million cases: what is covered matches nothing that its cover does not."""
    names = ("a", "b", ".env", "x.py")
    folders = [*names, *(f"{one}/{two}" for one in names for two in names)]
    paths = [*folders, *(f"{folder}/{name}" for folder in folders[len(names) :] for name in names)]
    reading = [*folders, *(f"{folder}/{end}" for folder in folders for end in ("*", "**")), "*", "**"]
    denying = [*(f"**/{name}" for name in names), "**/*.py", *(f"**/{name}/**" for name in names)]
    patterns = [*reading, *denying]
    matched = {pattern: {path for path in paths if matches(pattern, path)} for pattern in patterns}
    covered = [(one, two) for one in patterns for two in patterns if covers(one, two)]
    assert len(patterns) ** 2 * len(paths) > 10_000
    assert len(covered) > len(patterns)
    assert [pair for pair in covered if not matched[pair[1]] <= matched[pair[0]]] == []


@settings(max_examples=500)
@given(one=PATTERNS, two=PATTERNS, three=PATTERNS)
def test_containment_is_reflexive_and_transitive(one: str, two: str, three: str) -> None:
    assert covers(one, one)
    if covers(one, two) and covers(two, three):
        assert covers(one, three)


@given(st.text(max_size=30))
def test_any_text_is_a_path_or_refused(text: str) -> None:
    try:
        normal = normalize(text)
    except ValueError:
        return
    assert normalize(normal) == normal
