"""Reading a query into its declared shape."""

import functools
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import inspect

from molecule_platform.domain.workspaces import invalid
from molecule_platform.web.pipeline.schemas import Query

Bounds = tuple[type[int] | type[float], float, float]
MAX_NAMES = 200


def read(shape: type[Query], given: Mapping[str, list[str]]) -> Query:
    """The parameters of a request; an empty one counts as not given, an unknown one is ignored."""
    bounds, lists = _bounds_of(shape), _lists_of(shape)
    values: dict[str, Any] = {}
    for name, texts in given.items():
        if name in lists:
            values[name] = texts
        elif texts[-1] != "":
            values[name] = _bounded(name, texts[-1], bounds)
    try:
        return msgspec.convert(values, shape, strict=False)
    except msgspec.ValidationError as problem:
        detail = str(problem)
        name = detail.split("`")[-2].removeprefix("$.") if "`" in detail else ""
        raise invalid(name, f"{name}: {detail.split(' - at ')[0]}") from problem


def names(given: str | None) -> frozenset[str]:
    """The names in a list that commas separate; none when nothing is given."""
    found = frozenset(name for name in (given or "").split(",") if name)
    if len(found) > MAX_NAMES:
        raise invalid("types", f"a list has at most {MAX_NAMES} names")
    return found


def _bounded(name: str, text: str, bounds: Mapping[str, Bounds]) -> Any:
    if name not in bounds:
        return text
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if number != number:
        raise invalid(name, f"{name} is a number")
    kind, least, most = bounds[name]
    return kind(min(max(number, least), most))


@functools.cache
def _bounds_of(shape: type[Query]) -> dict[str, Bounds]:
    kind = inspect.type_info(shape)
    assert isinstance(kind, inspect.StructType)
    return {
        field.encode_name: (_number(field.type), field.type.ge or 0, field.type.le)
        for field in kind.fields
        if isinstance(field.type, inspect.IntType | inspect.FloatType) and field.type.le is not None
    }


def _number(kind: inspect.IntType | inspect.FloatType) -> type[int] | type[float]:
    return int if isinstance(kind, inspect.IntType) else float


@functools.cache
def _lists_of(shape: type[Query]) -> frozenset[str]:
    kind = inspect.type_info(shape)
    assert isinstance(kind, inspect.StructType)
    return frozenset(field.encode_name for field in kind.fields if isinstance(field.type, inspect.ListType))
