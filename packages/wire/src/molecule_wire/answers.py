"""What a handler of an agent may return: text, an `Answer`, or a text in pieces.

Shared by every way in which a message reaches a handler, on threads and on asyncio.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from molecule_wire import JSON, JSONObject
from molecule_wire.a2a import parts
from molecule_wire.a2a.server.turns import AnswerInvalid, parts_of
from molecule_wire.exceptions import Fail

MAX_STREAMED_CHARACTERS = 4 * 1024 * 1024
"""A generator that yields more has no end, or should hand over a file: what it makes is kept in memory."""


@dataclass(frozen=True)
class Answer:
    """An answer that is more than a text: further A2A parts, and artifacts, as JSON objects."""

    text: str = ""
    parts: Sequence[Mapping[str, object]] = ()
    artifacts: Sequence[Mapping[str, object]] = ()

    @property
    def all_parts(self) -> list[JSON]:
        """The text as the first part, then the others."""
        said: list[JSON] = [{"text": self.text}] if self.text.strip() else []
        return [*said, *cast("Sequence[JSON]", self.parts)]


class Pieces:
    """The pieces of a generator: each goes to `write` as it comes, all of them joined are the answer."""

    def __init__(self, handler: object, write: Callable[[str], object] | None = None) -> None:
        self._handler = handler
        self._write = write
        self._pieces: list[str] = []
        self._size = 0

    def add(self, piece: object) -> None:
        """Take the next piece. Raises Fail when it is no text, or one too many."""
        if not isinstance(piece, str):
            raise Fail(_sentence(self._handler, "yielded", piece, "str"))
        self._size += len(piece)
        if self._size > MAX_STREAMED_CHARACTERS:
            name = name_of(self._handler)
            raise Fail(f"the handler {name} yielded more than {MAX_STREAMED_CHARACTERS} characters")
        if piece:
            self._pieces.append(piece)
            if self._write is not None:
                self._write(piece)

    @property
    def text(self) -> str:
        """All of them."""
        return "".join(self._pieces)


def read(result: object, handler: object) -> Answer | None:
    """What a handler returned, as an answer with 1.0 parts; None is none.

    Raises Fail for anything else: another attempt would return the same.
    """
    if result is None:
        return None
    if isinstance(result, str):
        return Answer(result)
    if not isinstance(result, Answer) or not isinstance(cast("object", result.text), str):
        raise Fail(_sentence(handler, "returned", result, "str, Answer or None"))
    try:
        artifacts = [_artifact(one, number) for number, one in enumerate(result.artifacts, start=1)]
        return Answer(result.text, _parts(result.parts, "an answer") if result.parts else (), artifacts)
    except (AnswerInvalid, TypeError) as problem:
        raise Fail(
            f"the handler {name_of(handler)} returned an Answer that cannot be sent: {problem}"
        ) from problem


def name_of(handler: object) -> str:
    """How the author calls a handler."""
    return getattr(handler, "__qualname__", type(handler).__qualname__)


def _artifact(given: object, number: int) -> JSONObject:
    if not isinstance(given, dict):
        raise AnswerInvalid(f"artifacts[{number - 1}] is no JSON object")
    artifact = cast("JSONObject", given)
    named = {"artifactId": f"artifact-{number}", **artifact}
    return {**named, "parts": cast("JSON", _parts(artifact.get("parts"), f"artifacts[{number - 1}]"))}


def _parts(given: object, where: str) -> list[JSONObject]:
    listed = cast("list[object]", given) if isinstance(given, list | tuple) else []
    read = [parts.from_0_3(cast("JSONObject", one)) if isinstance(one, dict) else one for one in listed]
    return cast("list[JSONObject]", parts_of(read, where))


def _sentence(handler: object, verb: str, said: object, allowed: str) -> str:
    kind = type(said).__qualname__
    return f"the handler {name_of(handler)} {verb} a value of type {kind}, where only {allowed} can be sent"
