"""The operations of A2A and how each dialect and binding spells them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple, TypeAlias

Dialect: TypeAlias = Literal["1.0", "0.3"]

_CONFIGS = "/tasks/{id}/pushNotificationConfigs"


class Operation(NamedTuple):
    """One operation: its JSON-RPC methods, its REST routes, and the params without which it cannot run."""

    name: str
    method_1_0: str
    method_0_3: str | None
    verbs: tuple[str, ...]
    path_1_0: str
    path_0_3: str | None
    required_1_0: tuple[str, ...] = ()
    required_0_3: tuple[str, ...] = ()

    def method(self, dialect: Dialect) -> str | None:
        """The JSON-RPC method in a dialect, None where that dialect lacks the operation."""
        return self.method_1_0 if dialect == "1.0" else self.method_0_3

    def path(self, dialect: Dialect) -> str | None:
        """The REST path in a dialect, with `{id}` for the task and `{cid}` for the push config."""
        return self.path_1_0 if dialect == "1.0" else self.path_0_3

    def required(self, dialect: Dialect) -> tuple[str, ...]:
        """The params that a strict door asks for."""
        return self.required_1_0 if dialect == "1.0" else self.required_0_3


def _operation(
    name: str,
    methods: tuple[str, str | None],
    verbs: str,
    path: str,
    path_0_3: str | None = "",
    required: str = "",
    required_0_3: str | None = None,
) -> Operation:
    return Operation(
        name,
        *methods,
        tuple(verbs.split()),
        path,
        f"/v1{path}" if path_0_3 == "" else path_0_3,
        tuple(required.split()),
        tuple((required if required_0_3 is None else required_0_3).split()),
    )


SEND = _operation("send", ("SendMessage", "message/send"), "POST", "/message:send", required="message")
STREAM = _operation(
    "stream", ("SendStreamingMessage", "message/stream"), "POST", "/message:stream", required="message"
)
GET = _operation("get", ("GetTask", "tasks/get"), "GET", "/tasks/{id}", required="id")
LIST = _operation("list", ("ListTasks", None), "GET", "/tasks", None)
CANCEL = _operation("cancel", ("CancelTask", "tasks/cancel"), "POST", "/tasks/{id}:cancel", required="id")
SUBSCRIBE = _operation(
    "subscribe", ("SubscribeToTask", "tasks/resubscribe"), "GET POST", "/tasks/{id}:subscribe", required="id"
)
PUSH_CREATE = _operation(
    "push create",
    ("CreateTaskPushNotificationConfig", "tasks/pushNotificationConfig/set"),
    "POST",
    _CONFIGS,
    required="taskId url",
    required_0_3="taskId pushNotificationConfig",
)
PUSH_GET = _operation(
    "push get",
    ("GetTaskPushNotificationConfig", "tasks/pushNotificationConfig/get"),
    "GET",
    _CONFIGS + "/{cid}",
    required="taskId id",
    required_0_3="id",
)
PUSH_LIST = _operation(
    "push list",
    ("ListTaskPushNotificationConfigs", "tasks/pushNotificationConfig/list"),
    "GET",
    _CONFIGS,
    required="taskId",
    required_0_3="id",
)
PUSH_DELETE = _operation(
    "push delete",
    ("DeleteTaskPushNotificationConfig", "tasks/pushNotificationConfig/delete"),
    "DELETE",
    _CONFIGS + "/{cid}",
    required="taskId id",
    required_0_3="id pushNotificationConfigId",
)
EXTENDED_CARD = _operation(
    "extended card",
    ("GetExtendedAgentCard", "agent/getAuthenticatedExtendedCard"),
    "GET",
    "/extendedAgentCard",
    "/v1/card",
)

OPERATIONS: tuple[Operation, ...] = (
    SEND,
    STREAM,
    GET,
    LIST,
    CANCEL,
    SUBSCRIBE,
    PUSH_CREATE,
    PUSH_GET,
    PUSH_LIST,
    PUSH_DELETE,
    EXTENDED_CARD,
)

CARD_PATHS = ("/.well-known/agent-card.json", "/.well-known/agent.json")
"""Where the card is read with GET and HEAD, in both dialects; the second is an alias."""

BY_NAME: Mapping[str, Operation] = MappingProxyType({operation.name: operation for operation in OPERATIONS})

_BY_METHOD: dict[str, tuple[Operation, Dialect]] = {
    **{operation.method_1_0: (operation, "1.0") for operation in OPERATIONS},
    **{operation.method_0_3: (operation, "0.3") for operation in OPERATIONS if operation.method_0_3},
}
BY_METHOD: Mapping[str, tuple[Operation, Dialect]] = MappingProxyType(_BY_METHOD)
"""JSON-RPC method → its operation and the dialect it belongs to; the two dialects share no name."""
