"""Result of a skill: serialised to JSON, then checked strictly against the return annotation."""

import math
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from molecule_skill.errors import SkillOutputError
from molecule_wire import JSON, jsontext
from molecule_wire.values import value

MAX_RESULT_BYTES = 4 * 1024 * 1024
UNANNOTATED = object()
"""Stands for the missing return annotation of a handler."""
_NAN_SHOWS = ConfigDict(ser_json_inf_nan="constants")


@value
class SkillResult:
    """What a handler gave: for Python callers, and as the JSON that is stored and sent."""

    value: Any
    json: JSON
    size_bytes: int


class ResultType:
    """The return annotation of a skill."""

    def __init__(self, skill: str, annotation: Any) -> None:
        self._skill = skill
        self.annotated = annotation is not UNANNOTATED
        self._adapter: TypeAdapter[Any] = _adapter(annotation if self.annotated else Any)

    def schema(self) -> dict[str, Any]:
        """The JSON schema of the result; empty without an annotation."""
        return self._adapter.json_schema(mode="serialization") if self.annotated else {}

    def checked(self, value: Any) -> SkillResult:
        """Serialise and check a value. Raises `SkillOutputError`."""
        text = self._serialised(value)
        if len(text) > MAX_RESULT_BYTES:
            raise SkillOutputError(
                f"skill {self._skill!r} returned {len(text)} bytes of JSON, the limit is {MAX_RESULT_BYTES}; "
                "write an artifact with ctx.write_artifact and return its reference",
                code="result-too-large",
            )
        try:
            plain = jsontext.decode(text)
        except jsontext.NotJSON as problem:
            raise self._refusal(str(problem)) from problem
        if not self.annotated:
            return SkillResult(value, plain, len(text))
        try:
            return SkillResult(self._adapter.validator.validate_json(text, strict=True), plain, len(text))
        except ValidationError as problem:
            errors: list[dict[str, Any]] = [
                {"loc": list(error["loc"]), "msg": error["msg"], "type": error["type"]}
                for error in problem.errors(include_url=False, include_context=False, include_input=False)
            ]
            places = "; ".join(
                f"{'.'.join(map(str, error['loc'])) or 'result'}: {error['msg']}" for error in errors[:5]
            )
            raise self._refusal(places, errors[:50]) from problem

    def _serialised(self, value: Any) -> bytes:
        try:
            text = self._adapter.serializer.to_json(value, by_alias=True, warnings=False)
            # Models write NaN as null, which an optional field would then accept.
            if b"null" in text and _has_nan(self._adapter.dump_python(value, warnings=False)):
                raise self._refusal("NaN and Infinity are not JSON; return None or a text instead")
        except (TypeError, ValueError, RecursionError) as problem:
            raise self._refusal(f"{type(problem).__name__}: {problem}") from problem
        return text

    def _refusal(self, why: str, errors: list[dict[str, Any]] | None = None) -> SkillOutputError:
        text = f"skill {self._skill!r} returned what its annotation does not allow: {why}"
        return SkillOutputError(text[:2000], errors=errors or ())


def _adapter(annotation: Any) -> TypeAdapter[Any]:
    try:
        return TypeAdapter(annotation, config=_NAN_SHOWS)
    except PydanticUserError as problem:
        if problem.code != "type-adapter-config-unused":
            raise
        return TypeAdapter(annotation)


def _has_nan(value: Any) -> bool:
    waiting: list[Any] = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, float):
            if not math.isfinite(one):
                return True
        elif isinstance(one, dict):
            waiting.extend(one.values())  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
        elif isinstance(one, list | tuple | set | frozenset):
            waiting.extend(one)  # pyright: ignore[reportUnknownArgumentType]
    return False
