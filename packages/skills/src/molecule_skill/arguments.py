"""Arguments of a skill: one validator per parameter, and the JSON schema made from all of them."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic.json_schema import PydanticJsonSchemaWarning

from molecule_skill.errors import SkillInputError
from molecule_wire import jsontext

MAX_ERRORS = 50
"""Places that one refusal names; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a handler; `required` when its annotation has no default."""

    name: str
    adapter: TypeAdapter[Any]
    required: bool
    constant: tuple[Any, ...] = ()
    """The default, where it is plain and no handler can change it."""

    def default(self) -> Any:
        """The value where none is given."""
        if self.constant:
            return self.constant[0]
        found = self.adapter.get_default_value()
        return None if found is None else found.value


class Arguments:
    """The parameters of a skill: coerces what a caller gives, or says every place where it is wrong."""

    def __init__(self, skill: str, parameters: Mapping[str, Parameter]) -> None:
        self._skill = skill
        self.parameters = dict(parameters)

    def from_python(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Values for the handler from Python values. Raises `SkillInputError`."""
        return self._validated(values, _from_python)

    def from_json(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Values for the handler from decoded JSON. Raises `SkillInputError`."""
        return self._validated(values, _from_json)

    def schema(self) -> dict[str, Any]:
        """The JSON schema: exact properties, exact required ones, nothing else allowed."""
        keys = list(self.parameters)
        inputs = [(name, "validation", parameter.adapter) for name, parameter in self.parameters.items()]
        with warnings.catch_warnings():
            # A default that JSON cannot say is left out of the schema; it still works.
            warnings.simplefilter("ignore", PydanticJsonSchemaWarning)
            by_key, definitions = TypeAdapter.json_schemas(inputs)  # type: ignore[arg-type]
        properties = {name: by_key[name, "validation"] for name in keys}  # type: ignore[index]
        schema: dict[str, Any] = {
            "type": "object",
            "properties": properties,
            "required": [name for name, parameter in self.parameters.items() if parameter.required],
            "additionalProperties": False,
        }
        return schema | ({"$defs": definitions["$defs"]} if definitions.get("$defs") else {})

    def _validated(self, raw: Mapping[str, Any], validate: Any) -> dict[str, Any]:
        errors: list[dict[str, Any]] = []
        if not self.parameters.keys() >= raw.keys():
            errors += [
                {"loc": [name], "msg": f"unknown parameter {name!r}", "type": "extra_forbidden"}
                for name in raw
                if name not in self.parameters
            ]
        values: dict[str, Any] = {}
        for name, parameter in self.parameters.items():
            if name in raw:
                try:
                    values[name] = validate(parameter.adapter, raw[name])
                except ValidationError as problem:
                    errors += _places(name, problem)
                except (TypeError, ValueError, RecursionError) as problem:
                    errors.append({"loc": [name], "msg": f"not JSON: {problem}", "type": "json_invalid"})
            elif parameter.required:
                sentence = f"missing required parameter {name!r}"
                errors.append({"loc": [name], "msg": sentence, "type": "missing"})
            else:
                values[name] = parameter.default()
        if errors:
            raise self._refusal(errors)
        return values

    def _refusal(self, errors: list[dict[str, Any]]) -> SkillInputError:
        reported = errors[:MAX_ERRORS]
        parts = [_sentence(error) for error in reported[:5]]
        more = f"; and {len(errors) - 5} more" if len(errors) > 5 else ""
        return SkillInputError(f"skill {self._skill!r}: {'; '.join(parts)}{more}", reported)


def _from_python(adapter: TypeAdapter[Any], value: Any) -> Any:
    return adapter.validate_python(value)


def _from_json(adapter: TypeAdapter[Any], value: Any) -> Any:
    # Without the wrapper of the adapter, which takes as long as validating a small value does.
    return adapter.validator.validate_json(jsontext.encode(value))


def _places(name: str, problem: ValidationError) -> list[dict[str, Any]]:
    """The places of a refusal, without the values: they may be secrets."""
    found = problem.errors(include_url=False, include_context=False, include_input=False)
    return [
        {"loc": [name, *error["loc"]], "msg": error["msg"], "type": error["type"]}
        for error in found[:MAX_ERRORS]
    ]


def _sentence(error: Mapping[str, Any]) -> str:
    if error["type"] in ("extra_forbidden", "missing") and len(error["loc"]) == 1:
        return error["msg"]
    return f"{'.'.join(map(str, error['loc']))}: {error['msg']}"
