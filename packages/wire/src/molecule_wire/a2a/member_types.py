"""The types of what a message may do without: strict doors check them, a lenient one passes them on."""

import binascii
import re
from collections.abc import Iterator, Mapping

from molecule_wire import JSONObject
from molecule_wire.a2a import members
from molecule_wire.a2a.errors import Violation

_CONTENTS_OF_KIND: Mapping[str, tuple[str, ...]] = {
    "text": ("text",),
    "data": ("data",),
    "file": ("file", "raw", "url"),
}
_ALL_CONTENTS = frozenset(name for names in _CONTENTS_OF_KIND.values() for name in names)
_ANY_BASE64 = re.compile("[A-Za-z0-9+/_-]*={0,2}")


def violations(params: JSONObject) -> Iterator[Violation]:
    """What is wrong in the params of a send."""
    message, configuration = params.get("message"), params.get("configuration")
    if isinstance(message, dict):
        yield from _message(message)
    if isinstance(configuration, dict) and "acceptedOutputModes" in configuration:
        yield from members.texts(configuration, "acceptedOutputModes", "configuration.")


def _message(message: JSONObject) -> Iterator[Violation]:
    if "extensions" in message:
        yield from members.texts(message, "extensions", "message.")
    listed = message.get("parts")
    for place, part in enumerate(listed if isinstance(listed, list) else ()):
        if isinstance(part, dict) and not (len(part) == 1 and "text" in part):
            yield from _part(part, f"message.parts[{place}]")


def _part(part: JSONObject, where: str) -> Iterator[Violation]:
    yield from _kind(part, where)
    yield from members.member_object(part, "metadata", f"{where}.")
    for name in ("filename", "mediaType"):
        yield from members.text_if_given(part, name, f"{where}.")
    if "raw" in part:
        yield from _base64(part, "raw", f"{where}.")
    file = part.get("file")
    if isinstance(file, dict):
        for name in ("name", "mimeType"):
            yield from members.text_if_given(file, name, f"{where}.file.")
        for name in ("bytes", "fileWithBytes"):
            yield from _base64(file, name, f"{where}.file.")


def _kind(part: JSONObject, where: str) -> Iterator[Violation]:
    kind = part.get("kind", part.get("type"))
    if not isinstance(kind, str) or kind not in _CONTENTS_OF_KIND:
        return
    given = {name for name in part.keys() & _ALL_CONTENTS if part[name] is not None}
    if given and given.isdisjoint(_CONTENTS_OF_KIND[kind]):
        yield Violation(where, f"says that it is {kind} and holds {', '.join(sorted(given))}")


def _base64(holder: JSONObject, name: str, prefix: str) -> Iterator[Violation]:
    value = holder.get(name)
    if isinstance(value, str) and not _is_base64(value):
        yield Violation(f"{prefix}{name}", "must be base64")


def _is_base64(value: str) -> bool:
    """In either alphabet, padded or not, as readers of protocol buffers take it."""
    if len(value) % 4 == 1 or (len(value) % 4 and value.endswith("=")):
        return False
    try:
        binascii.a2b_base64(value, strict_mode=True)
    except ValueError:
        return _ANY_BASE64.fullmatch(value) is not None
    return True
