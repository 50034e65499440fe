"""Parts in all their spellings: 1.0, 0.3 JSON-RPC (`kind` or `type`) and 0.3 REST.

Members that no dialect knows stay where they are; those inside a 0.3 `file` object travel in a 1.0 member
of that name, so that the way back finds them.
"""

from molecule_wire import JSON, JSONObject

CONTENTS = ("text", "raw", "url", "data")
_KINDS = ("text", "file", "data")
_COMPAT = "data_part_compat"
_TO_1_0 = {"bytes": "raw", "fileWithBytes": "raw", "uri": "url", "fileWithUri": "url"}
_RENAMED_IN_FILE = {"mimeType": "mediaType", "name": "filename"}


def from_0_3(part: JSONObject) -> JSONObject:
    """Read a part of 0.3 JSON-RPC, or of 1.0; what is neither comes back as it is."""
    kind = part.get("kind", part.get("type"))
    marked = isinstance(kind, str) and kind in _KINDS
    lifted = _lifted(
        {name: value for name, value in part.items() if not (marked and name in ("kind", "type"))}
    )
    if not any(name in lifted for name in CONTENTS):
        return part
    return _without_compat(lifted) if kind == "data" else lifted


def from_0_3_rest(part: JSONObject) -> JSONObject:
    """Read a part of 0.3 REST, whose data sits one level deeper."""
    data = part.get("data")
    if isinstance(data, dict) and data.keys() == {"data"}:
        return _without_compat({**part, "data": data["data"]})
    return from_0_3(part)


def to_0_3(part: JSONObject) -> JSONObject:
    """Write a 1.0 part for 0.3 JSON-RPC."""
    part = from_0_3(part)
    if "text" in part:
        return {"kind": "text", **part}
    if "raw" in part or "url" in part:
        return {"kind": "file", **_lowered(part, "bytes", "uri")}
    return {"kind": "data", **_with_compat(part)} if "data" in part else part


def to_0_3_rest(part: JSONObject) -> JSONObject:
    """Write a 1.0 part for 0.3 REST."""
    part = from_0_3(part)
    if "text" in part:
        return part
    if "raw" in part or "url" in part:
        return _lowered(part, "fileWithBytes", "fileWithUri")
    if "data" not in part:
        return part
    wrapped = _with_compat(part)
    return {**wrapped, "data": {"data": wrapped["data"]}}


def _lifted(part: JSONObject) -> JSONObject:
    """Take the content out of a `file` object; a file without content stays."""
    file = part.get("file")
    if not isinstance(file, dict):
        return part
    source = next((name for name in _TO_1_0 if isinstance(file.get(name), str)), None)
    if source is None:
        return part
    lifted = {name: value for name, value in part.items() if name != "file"}
    lifted[_TO_1_0[source]] = file[source]
    lifted.update({new: file[old] for old, new in _RENAMED_IN_FILE.items() if old in file})
    left = {name: value for name, value in file.items() if name != source and name not in _RENAMED_IN_FILE}
    return {**lifted, "file": left} if left else lifted


def _lowered(part: JSONObject, bytes_name: str, uri_name: str) -> JSONObject:
    """Put the content of a 1.0 file part back into a `file` object."""
    places = {"raw": bytes_name} if "raw" in part else {"url": uri_name}
    places |= {new: old for old, new in _RENAMED_IN_FILE.items()}
    file: JSONObject = {places[name]: value for name, value in part.items() if name in places}
    left = part.get("file")
    outside = {name: value for name, value in part.items() if name not in places}
    return {**outside, "file": {**left, **file} if isinstance(left, dict) else file}


def _with_compat(part: JSONObject) -> JSONObject:
    """0.3 knows only objects as data: wrap anything else and say so in the metadata."""
    data, metadata = part["data"], part.get("metadata")
    if isinstance(data, dict):
        return part
    known = metadata if isinstance(metadata, dict) else {}
    return {**part, "data": {"value": data}, "metadata": {**known, _COMPAT: True}}


def _without_compat(part: JSONObject) -> JSONObject:
    data, metadata = part.get("data"), part.get("metadata")
    if not (isinstance(metadata, dict) and metadata.get(_COMPAT) is True and _is_wrapped(data)):
        return part
    assert isinstance(data, dict)
    bare = {**part, "data": data["value"]}
    del bare["metadata"]
    left = {name: value for name, value in metadata.items() if name != _COMPAT}
    return {**bare, "metadata": left} if left else bare


def _is_wrapped(data: JSON) -> bool:
    return isinstance(data, dict) and data.keys() == {"value"} and not isinstance(data["value"], dict)
