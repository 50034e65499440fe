"""Tools that an agent may call, whatever its engine: what they are, and the one way to call them."""

import asyncio
import functools
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, overload

from molecule_runtime.domain.permissions import RolePermissions
from molecule_runtime.kit.tools.tool_schemas import problem_with, schema_of
from molecule_runtime.kit.turns import turn_context
from molecule_wire import JSON, JSONObject

Handler: TypeAlias = Callable[..., Awaitable[Any]]
"""Takes the arguments by name and gives what JSON can say."""

DEFAULT_TIMEOUT_SECONDS = 300.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ToolSpec:
    """A tool. Without a `permission` every role may call it; `timeout` is in seconds."""

    name: str
    description: str
    input_schema: JSONObject
    handler: Handler
    permission: str = ""
    destructive: bool = False
    timeout: float | None = None

    async def ainvoke(self, arguments: Mapping[str, Any] | None = None) -> Any:
        """Call the handler with a dictionary of arguments; no permission is checked."""
        return await self.handler(**(arguments or {}))

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the handler as the function that it was made from."""
        return await self.handler(*args, **kwargs)


@overload
def tool(function: Callable[..., Any], /) -> ToolSpec: ...


@overload
def tool(
    *,
    name: str = "",
    description: str = "",
    permission: str = "",
    destructive: bool = False,
    timeout: float | None = None,
) -> Callable[[Callable[..., Any]], ToolSpec]: ...


def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    name: str = "",
    description: str = "",
    permission: str = "",
    destructive: bool = False,
    timeout: float | None = None,
) -> ToolSpec | Callable[[Callable[..., Any]], ToolSpec]:
    """Decorator that makes a tool of a function.

    Its name, its docstring and the types of its parameters describe the tool; one that is not asynchronous
    runs in a thread.
    """

    def make(decorated: Callable[..., Any]) -> ToolSpec:
        return ToolSpec(
            name or getattr(decorated, "__name__", type(decorated).__name__),
            description or inspect.getdoc(decorated) or "",
            schema_of(decorated),
            _asynchronous(decorated),
            permission,
            destructive,
            timeout,
        )

    return make if function is None else make(function)


def _asynchronous(function: Callable[..., Any]) -> Handler:
    if inspect.iscoroutinefunction(function):
        return function

    @functools.wraps(function)
    async def in_thread(*args: Any, **kwargs: Any) -> Any:
        result = await asyncio.to_thread(function, *args, **kwargs)
        return await result if inspect.isawaitable(result) else result

    return in_thread


BeforeCall: TypeAlias = Callable[[ToolSpec, JSONObject], Awaitable[str]]
"""Decides about a call that is permitted: a text refuses it with that text, an empty one lets it pass.

Governance, agency limits and approvals are such decisions.
"""


class ToolSet:
    """The tools of an agent under its permissions.

    A call never raises, except for its cancellation: whatever goes wrong becomes a result `{"error": …}`
    that the model can read, without the text of an exception. A list of tools is read at each call, so a
    setup that changes it changes the set. Without `permissions` those of the workspace hold.
    """

    def __init__(
        self,
        specs: Iterable[ToolSpec],
        *,
        permissions: RolePermissions | None = None,
        before_call: BeforeCall | None = None,
        default_timeout: float | None = DEFAULT_TIMEOUT_SECONDS,
    ) -> None:
        self._specs = specs if isinstance(specs, list) else list(specs)
        self._given_permissions = permissions
        self._before_call = before_call
        self._default_timeout = default_timeout

    @property
    def specs(self) -> list[ToolSpec]:
        """The tools in their order; of two with one name the first."""
        by_name: dict[str, ToolSpec] = {}
        for spec in self._specs:
            by_name.setdefault(spec.name, spec)
        return list(by_name.values())

    @property
    def _permissions(self) -> RolePermissions:
        return turn_context.get_permissions() if self._given_permissions is None else self._given_permissions

    async def call(self, name: str, args: Mapping[str, JSON] | None = None) -> Any:
        """Call a tool: permission, then the decision before the call, then the handler with its timeout."""
        spec = next((one for one in self._specs if one.name == name), None)
        if spec is None:
            return {"error": f"Unknown tool: {name[:100]}"}
        if spec.permission and not self._permissions.allows(spec.permission):
            return {"success": False, "error": self._permissions.refusal(spec.permission)}
        # What a model sends is not always what its schema says.
        if not isinstance(args, Mapping | None):  # pyright: ignore[reportUnnecessaryIsInstance]
            return {"error": f"{name}: the arguments must be an object"}
        arguments = dict(args or {})
        if wrong := problem_with(arguments, spec.input_schema):
            return {"error": f"{name}: {wrong}"}
        try:
            refusal = await self._before_call(spec, arguments) if self._before_call else ""
            return {"error": refusal} if refusal else await self._run(spec, arguments)
        except Exception as problem:
            log.exception("tool %s failed", name)
            kind = type(problem).__name__
            return {"error": f"tool '{name}' failed ({kind}) — see workspace logs for details."}

    async def _run(self, spec: ToolSpec, arguments: JSONObject) -> Any:
        timeout = self._default_timeout if spec.timeout is None else spec.timeout
        limit = asyncio.timeout(timeout)
        try:
            async with limit:
                return await spec.handler(**arguments)
        except TimeoutError:
            if not limit.expired():  # it is the handler's own
                raise
            log.warning("tool %s timed out after %gs", spec.name, timeout)
            return {"error": f"tool '{spec.name}' timed out after {timeout:g}s"}
