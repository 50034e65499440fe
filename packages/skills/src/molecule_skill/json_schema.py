"""JSON Schema validator for answers to forms: the keywords that forms use, and no others.

A schema with a keyword that would restrict answers and is not known here is refused, so that nothing an
author asked for is silently left unchecked.
"""

import math
import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, cast

MAX_ERRORS = 50
MAX_DEPTH = 64
# fmt: off
_ANNOTATIONS = frozenset({
    "title", "description", "default", "examples", "format", "$schema", "$id", "$comment", "$defs",
    "definitions", "readOnly", "writeOnly", "deprecated", "contentMediaType", "contentEncoding",
    "discriminator",
})
_CHECKED = frozenset({
    "type", "enum", "const", "properties", "required", "additionalProperties", "items", "prefixItems",
    "minItems", "maxItems", "uniqueItems", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
    "multipleOf", "minLength", "maxLength", "pattern", "anyOf", "oneOf", "allOf", "not", "$ref",
    "minProperties", "maxProperties",
})
# fmt: on
_TYPES: Mapping[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": type(None),
    "number": (int, float),
    "integer": (int, float),
}


def check_schema(schema: Any) -> None:
    """Raise ValueError for a schema that `errors_of` cannot apply completely."""
    waiting: list[Any] = [schema]
    while waiting:
        one = waiting.pop()
        if isinstance(one, bool):
            continue
        if not isinstance(one, dict):
            raise ValueError(f"a JSON schema is an object or a boolean, not {type(one).__name__}")
        members = cast("dict[str, Any]", one)
        unknown = [name for name in members if not (name in _CHECKED | _ANNOTATIONS or name.startswith("x-"))]
        if unknown:
            raise ValueError(f"JSON schema keyword {unknown[0]!r} is not supported; use a pydantic model")
        for name in ("properties", "$defs", "definitions"):
            waiting.extend(members.get(name, {}).values())
        for name in ("anyOf", "oneOf", "allOf", "prefixItems"):
            waiting.extend(members.get(name, []))
        waiting.extend(members[name] for name in ("items", "additionalProperties", "not") if name in members)
        if "pattern" in members:
            re.compile(members["pattern"])


def errors_of(schema: Any, value: Any) -> list[dict[str, Any]]:
    """Every place where a value does not fit, as `{loc, msg, type}`; none means that it fits."""
    return _Validation(schema).errors(schema, value, [], 0)[:MAX_ERRORS]


class _Validation:
    def __init__(self, root: Any) -> None:
        self._root = root

    def errors(self, schema: Any, value: Any, loc: list[Any], depth: int) -> list[dict[str, Any]]:
        if depth > MAX_DEPTH:
            return [_error(loc, "nested too deeply", "depth")]
        if isinstance(schema, bool):
            return [] if schema else [_error(loc, "nothing is allowed here", "false_schema")]
        if "$ref" in schema:
            return self.errors(self._target(schema["$ref"]), value, loc, depth + 1)
        expected = schema.get("type")
        kinds = [expected] if isinstance(expected, str) else expected
        if kinds and not any(_is_of(kind, value) for kind in kinds):
            return [_error(loc, f"must be of type {' or '.join(kinds)}", "type")]
        return [
            *_plain_errors(schema, value, loc),
            *self._of_members(schema, value, loc, depth),
            *self._of_combinations(schema, value, loc, depth),
        ]

    def _of_members(
        self, schema: dict[str, Any], value: Any, loc: list[Any], depth: int
    ) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        if isinstance(value, dict):
            members = cast("dict[str, Any]", value)
            properties = schema.get("properties", {})
            missing = [name for name in schema.get("required", []) if name not in members]
            found += [_error([*loc, name], "is required", "missing") for name in missing]
            for name, one in members.items():
                inner = properties.get(name, schema.get("additionalProperties", True))
                found += self.errors(inner, one, [*loc, name], depth + 1)
        if isinstance(value, list):
            first = schema.get("prefixItems", [])
            for place, one in enumerate(cast("list[Any]", value)):
                inner = first[place] if place < len(first) else schema.get("items", True)
                found += self.errors(inner, one, [*loc, place], depth + 1)
        return found

    def _of_combinations(
        self, schema: dict[str, Any], value: Any, loc: list[Any], depth: int
    ) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for one in schema.get("allOf", []):
            found += self.errors(one, value, loc, depth + 1)
        for name in ("anyOf", "oneOf"):
            if name in schema:
                fits = sum(not self.errors(one, value, loc, depth + 1) for one in schema[name])
                if not fits or (name == "oneOf" and fits > 1):
                    found.append(
                        _error(loc, f"must fit {'one' if name == 'oneOf' else 'any'} of the choices", name)
                    )
        if "not" in schema and not self.errors(schema["not"], value, loc, depth + 1):
            found.append(_error(loc, "is excluded", "not"))
        return found

    def _target(self, reference: str) -> Any:
        found = self._root
        for name in reference.removeprefix("#").strip("/").split("/"):
            found = found[name.replace("~1", "/").replace("~0", "~")] if name else found
        return found


def _plain_errors(schema: dict[str, Any], value: Any, loc: list[Any]) -> list[dict[str, Any]]:
    found: list[tuple[bool, str, str]] = []
    if "enum" in schema:
        found.append((any(_same(value, one) for one in schema["enum"]), "must be one of the choices", "enum"))
    if "const" in schema:
        found.append((_same(value, schema["const"]), "must be the fixed value", "const"))
    if isinstance(value, int | float) and not isinstance(value, bool):
        found += [
            (name not in schema or check(value, schema[name]), f"{name} is {schema.get(name)}", name)
            for name, check in _NUMBER_CHECKS.items()
        ]
    for kind, (smallest, largest) in _SIZES.items():
        if isinstance(value, kind):
            size = len(value)  # type: ignore[arg-type]
            found.append((size >= schema.get(smallest, 0), f"{smallest} is {schema.get(smallest)}", smallest))
            found.append(
                (size <= schema.get(largest, math.inf), f"{largest} is {schema.get(largest)}", largest)
            )
    if isinstance(value, str) and "pattern" in schema:
        found.append((re.search(schema["pattern"], value) is not None, "does not fit the pattern", "pattern"))
    if isinstance(value, list) and schema.get("uniqueItems"):
        texts = [repr(one) for one in cast("list[Any]", value)]
        found.append((len(set(texts)) == len(texts), "has an item twice", "uniqueItems"))
    return [_error(loc, sentence, name) for is_good, sentence, name in found if not is_good]


def _is_multiple(value: float, step: float) -> bool:
    return math.isclose(value / step, round(value / step), rel_tol=1e-9)


_NUMBER_CHECKS: Mapping[str, Callable[[Any, Any], bool]] = {
    "minimum": operator.ge,
    "maximum": operator.le,
    "exclusiveMinimum": operator.gt,
    "exclusiveMaximum": operator.lt,
    "multipleOf": _is_multiple,
}
_SIZES: dict[Any, tuple[str, str]] = {
    str: ("minLength", "maxLength"),
    list: ("minItems", "maxItems"),
    dict: ("minProperties", "maxProperties"),
}


def _is_of(kind: str, value: Any) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer":
        return isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return isinstance(value, _TYPES.get(kind, ()))


def _same(one: Any, other: Any) -> bool:
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _error(loc: list[Any], sentence: str, kind: str) -> dict[str, Any]:
    return {"loc": loc, "msg": sentence, "type": kind}
