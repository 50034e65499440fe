"""The names of plugins and the limits of their size."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_plugin.errors import PluginError, PluginNameError
from molecule_plugin.limits import LIMITS
from molecule_plugin.names import check_name, is_name


@pytest.mark.parametrize("name", ["a", "molecule-dev", "my_plugin.v2", "0", "a" * 128])
def test_a_plugin_name_is_given_back(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name",
    ["", "A", "a b", "a/b", "../../x", "a..b", ".a", "-a", "a\n", "a" * 129, "é", "a\0", "a\\b", "%2e"],
)
def test_what_is_no_plugin_name_is_refused_with_what_to_write(name: str) -> None:
    with pytest.raises(PluginNameError, match="write at most 128 of a-z") as caught:
        check_name(name)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, PluginError)


@given(st.text())
def test_a_name_is_always_one_plain_step_of_a_path(name: str) -> None:
    if is_name(name):
        assert name.isascii()
        assert not set(name) & set("/\\:\0 \n")
        assert name.strip(".") == name.lstrip(".").rstrip(".")
        assert ".." not in name


def test_the_limits_are_those_of_the_contract() -> None:
    assert dataclasses.asdict(LIMITS) == {
        "archive_bytes": 104857600,
        "tree_bytes": 104857600,
        "file_bytes": 52428800,
        "entries": 10_000,
        "path_bytes": 512,
        "depth": 32,
        "memory_block_bytes": 262144,
        "signature_bytes": 8192,
        "ratio": 200,
        "ratio_free_bytes": 1048576,
    }
    assert (LIMITS.unpacked_bytes(10), LIMITS.unpacked_bytes(10_000)) == (1048576, 2_000_000)
