"""Other agents in a test: a peer that answers by script, and a recorder of calls."""

import inspect
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from molecule_skill.a2a_client import A2AClient, CallResult


@dataclass(frozen=True)
class RecordedCall:
    """A call that a skill made."""

    target: str
    skill: str
    args: dict[str, Any] = field(default_factory=dict[str, Any])
    grant: str | None = None
    timeout: float | None = None


class CallRecorder(A2AClient):
    """Client that notes each call and passes it on."""

    def __init__(self, client: A2AClient) -> None:
        self._client = client
        self.calls: list[RecordedCall] = []

    async def call(
        self,
        target: str,
        skill: str,
        *,
        args: dict[str, Any] | None = None,
        grant: str | None = None,
        timeout: float | None = None,
    ) -> CallResult:
        """See `A2AClient`."""
        self.calls.append(RecordedCall(target, skill, dict(args or {}), grant, timeout))
        return await self._client.call(target, skill, args=args, grant=grant, timeout=timeout)


class ScriptedPeer(A2AClient):
    """Client whose peers answer by script: `{"target.skill": result}`.

    A result may be a value, a `CallResult`, an exception to raise, a function of the arguments, or a list of
    these that is used up in order. `calls` has every call.
    """

    def __init__(self, script: Mapping[str, Any]) -> None:
        self._script: dict[str, Any] = dict(script)
        self._used: Counter[str] = Counter()
        self.calls: list[RecordedCall] = []

    async def call(
        self,
        target: str,
        skill: str,
        *,
        args: dict[str, Any] | None = None,
        grant: str | None = None,
        timeout: float | None = None,
    ) -> CallResult:
        """See `A2AClient`. Raises KeyError for a call that is not in the script."""
        self.calls.append(RecordedCall(target, skill, dict(args or {}), grant, timeout))
        name = f"{target}.{skill}"
        planned = self._script.get(name, [])
        if isinstance(planned, list):
            steps = cast("list[Any]", planned)
            if self._used[name] >= len(steps):
                raise KeyError(f"the script has no answer left for {name!r}")
            self._used[name] += 1
            planned = steps[self._used[name] - 1]
        return await _played(planned, args or {})


async def _played(planned: Any, args: dict[str, Any]) -> CallResult:
    if isinstance(planned, BaseException):
        raise planned
    if callable(planned):
        answer: Callable[..., Any] = planned
        planned = answer(**args)
        planned = await planned if inspect.isawaitable(planned) else planned
    return planned if isinstance(planned, CallResult) else CallResult(planned)
