"""Conversion between the dialects, on plain objects: 1.0 on one side, 0.3 JSON-RPC or REST on the other.

Integers, unknown members and the presence of members survive. Nothing given is changed. What does not have
the expected shape comes back as it is: refusing is the work of whoever reads the result.
"""

from collections.abc import Mapping

from molecule_wire import JSON, JSONObject
from molecule_wire.a2a import dialects, operations
from molecule_wire.a2a.dialects import Edit


class Converter:
    """One direction of conversion."""

    def __init__(self, rules: dialects.Rules) -> None:
        self._rules = rules
        self._members: Mapping[str, Edit] = {
            "task": self.task,
            "message": self.message,
            "statusUpdate": self.status_update,
            "artifactUpdate": self.artifact_update,
        }

    def part(self, part: JSONObject) -> JSONObject:
        """Convert one part."""
        return self._rules.part(part)

    def message(self, message: JSONObject) -> JSONObject:
        """Convert a message and its parts."""
        converted = _each(_each(message, "parts", self.part), "content", self.part)
        return self._rules.message(_renamed_value(converted, "role", self._rules.roles))

    def status(self, status: JSONObject) -> JSONObject:
        """Convert a task status and its message."""
        return _renamed_value(_one(status, "message", self.message), "state", self._rules.states)

    def artifact(self, artifact: JSONObject) -> JSONObject:
        """Convert an artifact's parts."""
        return _each(artifact, "parts", self.part)

    def task(self, task: JSONObject) -> JSONObject:
        """Convert a task with its status, artifacts and history."""
        converted = _each(_one(task, "status", self.status), "artifacts", self.artifact)
        return self._rules.task(_each(converted, "history", self.message))

    def status_update(self, update: JSONObject) -> JSONObject:
        """Convert what stands in a status update."""
        return self._rules.status_update(_one(update, "status", self.status))

    def artifact_update(self, update: JSONObject) -> JSONObject:
        """Convert what stands in an artifact update."""
        return self._rules.artifact_update(_one(update, "artifact", self.artifact))

    def event(self, event: JSONObject) -> JSONObject:
        """Convert a stream response or send result, wrapped in 1.0 and bare in 0.3 JSON-RPC."""
        name = self._rules.event_name(event)
        if name is None:
            return event
        if self._rules.bare_before:
            return {name: self._members[name](event)}
        converted = _one(event, name, self._members[name])
        body = converted[name]
        return body if self._rules.bare_after and isinstance(body, dict) else converted

    def params(self, operation: operations.Operation | None, params: JSONObject) -> JSONObject:
        """Convert the params of a request; only sending differs between the dialects."""
        if operation not in (operations.SEND, operations.STREAM):
            return params
        return _one(_one(params, "message", self.message), "configuration", self._rules.configuration)

    def result(self, operation: operations.Operation | None, result: JSON) -> JSON:
        """Convert the result of an operation, or one event of a stream."""
        if not isinstance(result, dict):
            return result
        if operation in (operations.GET, operations.CANCEL):
            return self.task(result)
        streams = (operations.SEND, operations.STREAM, operations.SUBSCRIBE)
        return self.event(result) if operation in streams else result


def _one(holder: JSONObject, name: str, edit: Edit) -> JSONObject:
    value = holder.get(name)
    return {**holder, name: edit(value)} if isinstance(value, dict) else holder


def _each(holder: JSONObject, name: str, edit: Edit) -> JSONObject:
    values = holder.get(name)
    if not isinstance(values, list):
        return holder
    return {**holder, name: [edit(value) if isinstance(value, dict) else value for value in values]}


def _renamed_value(holder: JSONObject, name: str, values: Mapping[str, str]) -> JSONObject:
    value = holder.get(name)
    return {**holder, name: values[value]} if isinstance(value, str) and value in values else holder


FROM_0_3 = Converter(dialects.FROM_0_3)
"""0.3 JSON-RPC → 1.0; parts may also be written `type` or as in 1.0."""

TO_0_3 = Converter(dialects.TO_0_3)
"""1.0 → 0.3 JSON-RPC."""

FROM_0_3_REST = Converter(dialects.FROM_0_3_REST)
"""0.3 REST → 1.0."""

TO_0_3_REST = Converter(dialects.TO_0_3_REST)
"""1.0 → 0.3 REST."""


def between(source: operations.Dialect, target: operations.Dialect) -> Converter | None:
    """The JSON-RPC conversion from one dialect to the other, None where they are the same."""
    if source == target:
        return None
    return FROM_0_3 if source == "0.3" else TO_0_3
