"""Interactions: questions and forms for a person, what their events say, and which answers they take."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, ValidationError

from molecule_skill import json_schema
from molecule_skill.ids import new_id
from molecule_wire import JSON, JSONObject, jsontext, times

MAX_ANSWER_CHARACTERS = 100_000


class AnswerInvalid(ValueError):
    """An answer of the wrong type; `errors` lists the places."""

    def __init__(self, errors: Sequence[Mapping[str, Any]]) -> None:
        self.errors = [dict(error) for error in errors]
        text = "; ".join(f"{'.'.join(map(str, e['loc'])) or 'answer'}: {e['msg']}" for e in self.errors[:5])
        super().__init__(f"the answer is invalid: {text}")


@dataclass(frozen=True)
class Decline:
    """In place of an answer: the person does not want to answer."""

    reason: str = ""


@dataclass(frozen=True)
class Interaction:
    """A question or a form, before it has a row."""

    id: str
    kind: str
    event_kind: str
    prompt: JSONObject
    timeout: float
    model: type[BaseModel] | None = field(default=None, compare=False)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the kind and the canonical prompt: the same question has the same one in a re-run."""
        return fingerprint(self.kind, self.prompt)

    @property
    def label(self) -> str:
        """What a person would call it."""
        return str(self.prompt.get("prompt") or self.prompt.get("title"))

    def payload(self, expires_at: float) -> JSONObject:
        """The payload of its event."""
        id_name = "question_id" if self.kind == "question" else "request_id"
        expiry = times.format_time(datetime.fromtimestamp(expires_at, UTC))
        return {id_name: self.id, **self.prompt, "timeout_seconds": self.timeout, "expires_at": expiry}

    def value_of(self, answer: JSON) -> Any:
        """The answer as the handler gets it. Raises `AnswerInvalid`."""
        if self.model is None:
            return checked_answer(self.kind, self.prompt, answer)
        try:
            return self.model.model_validate_json(jsontext.encode(answer))
        except ValidationError as problem:
            found = problem.errors(include_url=False, include_context=False, include_input=False)
            places = [{"loc": list(e["loc"]), "msg": e["msg"], "type": e["type"]} for e in found]
            raise AnswerInvalid(places) from problem


def question(prompt: str, timeout: float) -> Interaction:
    """What `ctx.ask` asks. Raises ValueError for a blank prompt or a timeout that is not positive."""
    if not prompt.strip():
        raise ValueError("ask needs a prompt that says what is wanted")
    return Interaction(new_id("q_"), "question", "question", {"prompt": prompt}, _checked(timeout))


def form(
    model_or_schema: Any, title: str, reason: str, ui_schema: dict[str, Any] | None, timeout: float
) -> Interaction:
    """What `ctx.collect` asks. Raises TypeError or ValueError for what cannot be a form."""
    model: type[BaseModel] | None = None
    schema: Any = model_or_schema
    if isinstance(model_or_schema, type) and issubclass(model_or_schema, BaseModel):
        model, schema = model_or_schema, model_or_schema.model_json_schema()
    elif isinstance(model_or_schema, dict):
        json_schema.check_schema(schema)
    else:
        raise TypeError("collect takes a pydantic model class or a JSON schema as a dict")
    if not title.strip():
        raise ValueError("collect needs a title that says what is wanted")
    prompt: JSONObject = {"title": title, "reason": reason, "schema": schema, "ui_schema": ui_schema}
    return Interaction(new_id("ir_"), "form", "input_request", prompt, _checked(timeout), model)


def checked_answer(kind: str, prompt: JSONObject, answer: JSON) -> JSON:
    """An answer checked by what its row says. Raises `AnswerInvalid`."""
    if kind == "question":
        if not isinstance(answer, str):
            raise AnswerInvalid([{"loc": [], "msg": "must be a text", "type": "type"}])
        if len(answer) > MAX_ANSWER_CHARACTERS:
            sentence = f"has more than {MAX_ANSWER_CHARACTERS} characters"
            raise AnswerInvalid([{"loc": [], "msg": sentence, "type": "maxLength"}])
        return answer
    errors = json_schema.errors_of(prompt.get("schema"), answer)
    if errors:
        raise AnswerInvalid(errors)
    return answer


def fingerprint(kind: str, prompt: JSON) -> str:
    """SHA-256 of a kind and its canonical prompt: sorted names, no spaces."""
    written = json.dumps([kind, prompt], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(written.encode()).hexdigest()


def _checked(timeout: float) -> float:
    if not timeout > 0:
        raise ValueError(f"timeout must be more than 0 seconds, not {timeout}")
    return timeout
