"""The words in a message or an answer, whatever form they came in."""

from molecule_wire import JSON, JSONObject

_PLAIN_MEMBERS = ("text", "message", "reply")
_WRAPPERS = ("task", "message")


def text_of_message(message: JSON) -> str:
    """The text parts of a message, one below the other; parts may be written `kind`, `type` or 1.0."""
    return "\n".join(_texts(message))


def text_of(result: JSON) -> str:
    """The text of an answer: a string, a plain `text`, `message` or `reply`, or all parts of a result.

    Parts come first, then the status message, then the artifacts, each of which is one text made of its
    chunks. What parts or status message already say is not repeated from the artifacts.
    """
    if isinstance(result, str):
        return result
    if not isinstance(result, dict):
        return ""
    plain = [value for name in _PLAIN_MEMBERS if isinstance(value := result.get(name), str) and value]
    return plain[0] if plain else _text_of_parts(_unwrapped(result))


def _unwrapped(result: JSONObject) -> JSONObject:
    for name in _WRAPPERS:
        inner = result.get(name)
        if isinstance(inner, dict):
            return inner
    return result


def _text_of_parts(result: JSONObject) -> str:
    parts = _texts(result)
    own = "\n".join(parts)
    others = _texts_behind(result)
    whole = "\n".join(others)
    if own in ("", whole):
        return whole
    said = {own, *parts}
    return "\n".join([own, *(text for text in others if text not in said)])


def _texts_behind(result: JSONObject) -> list[str]:
    status, artifacts = result.get("status"), result.get("artifacts")
    spoken = text_of_message(status.get("message")) if isinstance(status, dict) else ""
    listed = artifacts if isinstance(artifacts, list) else []
    made = ["".join(_texts(artifact)) for artifact in listed]
    return [text for text in (spoken, *(text for text in made if text != spoken)) if text]


def _texts(holder: JSON) -> list[str]:
    parts = holder.get("parts") if isinstance(holder, dict) else None
    return [text for part in parts if (text := _text_of_part(part))] if isinstance(parts, list) else []


def _text_of_part(part: JSON) -> str:
    if not isinstance(part, dict) or part.get("kind", part.get("type", "text")) != "text":
        return ""
    text = part.get("text")
    return text if isinstance(text, str) else ""
