"""What the models of a workspace have cost in this month; kept in a file, for a restart spends no less."""

import json
import logging
from datetime import UTC, datetime
from pathlib import Path

from molecule_runtime.kit.files import atomic_files

log = logging.getLogger("molecule_runtime")


class MonthlySpend:
    """Cents since the month began, in UTC."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._month, self._cents = self._read()

    def add(self, cost_usd: float) -> float:
        """Add what a call cost; returns the sum."""
        month = _month()
        self._cents = (self._cents if month == self._month else 0.0) + cost_usd * 100
        self._month = month
        try:
            atomic_files.write_private(
                self._path, json.dumps({"month": month, "cents": self._cents}).encode()
            )
        except OSError as problem:
            log.warning("the spend of the month cannot be kept: %s", problem.strerror)
        return self._cents

    @property
    def cents(self) -> float:
        """The sum so far."""
        return self._cents if self._month == _month() else 0.0

    def _read(self) -> tuple[str, float]:
        try:
            kept = json.loads(self._path.read_text())
            return str(kept["month"]), float(kept["cents"])
        except (OSError, ValueError, KeyError, TypeError):
            return "", 0.0


def _month() -> str:
    return datetime.now(UTC).strftime("%Y-%m")
