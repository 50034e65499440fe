"""What the kit reads out of a message, and out of an executor's configuration."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from molecule_runtime.domain.turns import RESULT_STATES, TurnResult
from molecule_runtime.ports.output import TextRedactor
from molecule_wire import JSON, JSONObject
from molecule_wire.values import value

BRIEF_CHARACTERS = 60
LINE_CHARACTERS, SLICE_CHARACTERS = 4096, 4096


@value
class MessageParts:
    """The text of a message, and its structured parts."""

    text: str
    data: list[JSON] = field(default_factory=list[JSON])
    has_files: bool = False


@dataclass(frozen=True)
class RuntimeSettings:
    """What `runtime_config` and the adapter say about turns."""

    max_concurrent_turns: int = 1
    max_queued_turns: int = 32
    timeout: float = 0.0


class PassthroughRedactor:
    """The redactor of an executor that has nothing to hide."""

    def feed(self, text: str) -> str:
        """The text."""
        return text

    def flush(self) -> str:
        """Nothing is held back."""
        return ""

    def redact(self, text: str) -> str:
        """The text."""
        return text


@dataclass
class NoHeartbeat:
    """The heartbeat of an executor that has none: it only counts."""

    active_tasks: int = 0
    current_task: str = ""
    errors: int = 0

    def record_success(self) -> None:
        """Nobody is told."""

    def record_error(self, text: str) -> None:
        """Count it."""
        self.errors += 1


def read_parts(parts: list[JSON]) -> MessageParts:
    """The texts of 1.0 parts joined by one space, the data, and whether there is anything else."""
    texts: list[str] = []
    data: list[JSON] = []
    has_files = False
    for part in parts:
        if not isinstance(part, dict):
            continue
        if isinstance(text := part.get("text"), str):
            texts.append(text)
        elif "data" in part:
            data.append(part["data"])
        else:
            has_files = True
    return MessageParts(" ".join(texts).strip(), data, has_files)


def checked_result(value: object) -> TurnResult:
    """What an engine returned. Raises TypeError or ValueError that say what is wrong with it."""
    result = value if isinstance(value, TurnResult) else TurnResult(value or "")  # type: ignore[arg-type]
    if not isinstance(result.text, str):  # pyright: ignore[reportUnnecessaryIsInstance] - an engine's word
        raise TypeError(f"run_turn must return text or a TurnResult, not {type(result.text).__name__}")
    if result.state not in RESULT_STATES:
        raise ValueError(f"a turn ends as {', '.join(RESULT_STATES)}, not as {result.state!r}")
    return result


def runtime_settings(config: Any) -> RuntimeSettings:
    """The settings of an executor whose config is an AdapterConfig, or anything else."""
    settings: JSONObject = getattr(config, "runtime_config", None) or {}
    return RuntimeSettings(
        max_concurrent_turns=_positive(settings.get("max_concurrent_turns"), 1),
        max_queued_turns=_positive(settings.get("max_queued_turns"), 32),
        timeout=_number(settings.get("timeout")),
    )


def declares(adapter: Any, capability: str) -> bool:
    """Whether an adapter says that its engine does something by itself."""
    try:
        return bool(getattr(adapter.capabilities(), capability))
    except Exception:  # noqa: BLE001 - an adapter that cannot say has nothing of its own
        return False


def idle_override(adapter: Any) -> float | None:
    """The seconds of silence that an adapter asks for; None when it asks for none, or cannot say."""
    try:
        override = adapter.idle_timeout_override()
    except Exception:  # noqa: BLE001 - an adapter's mistake must not end a turn
        return None
    return (
        float(override)
        if isinstance(override, int) and not isinstance(override, bool) and override > 0
        else None
    )


def brief(text: str) -> str:
    """The first line of a text, cut."""
    line = text.strip().partition("\n")[0]
    return line if len(line) <= BRIEF_CHARACTERS else f"{line[: BRIEF_CHARACTERS - 3]}..."


def slices(text: str) -> Iterator[str]:
    """A text in pieces that are redacted within milliseconds each, whatever is in them."""
    return (text[place : place + SLICE_CHARACTERS] for place in range(0, len(text), SLICE_CHARACTERS))


async def redacted(redactor: TextRedactor, text: str) -> str:
    """A whole text without its secrets; others have their turn in between, for 15 MB can take 30 seconds."""
    if len(text) <= SLICE_CHARACTERS:
        return redactor.redact(text)
    held: list[str] = []
    for piece in slices(text):
        if held:
            await asyncio.sleep(0)
        held.append(redactor.feed(piece))
    return "".join([*held, redactor.flush()])


def redacted_line(redactor: TextRedactor, text: str) -> str:
    """The beginning of a text, as much as fits into a line for people, without its secrets."""
    return redactor.redact(text[:LINE_CHARACTERS])


def _positive(value: JSON, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else default


def _number(value: JSON) -> float:
    return (
        float(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else 0.0
    )
