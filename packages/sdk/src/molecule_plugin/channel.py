"""What must hold of a channel's configuration."""

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

from molecule_plugin.findings import Finding, ValidationError, validation_errors, warning
from molecule_plugin.text_reader import UnreadableFile, read_text
from molecule_plugin.values import display, items, mapping, named, text, type_name
from molecule_plugin.yaml_includes import MAX_TEMPLATE_BYTES
from molecule_plugin.yaml_reader import Document, read_template_yaml
from molecule_wire.registry import CHANNELS, SUPPORTED_CHANNEL_TYPES, channels

__all__ = [
    "SUPPORTED_CHANNEL_TYPES",
    "ValidationError",
    "channel_findings",
    "file_findings",
    "validate_channel_config",
    "validate_channel_file",
]

_TELEGRAM_TOKEN = re.compile(r"\d+:[\w-]{30,}")


def validate_channel_config(cfg: object, file_ref: str = "<channel>") -> list[ValidationError]:
    """What is wrong with one channel; `file_ref` is where it stands."""
    return validation_errors(channel_findings(cfg, file_ref))


def validate_channel_file(path: Path | str) -> list[ValidationError]:
    """What is wrong with a file of one channel or a list of them, in YAML or JSON."""
    return validation_errors(file_findings(Path(path)))


def file_findings(path: Path) -> list[Finding]:
    """The same, each with its line, and what is only worth a warning."""
    file = str(path)
    if not os.path.lexists(path):
        return [Finding(file, "file does not exist", code="channel-invalid")]
    document = _read(path)
    if document.problem:
        line = document.line()
        return [Finding(file, f"invalid YAML / JSON: {document.problem}", code="channel-invalid", line=line)]
    if document.value is None:
        return [Finding(file, "file is empty", code="channel-invalid")]
    listed = items(document.value)
    if listed is not None:
        return [
            found for number, entry in enumerate(listed) for found in _entry(document, file, number, entry)
        ]
    if mapping(document.value) is None:
        message = f"top-level must be a channel object or list; got {type_name(document.value)}"
        return [Finding(file, message, code="channel-invalid")]
    return _placed(channel_findings(document.value, file), document)


def _read(path: Path) -> Document:
    """Read YAML, and such JSON as is no YAML, for example with tabs."""
    document = read_template_yaml(path)
    if document.problem:
        try:
            return Document(json.loads(read_text(path, MAX_TEMPLATE_BYTES)))
        except (UnreadableFile, ValueError, RecursionError):
            pass
    return document


def _entry(document: Document, file: str, number: int, entry: object) -> list[Finding]:
    if mapping(entry) is None:
        message = f"[{number}]: entry must be an object; got {type_name(entry)}"
        return [Finding(file, message, code="channel-invalid", line=document.line(number))]
    return _placed(channel_findings(entry, file), document, number)


def _placed(found: list[Finding], document: Document, number: int | None = None) -> list[Finding]:
    if number is None:
        line = document.line()
        return [Finding(one.file, one.message, one.severity, one.code, line) for one in found]
    line = document.line(number)
    return [Finding(one.file, f"[{number}]: {one.message}", one.severity, one.code, line) for one in found]


def channel_findings(cfg: object, file_ref: str = "<channel>") -> list[Finding]:
    """What is wrong with one channel, and what is only worth a warning."""
    if mapping(cfg) is None:
        message = f"top-level must be a channel object or list; got {type_name(cfg)}"
        return [Finding(file_ref, message, code="channel-invalid")]
    fields = named(cfg)
    faults = [*_type(fields), *_config(fields), *_enabled(fields)]
    return [Finding(file_ref, fault, code="channel-invalid") for fault in faults] + _doubts(fields, file_ref)


def _type(fields: dict[str, object]) -> Iterator[str]:
    kind = fields.get("type", fields.get("channel_type"))
    if kind is None or kind == "":
        yield "missing required field: type"
    elif not isinstance(kind, str) or kind not in channels():
        yield f"type={display(kind)} — must be one of {sorted(channels())}"


def _config(fields: dict[str, object]) -> Iterator[str]:
    config = fields.get("config")
    if config is not None and mapping(config) is None:
        yield f"config must be an object; got {type_name(config)}"
        return
    kind = text(fields.get("type", fields.get("channel_type")))
    ways = CHANNELS[kind].required if kind in CHANNELS else ()
    keys = {key for key, value in named(config).items() if value not in (None, "")}
    if ways and not any(keys.issuperset(way) for way in ways):
        nearest = max(ways, key=lambda way: len(keys.intersection(way)))
        for key in nearest:
            if key not in keys:
                yield f"config.{key} is required for type='{kind}'{_other_ways(ways, nearest)}"


def _other_ways(ways: tuple[tuple[str, ...], ...], chosen: tuple[str, ...]) -> str:
    others = [" and ".join(f"config.{key}" for key in way) for way in ways if way != chosen]
    return f" (or give {', or '.join(others)})" if others else ""


def _enabled(fields: dict[str, object]) -> Iterator[str]:
    if "enabled" in fields and not isinstance(fields["enabled"], bool):
        yield f"enabled must be a boolean; got {display(fields['enabled'])}"


def _doubts(fields: dict[str, object], file_ref: str) -> list[Finding]:
    token = named(fields.get("config")).get("bot_token")
    kind = fields.get("type", fields.get("channel_type"))
    plain = isinstance(token, str) and token and "${" not in token
    if kind != "telegram" or not plain or _TELEGRAM_TOKEN.fullmatch(text(token)):
        return []
    message = "config.bot_token does not look like a Telegram token (<digits>:<30 or more characters>)"
    return [warning(file_ref, message, "bot-token-format")]
