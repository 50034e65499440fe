"""What a benchmark hands back, and the table at the end of `make bench`."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Ceiling:
    """A budget that the value may not pass."""

    bound: float

    def met_by(self, value: float) -> bool:
        return value <= self.bound

    def __str__(self) -> str:
        return f"<= {self.bound:g}"


@dataclass(frozen=True)
class Floor:
    """A gain that the value must reach."""

    bound: float

    def met_by(self, value: float) -> bool:
        return value >= self.bound

    def __str__(self) -> str:
        return f">= {self.bound:g}"


@dataclass(frozen=True)
class Figure:
    """One measured value, the line it must keep, and the limits it was measured under."""

    name: str
    value: float
    unit: str
    line: Ceiling | Floor
    limits: str
    not_measured: str = ""
    """Why there is no value; empty when there is one."""

    @property
    def met(self) -> bool:
        return not self.not_measured and self.line.met_by(self.value)

    def row(self) -> tuple[str, str, str, str, str]:
        if self.not_measured:
            return ("SKIP", self.name, "not measured", f"{self.line} {self.unit}", self.not_measured)
        verdict = "pass" if self.met else "MISS"
        return (verdict, self.name, f"{self.value:.4g} {self.unit}", f"{self.line} {self.unit}", self.limits)


def table(figures: Sequence[Figure]) -> str:
    """The figures as text, one row each, in the order given."""
    rows = [("", "figure", "value", "pass line", "limits"), *(figure.row() for figure in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    padded = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)
    return "\n".join(line.rstrip() for line in padded)
