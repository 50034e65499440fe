"""State of an agent between runs: a pydantic model, saved with an optimistic version."""

from typing import Any, cast

from pydantic import BaseModel, ValidationError

from molecule_skill.errors import SkillInvocationError
from molecule_wire import JSONObject, jsontext

MAX_STATE_BYTES = 1024 * 1024


def checked_state(model: type[BaseModel], value: Any) -> JSONObject:
    """The JSON of a state that may be saved. Raises TypeError or ValueError."""
    if not isinstance(value, model):
        raise TypeError(f"save_state takes an instance of {model.__name__}, not {type(value).__name__}")
    text = value.model_dump_json(by_alias=True).encode()
    if len(text) > MAX_STATE_BYTES:
        raise ValueError(
            f"the state has {len(text)} bytes, the limit is {MAX_STATE_BYTES}; keep files as artifacts"
        )
    return cast("JSONObject", jsontext.decode(text))


def read_state(model: type[BaseModel], saved: JSONObject) -> BaseModel:
    """A saved state. Raises `SkillInvocationError` with `state-incompatible` if the model refuses it."""
    try:
        return model.model_validate(saved)
    except ValidationError as problem:
        places = ", ".join(
            ".".join(map(str, error["loc"])) for error in problem.errors(include_input=False)[:5]
        )
        raise SkillInvocationError(
            f"the saved state does not fit {model.__name__} any more ({places}); "
            "let its validators accept the old form. The saved value is kept",
            code="state-incompatible",
        ) from problem
