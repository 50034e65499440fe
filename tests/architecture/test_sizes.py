from hypothesis import given
from hypothesis import strategies as st

from scripts import sizes

paths = st.sampled_from(["packages/sdk/src/a.py", "packages/sdk/tests/test_a.py", "canvas/src/a.test.tsx"])


def test_a_source_file_may_have_400_lines_and_a_test_800() -> None:
    assert sizes.faults({"src/a.py": 400, "tests/test_a.py": 800}, {}) == []


def test_a_longer_file_is_named_with_its_limit() -> None:
    assert sizes.faults({"src/a.py": 401, "tests/test_a.py": 801}, {}) == [
        "src/a.py: 401 lines, the limit is 400; split it by noun.",
        "tests/test_a.py: 801 lines, the limit is 800; split it by noun.",
    ]


def test_an_excepted_file_may_not_grow() -> None:
    assert sizes.faults({"src/a.py": 501}, {"src/a.py": 500}) == [
        "src/a.py: grew from 500 to 501 lines; an exception may only shrink."
    ]


def test_an_exception_follows_its_file_down() -> None:
    assert sizes.faults({"src/a.py": 450}, {"src/a.py": 500}) == [
        "src/a.py: shrank to 450 lines; lower its exception from 500."
    ]
    assert sizes.faults({"src/a.py": 400}, {"src/a.py": 500}) == [
        "src/a.py: 400 lines are within the limit of 400 now; remove the exception."
    ]
    assert sizes.faults({}, {"src/a.py": 500}) == [
        "src/a.py: the exception names a file that is gone; remove it."
    ]


@given(st.dictionaries(paths, st.integers(0, 2000)))
def test_the_only_exceptions_that_pass_are_the_exact_sizes_of_files_over_the_limit(
    measured: dict[str, int],
) -> None:
    needed = {
        path: size
        for path, size in measured.items()
        if size > (sizes.TEST_LIMIT if sizes.is_test(path) else sizes.SOURCE_LIMIT)
    }
    assert sizes.faults(measured, needed) == []
    assert len(sizes.faults(measured, {})) == len(needed)


def test_the_repository_keeps_to_the_ratchet() -> None:
    assert sizes.faults(sizes.measure(), sizes.EXCEPTIONS) == []
