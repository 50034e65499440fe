"""Made-up arguments that fit a JSON schema, and values of the command line typed by one."""

import json
from typing import Any, cast

from molecule_skill.cli.output import CommandFailed


def arguments(schema: dict[str, Any]) -> dict[str, Any]:
    """A value for each required property of a skill's schema."""
    return {name: _value(schema["properties"][name], schema) for name in schema.get("required", [])}


def _value(node: dict[str, Any], root: dict[str, Any], depth: int = 0) -> Any:
    schema = _resolved(node, root)
    for name in ("default", "const"):
        if name in schema:
            return schema[name]
    if schema.get("examples") or schema.get("enum"):
        return (schema.get("examples") or schema["enum"])[0]
    kind = schema.get("type")
    if kind == "integer" or kind == "number":
        least = schema.get("minimum", schema.get("exclusiveMinimum", 0))
        value = least + 1 if "exclusiveMinimum" in schema else max(least, 1)
        return min(value, schema.get("maximum", value))
    if kind == "boolean":
        return True
    if kind == "array":
        items = schema.get("items", {})
        count = max(schema.get("minItems", 0), 0 if depth > 4 else 1)
        return [_value(items, root, depth + 1) for _ in range(count)]
    if kind == "object":
        properties = schema.get("properties", {})
        return {
            name: _value(properties.get(name, {}), root, depth + 1) for name in schema.get("required", [])
        }
    if kind == "null":
        return None
    return _text(schema)


def _text(schema: dict[str, Any]) -> str:
    samples = {
        "date-time": "2026-01-01T00:00:00Z",
        "date": "2026-01-01",
        "time": "12:00:00Z",
        "email": "ada@example.org",
        "uri": "https://example.org/",
        "uuid": "00000000-0000-4000-8000-000000000000",
        "duration": "PT1S",
    }
    text = samples.get(schema.get("format", ""), "example")
    least, most = schema.get("minLength", 0), schema.get("maxLength")
    text = text.ljust(least, "x")
    return text if most is None else text[:most]


def _resolved(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    reference = schema.get("$ref", "")
    if reference.startswith("#/$defs/"):
        return root.get("$defs", {}).get(reference.removeprefix("#/$defs/"), {})
    for name in ("anyOf", "oneOf", "allOf"):
        if schema.get(name):
            return _resolved(schema[name][0], root)
    return schema


def typed(pairs: list[str], schema: dict[str, Any]) -> dict[str, Any]:
    """`k=v` pairs as arguments: a text stays one, anything else is read as JSON. Raises CommandFailed."""
    known = schema.get("properties", {})
    values: dict[str, Any] = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not equals:
            raise CommandFailed(f"{pair!r} is no argument: write name=value", exit_code=2)
        if known and name not in known:
            raise CommandFailed(
                f"the skill has no parameter {name!r}; it has {', '.join(known)}", exit_code=2
            )
        if "string" in _types(known.get(name, {}), schema):
            values[name] = text
            continue
        try:
            values[name] = json.loads(text)
        except ValueError:
            values[name] = text  # the skill says what it expected instead
    return values


def _types(schema: dict[str, Any], root: dict[str, Any]) -> set[str]:
    reference = schema.get("$ref", "")
    if reference.startswith("#/$defs/"):
        return _types(root.get("$defs", {}).get(reference.removeprefix("#/$defs/"), {}), root)
    found = {schema["type"]} if isinstance(schema.get("type"), str) else set[str]()
    for option in schema.get("anyOf", []):
        found |= _types(option, root)
    return found


def json_object(text: str | None, option: str) -> dict[str, Any]:
    """The JSON object of an option. Raises CommandFailed."""
    if text is None:
        return {}
    try:
        value: Any = json.loads(text)
    except ValueError as problem:
        raise CommandFailed(f"{option} is no JSON: {problem}", exit_code=2) from problem
    if not isinstance(value, dict):
        raise CommandFailed(f"{option} must be a JSON object", exit_code=2)
    return cast("dict[str, Any]", value)
