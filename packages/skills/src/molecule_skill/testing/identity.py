"""Callers in a test: a resolver that knows one caller."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel


class StaticAuthResolver:
    """Authenticator that takes every credential for the same caller."""

    def __init__(self, model: BaseModel, principal: str = "user:test") -> None:
        self._model, self._principal = model, principal

    def resolve(self, token: str | None, *, headers: Mapping[str, str], agent: Any) -> BaseModel:
        """See `AuthResolver`."""
        return self._model

    def principal_id(self, model: BaseModel) -> str:
        """See `AuthResolver`."""
        return self._principal
