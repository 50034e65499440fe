"""The log: lines for machines, or for the person at the terminal. Each names the request it belongs to."""

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

import msgspec
import structlog

from molecule_platform.ports.log import Log
from molecule_platform.web.pipeline.log_sampling import LogSampler
from molecule_platform.web.pipeline.request_context import REQUEST

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


class LibraryLog(logging.Handler):
    """Warnings and errors of libraries in the platform's own log, sampled.

    Exceptions of the event loop arrive here too: asyncio logs them.
    """

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log
        self._sampler = LogSampler()

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler`."""
        left_out = self._sampler.take()
        if left_out is None:
            return
        fields: dict[str, Any] = (
            {"logger": record.name, "left_out": left_out} if left_out else {"logger": record.name}
        )
        if record.exc_info:
            fields["exc_info"] = record.exc_info
        write = self._log.error if record.levelno >= logging.ERROR else self._log.warning
        # asyncio appends the reprs of its objects, a line each.
        write(record.getMessage().strip().partition("\n")[0], **fields)


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
