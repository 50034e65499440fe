"""The log: lines for machines, or for the person at the terminal. Each names the request it belongs to."""

import sys
from collections.abc import MutableMapping
from typing import Any

import msgspec
import structlog

from molecule_platform.api.context import REQUEST

Line = MutableMapping[str, Any]


def to_stderr(environment: str) -> Any:
    """JSON lines on stderr; at a terminal and in development, plain ones.

    At a terminal in production, requests that went well stay out: the person there watches something else.
    Tracebacks come without local values, because those hold secrets.
    """
    at_terminal = sys.stderr.isatty()
    plain = at_terminal or environment == "development"
    quiet = at_terminal and environment != "development"
    return structlog.wrap_logger(
        structlog.PrintLogger(sys.stderr),
        processors=[
            *([_without_routine] if quiet else []),
            _with_request,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _plain() if plain else structlog.processors.JSONRenderer(serializer=_json),
        ],
    )


def _with_request(_logger: Any, _method: str, line: Line) -> Line:
    """Name the request that is being served."""
    arrival = REQUEST.get()
    if arrival is None:
        return line
    return {**line, "request_id": arrival.request_id, "trace_id": arrival.trace_id}


def _without_routine(_logger: Any, _method: str, line: Line) -> Line:
    if line.get("event") == "request" and line.get("status", 500) < 500:
        raise structlog.DropEvent
    return line


def _plain() -> Any:
    return structlog.processors.KeyValueRenderer(key_order=["timestamp", "level", "event"])


def _json(line: Line, **_options: Any) -> str:
    return msgspec.json.encode(line, enc_hook=repr).decode()
