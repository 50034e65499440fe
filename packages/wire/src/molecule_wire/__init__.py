"""What travels between the platform and its agents: shapes, error codes and rules, without any I/O."""

from typing import TypeAlias

JSON: TypeAlias = dict[str, "JSON"] | list["JSON"] | str | int | float | bool | None
"""Any value that JSON can say."""

JSONObject: TypeAlias = dict[str, JSON]
"""A JSON object."""

__version__ = "0.1.0"

__all__ = ["JSON", "JSONObject", "__version__"]
