"""What differs between the dialects, as data: one set of rules for each direction of conversion."""

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from molecule_wire import JSON, JSONObject
from molecule_wire.a2a import parts, tasks

Edit: TypeAlias = Callable[[JSONObject], JSONObject]

ROLES_TO_0_3: Mapping[str, str] = {"ROLE_USER": "user", "ROLE_AGENT": "agent"}
STATES_TO_0_3: Mapping[str, str] = {
    state.value: state.value.removeprefix("TASK_STATE_").lower().replace("_", "-") for state in tasks.STATES
} | {tasks.TaskState.UNSPECIFIED.value: "unknown"}
STATES_TO_0_3_REST: Mapping[str, str] = {tasks.TaskState.CANCELED.value: "TASK_STATE_CANCELLED"}

_EVENT_BY_KIND: Mapping[str, str] = {
    "task": "task",
    "message": "message",
    "status-update": "statusUpdate",
    "artifact-update": "artifactUpdate",
}
_SETTLED_1_0 = {state.value for state in tasks.TERMINAL | tasks.INTERRUPTED}
_SETTLED = _SETTLED_1_0 | {STATES_TO_0_3[state] for state in _SETTLED_1_0} | {*STATES_TO_0_3_REST.values()}


class Rules(NamedTuple):
    """What one direction does to an object, once everything inside the object is converted.

    `event_name` tells which member of a 1.0 stream response an event is, None for none of them.
    """

    part: Edit
    roles: Mapping[str, str]
    states: Mapping[str, str]
    message: Edit
    task: Edit
    status_update: Edit
    artifact_update: Edit
    configuration: Edit
    event_name: Callable[[JSONObject], str | None]
    bare_before: bool = False
    bare_after: bool = False


def _unchanged(holder: JSONObject) -> JSONObject:
    return holder


def _without(*names: str) -> Edit:
    return lambda holder: {name: value for name, value in holder.items() if name not in names}


def _with_kind(kind: str) -> Edit:
    return lambda holder: {**holder, "kind": kind}


def _renaming(old: str, new: str) -> Edit:
    return lambda holder: {new if name == old else name: value for name, value in holder.items()}


def _with_final(update: JSONObject) -> JSONObject:
    status = update.get("status")
    state = status.get("state") if isinstance(status, dict) else None
    return {**update, "final": isinstance(state, str) and state in _SETTLED}


def _with_kind_and_final(update: JSONObject) -> JSONObject:
    return {**_with_final(update), "kind": "status-update"}


def _wrapped_name(event: JSONObject) -> str | None:
    return next((name for name in _EVENT_BY_KIND.values() if isinstance(event.get(name), dict)), None)


def _bare_name(event: JSONObject) -> str | None:
    """0.3 says `kind`; an agent that forgot it is understood by its members."""
    kind = event.get("kind")
    if isinstance(kind, str):
        return _EVENT_BY_KIND.get(kind)
    if "status" in event:
        return "statusUpdate" if "taskId" in event else "task"
    if "artifact" in event:
        return "artifactUpdate"
    return "message" if "parts" in event else None


def _configuration_from(push_name: str) -> Edit:
    def edit(configuration: JSONObject) -> JSONObject:
        renamed = _flipped(configuration, "blocking", "returnImmediately")
        renamed = _renaming(push_name, "taskPushNotificationConfig")(renamed)
        return _with_authentication(renamed, "taskPushNotificationConfig", one_scheme)

    return edit


def _configuration_to(push_name: str) -> Edit:
    def edit(configuration: JSONObject) -> JSONObject:
        renamed = _flipped(configuration, "returnImmediately", "blocking")
        renamed = _renaming("taskPushNotificationConfig", push_name)(renamed)
        return _with_authentication(renamed, push_name, list_of_schemes)

    return edit


def _flipped(holder: JSONObject, old: str, new: str) -> JSONObject:
    value = holder.get(old)
    return _renaming(old, new)({**holder, old: not value}) if isinstance(value, bool) else holder


def _with_authentication(configuration: JSONObject, name: str, edit: Edit) -> JSONObject:
    push = configuration.get(name)
    authentication = push.get("authentication") if isinstance(push, dict) else None
    if not isinstance(push, dict) or not isinstance(authentication, dict):
        return configuration
    return {**configuration, name: {**push, "authentication": edit(authentication)}}


def one_scheme(authentication: JSONObject) -> JSONObject:
    """1.0 knows one scheme; a 0.3 list of several keeps its name, so that nothing is lost."""
    match authentication.get("schemes"):
        case [scheme]:
            return _renaming("schemes", "scheme")({**authentication, "schemes": scheme})
        case _:
            return authentication


def list_of_schemes(authentication: JSONObject) -> JSONObject:
    """0.3 lists schemes, 1.0 names one."""
    if "scheme" not in authentication:
        return authentication
    schemes: JSON = [authentication["scheme"]]
    return _renaming("scheme", "schemes")({**authentication, "scheme": schemes})


def _inverse(values: Mapping[str, str]) -> Mapping[str, str]:
    return {new: old for old, new in values.items()}


_STATES_FROM_0_3 = {**_inverse(STATES_TO_0_3), **_inverse(STATES_TO_0_3_REST)}

FROM_0_3 = Rules(
    part=parts.from_0_3,
    roles=_inverse(ROLES_TO_0_3),
    states=_STATES_FROM_0_3,
    message=_without("kind"),
    task=_without("kind"),
    status_update=_without("kind", "final"),
    artifact_update=_without("kind"),
    configuration=_configuration_from("pushNotificationConfig"),
    event_name=_bare_name,
    bare_before=True,
)
TO_0_3 = Rules(
    part=parts.to_0_3,
    roles=ROLES_TO_0_3,
    states=STATES_TO_0_3,
    message=_with_kind("message"),
    task=_with_kind("task"),
    status_update=_with_kind_and_final,
    artifact_update=_with_kind("artifact-update"),
    configuration=_configuration_to("pushNotificationConfig"),
    event_name=_wrapped_name,
    bare_after=True,
)
FROM_0_3_REST = Rules(
    part=parts.from_0_3_rest,
    roles=_inverse(ROLES_TO_0_3),
    states=_STATES_FROM_0_3,
    message=_renaming("content", "parts"),
    task=_unchanged,
    status_update=_without("final"),
    artifact_update=_unchanged,
    configuration=_configuration_from("pushNotification"),
    event_name=_wrapped_name,
)
TO_0_3_REST = Rules(
    part=parts.to_0_3_rest,
    roles={},
    states=STATES_TO_0_3_REST,
    message=_renaming("parts", "content"),
    task=_unchanged,
    status_update=_with_final,
    artifact_update=_unchanged,
    configuration=_configuration_to("pushNotification"),
    event_name=_wrapped_name,
)
