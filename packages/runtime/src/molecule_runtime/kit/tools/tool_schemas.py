"""JSON Schema of a tool's arguments: made from a signature, and checked as far as its plain types go."""

import inspect
import types
from collections.abc import Callable, Mapping
from typing import Literal, Union, cast, get_args, get_origin

from molecule_wire import JSON, JSONObject

_TYPES: Mapping[object, str] = {
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    list: "array",
    dict: "object",
    type(None): "null",
}
_KINDS: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def schema_of(function: Callable[..., object]) -> JSONObject:
    """The schema of a function's parameters. A type that JSON has no plain word for is left open."""
    properties: JSONObject = {}
    required: list[JSON] = []
    is_open = False
    for name, parameter in _parameters(function).items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            is_open = True
            continue
        shape = _shape(parameter.annotation)
        if parameter.default is parameter.empty:
            required.append(name)
        elif isinstance(parameter.default, str | int | float | bool):
            shape["default"] = parameter.default
        properties[name] = shape
    return {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": is_open,
    }


def problem_with(arguments: Mapping[str, JSON], schema: JSONObject) -> str:
    """What is wrong with some arguments, in one sentence; empty when nothing is.

    Only `required`, `type`, `enum` and `additionalProperties: false` of the outermost level are looked at.
    """
    properties, required = schema.get("properties"), schema.get("required")
    known = properties if isinstance(properties, dict) else {}
    for name in required if isinstance(required, list) else []:
        if isinstance(name, str) and name not in arguments:
            return f"missing argument '{name}'"
    for name, value in arguments.items():
        shape = known.get(name)
        if shape is None and schema.get("additionalProperties") is False:
            return f"unknown argument '{name[:100]}'; known: {', '.join(known) or 'none'}"
        if isinstance(shape, dict) and (wrong := _wrong(value, shape)):
            return f"argument '{name}' must be {wrong}"
    return ""


def _parameters(function: Callable[..., object]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function, eval_str=True).parameters
    except Exception:  # noqa: BLE001 - evaluating an annotation may raise anything
        return inspect.signature(function).parameters


def _shape(hint: object) -> JSONObject:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return {"enum": list(arguments)}
    if origin in (Union, types.UnionType):
        named = [_shape(one).get("type") for one in arguments]
        return {"type": named} if all(isinstance(name, str) for name in named) else {}
    if origin is list and arguments:
        return {"type": "array", "items": _shape(arguments[0])}
    name = _TYPES.get(origin or hint)
    return {} if name is None else {"type": name}


def _wrong(value: JSON, shape: JSONObject) -> str:
    """What the value should be; empty when it is that."""
    allowed = shape.get("enum")
    if isinstance(allowed, list) and value not in allowed:
        return "one of " + ", ".join(repr(one) for one in allowed)
    type_name = shape.get("type")
    names = [
        name for name in (type_name if isinstance(type_name, list) else [type_name]) if isinstance(name, str)
    ]
    if not names or any(_is(value, name) for name in names):
        return ""
    return " or ".join(f"{'an' if name[0] in 'aeiou' else 'a'} {name}" for name in names)


def _is(value: JSON, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    if name == "integer" and isinstance(value, float):
        return value.is_integer()
    kinds = _KINDS.get(name)
    return kinds is None or isinstance(cast("object", value), kinds)
