"""Values: equal by their fields, and never changed once they are made."""

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(cls: type[T]) -> type[T]:
    """A frozen dataclass, as far as readers and type checkers go, for what is made with every message.

    One that Python guards at run time is made five times as slowly: each field is then set by a call.
    """
    return dataclass(unsafe_hash=True)(cls)
