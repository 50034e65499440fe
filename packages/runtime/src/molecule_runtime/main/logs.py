"""The log of the process: text or JSON lines on standard error, without secrets."""

import json
import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime

from molecule_runtime.kit.state.known_secrets import known_secret_values
from molecule_wire import redaction


class RedactingFilter(logging.Filter):
    """Takes secrets out of every record, also out of tracebacks, before anybody formats it."""

    def __init__(self, known_values: tuple[str, ...]) -> None:
        super().__init__()
        self._known = known_values

    def filter(self, record: logging.LogRecord) -> bool:
        """Redact, and let the record pass."""
        record.msg, record.args = redaction.redact(record.getMessage(), redaction.LOG, self._known), ()
        if record.exc_info and not record.exc_text:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = redaction.redact(record.exc_text, redaction.LOG, self._known)
        return True


class JsonLineFormatter(logging.Formatter):
    """One JSON object for each record."""

    def format(self, record: logging.LogRecord) -> str:
        """The object."""
        row = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_text:
            row["exception"] = record.exc_text
        return json.dumps(row, ensure_ascii=False)


def set_up_logging(log_format: str, variables: Mapping[str, str]) -> None:
    """Log to standard error, redacted, in the given format."""
    handler = logging.StreamHandler(sys.stderr)
    text = logging.Formatter("%(asctime)s %(levelname)-7s %(message)s")
    handler.setFormatter(JsonLineFormatter() if log_format == "json" else text)
    handler.addFilter(RedactingFilter(known_secret_values(variables)))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    for chatty in ("httpx", "httpcore"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
