"""Values with places: what is wrong is collected, sorted by place, and never shows a secret."""

import pytest

from molecule_runtime.domain.config_keys import expand_variables, nearest
from molecule_runtime.domain.config_types import IntegerType, NumberType
from molecule_runtime.domain.config_values import ConfigError, ConfigReading, ConfigValue


def test_problems_come_in_the_order_of_the_file() -> None:
    reading = ConfigReading("c.yaml", {})
    reading.wrong(ConfigValue(1, "b", 10, 1), "string")
    reading.wrong(ConfigValue(1, "a", 9, 7), "string")
    reading.wrong(ConfigValue("x", "VARIABLE", from_environment=True), "integer")
    with pytest.raises(ConfigError) as caught:
        reading.check()
    assert caught.value.problems == (
        "VARIABLE: expected integer, got string",
        "c.yaml:9:7: a: expected string, got integer",
        "c.yaml:10:1: b: expected string, got integer",
    )


def test_a_reading_without_problems_passes() -> None:
    reading = ConfigReading("c.yaml", {})
    reading.warn(ConfigValue(1, "a", 1, 2), "old")
    reading.check()
    assert reading.warnings == ["c.yaml:1:2: a: old"]


def test_a_value_is_shown_short_and_one_of_the_environment_not_at_all() -> None:
    assert ConfigValue("x" * 100).display_text() == f"'{'x' * 39}…"
    assert ConfigValue("secret", from_environment=True).display_text() == "string"
    assert ConfigValue([]).display_text() == "list"


def test_bounds_are_told_from_the_side_that_was_passed() -> None:
    reading = ConfigReading("c.yaml", {})
    IntegerType(1, 5).read(ConfigValue(0, "low"), reading)
    IntegerType(1, 5).read(ConfigValue(9, "high"), reading)
    NumberType(0, 1).read(ConfigValue(float("nan"), "odd"), reading)
    with pytest.raises(ConfigError) as caught:
        reading.check()
    assert sorted(caught.value.problems) == [
        "high: expected integer of at most 5, got 9",
        "low: expected integer of at least 1, got 0",
        "odd: expected number from 0 to 1, got nan",
    ]


def test_what_a_variable_holds_is_not_expanded_again() -> None:
    reading = ConfigReading("c.yaml", {"A": "${B}", "B": "no"})
    expanded = expand_variables(ConfigValue({"x": ConfigValue([]), "y": ConfigValue("${A}")}), reading)
    assert expanded.plain() == {"x": [], "y": "${B}"}
    assert reading.warnings == []


def test_the_nearest_key_is_always_named() -> None:
    assert nearest("modl", ["name", "model"]) == "model"
    assert nearest("zzz", ["name"]) == "name"
