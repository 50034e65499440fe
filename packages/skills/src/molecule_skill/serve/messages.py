"""A2A messages as invocations: which skill a message asks for, with which arguments, or what it answers."""

from dataclasses import dataclass
from typing import Any

from molecule_skill.store.records import RequestRecord, RequestState
from molecule_wire import JSON, JSONObject, jsontext
from molecule_wire.a2a import errors


class NoSkillChosen(ValueError):
    """A message does not say which skill to run; the text lists what there is."""


@dataclass(frozen=True, slots=True)
class SkillChoice:
    """The skill that a message asks for."""

    skill: str
    arguments: JSONObject


def choose_skill(agent: Any, message: JSONObject) -> SkillChoice:
    """The skill and arguments of a message, by the three rules of the contract. Raises NoSkillChosen."""
    parts = _parts(message)
    data = [part["data"] for part in parts if "data" in part]
    for value in data:
        if isinstance(value, dict) and isinstance(value.get("skill"), str):
            arguments = value.get("arguments", {})
            if not isinstance(arguments, dict):
                raise NoSkillChosen('"arguments" beside "skill" must be a JSON object')
            return SkillChoice(str(value["skill"]), arguments)
    named = _named_skill(message)
    if named is not None:
        arguments = data[0] if data else {}
        if not isinstance(arguments, dict):
            raise NoSkillChosen("the data part beside metadata.skill must be a JSON object: the arguments")
        return SkillChoice(named, arguments)
    text = text_of(message)
    if text is not None and not data:
        found = _text_skill(agent)
        if found is not None:
            return SkillChoice(found[0], {found[1]: text})
    raise NoSkillChosen(_what_there_is(agent))


def text_of(message: JSONObject) -> str | None:
    """The text of a message; None when it has none."""
    texts = [text for part in _parts(message) if isinstance(text := part.get("text"), str)]
    return "\n".join(texts) if texts else None


def data_of(message: JSONObject) -> list[JSON]:
    """The values of the data parts of a message."""
    return [part["data"] for part in _parts(message) if "data" in part]


def decline_of(message: JSONObject) -> str | None:
    """The reason with which a message declines what was asked; None when it does not decline."""
    metadata = message.get("metadata")
    if isinstance(metadata, dict) and metadata.get("molecule.declined") is True:
        return text_of(message) or ""
    return None


def answer_in(message: JSONObject, kind: str) -> JSON:
    """What a message answers to a question or a form. Raises A2AError when it has no such part."""
    data, text = data_of(message), text_of(message)
    if kind == "question":
        if text is not None:
            return text
        raise errors.invalid_params(errors.Violation("message.parts", "answer the question with a text part"))
    if data:
        return data[0]
    raise errors.invalid_params(errors.Violation("message.parts", "fill in the form with a data part"))


def repeats(message: JSONObject, row: RequestRecord) -> bool:
    """Whether a message says once more what an interaction was decided by."""
    if row.state is RequestState.DENIED:
        return decline_of(message) is not None
    try:
        return decline_of(message) is None and answer_in(message, row.kind) == row.answer
    except errors.A2AError:
        return False


def files_of(message: JSONObject) -> list[JSONObject]:
    """The parts of a message that are files, inline or by URL."""
    return [part for part in _parts(message) if "raw" in part or "url" in part]


def _parts(message: JSONObject) -> list[JSONObject]:
    parts = message.get("parts")
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


def _named_skill(message: JSONObject) -> str | None:
    metadata = message.get("metadata")
    if not isinstance(metadata, dict):
        return None
    named = metadata.get("skill", metadata.get("molecule.skill"))
    return named if isinstance(named, str) else None


def _text_skill(agent: Any) -> tuple[str, str] | None:
    """The skill that takes a plain text, and its one parameter."""
    skills: dict[str, Any] = agent.skills
    name = agent.default_skill or (next(iter(skills)) if len(skills) == 1 else None)
    if name is None:
        return None
    schema: dict[str, Any] = skills[name].input_schema
    required = schema.get("required", [])
    if len(required) != 1 or schema["properties"].get(required[0], {}).get("type") != "string":
        return None
    return name, required[0]


def _what_there_is(agent: Any) -> str:
    listed = "; ".join(
        f"{name}: {jsontext.encode(spec.input_schema).decode()}" for name, spec in agent.skills.items()
    )
    return (
        'the message does not say which skill to run: send a data part {"skill": …, "arguments": {…}}. '
        f"The skills and the schemas of their arguments are: {listed}"
    )
