"""Push configs in every spelling: flat in 1.0, nested in 0.3, and named by a path in 0.3 REST."""

from typing import Literal, TypeAlias

from molecule_wire import JSON, JSONObject
from molecule_wire.a2a import dialects, operations

Spelling: TypeAlias = Literal["1.0", "0.3", "0.3 REST"]

_NESTED = "pushNotificationConfig"


def from_0_3(config: JSONObject) -> JSONObject:
    """What 0.3 calls a push config, as 1.0 writes it."""
    authentication = config.get("authentication")
    if not isinstance(authentication, dict):
        return config
    return {**config, "authentication": dialects.one_scheme(authentication)}


def to_0_3(config: JSONObject) -> JSONObject:
    """The push config inside a 1.0 one, as 0.3 writes it; its task stands beside it there."""
    inner = {name: value for name, value in config.items() if name not in ("taskId", "tenant")}
    authentication = inner.get("authentication")
    if isinstance(authentication, dict):
        inner["authentication"] = dialects.list_of_schemes(authentication)
    return inner


def given(spelling: Spelling, params: JSONObject) -> JSONObject:
    """The config that the params of a create hold, in 1.0."""
    nested = params.get(_NESTED)
    if spelling == "1.0" or not isinstance(nested, dict):
        return params
    return from_0_3(nested)


def config_id(spelling: Spelling, params: JSONObject) -> str | None:
    """Which config the params ask about; None where 0.3 lets it open."""
    name = params.get("id" if spelling == "1.0" else "pushNotificationConfigId")
    return name if isinstance(name, str) and name else None


def shown(spelling: Spelling, config: JSONObject) -> JSONObject:
    """A 1.0 config as the caller reads it."""
    if spelling == "1.0":
        return config
    inner = to_0_3(config)
    if spelling == "0.3":
        return {"taskId": config.get("taskId"), _NESTED: inner}
    return {
        "name": f"tasks/{config.get('taskId')}/pushNotificationConfigs/{config.get('id')}",
        _NESTED: inner,
    }


def listed(spelling: Spelling, configs: list[JSONObject]) -> JSON:
    """All configs of a task; there are few, so there is one page."""
    found: list[JSON] = [shown(spelling, config) for config in configs]
    if spelling == "0.3":
        return found
    return {"configs": found, "nextPageToken": ""} if spelling == "1.0" else {"configs": found}


def deleted(spelling: Spelling) -> JSON:
    """The answer to a delete: nothing, as each spells it."""
    return None if spelling == "0.3" else {}


def of_rest_0_3(task_id: str, body: JSONObject) -> JSONObject:
    """The body of a 0.3 REST create as the params of its JSON-RPC twin."""
    held = body.get("config", body)
    config = held.get(_NESTED) if isinstance(held, dict) else None
    if isinstance(config, dict) and not config.get("id") and isinstance(body.get("configId"), str):
        config = {**config, "id": body["configId"]}
    return {"taskId": task_id, _NESTED: config}


OPERATIONS = frozenset(
    {operations.PUSH_CREATE, operations.PUSH_GET, operations.PUSH_LIST, operations.PUSH_DELETE}
)
