"""Projection of a run onto its A2A task: each event of the run becomes the frames that A2A has for it.

What a run told is in its store, so the same events give the same frames with the same numbers, also in a
later process.
"""

from datetime import UTC, datetime
from typing import Any, cast
from urllib.parse import quote

from molecule_skill.events import RESERVED_KINDS
from molecule_skill.serve import shapes
from molecule_skill.store.records import ArtifactRecord, RunRecord, RunState, StoredEvent
from molecule_wire import JSON, JSONObject
from molecule_wire.a2a import tasks
from molecule_wire.a2a.server.task_log import TaskLog
from molecule_wire.a2a.server.turns import Turn, new_status
from molecule_wire.a2a.tasks import TaskState

RESULT = "result"
ASKING = frozenset({"question", "input_request", "scope_request"})
"""Events with which a run waits for somebody."""


def _now() -> datetime:
    return datetime.now(UTC)


class Projection:
    """Writes the events of one run into the log of its task.

    `turn` is the message at work. Once its outcome is told, what the run says next, because somebody
    answered by another way, is told without one.
    """

    def __init__(self, log: TaskLog, base_url: str, turn: Turn | None = None) -> None:
        self.log = log
        self.turn = turn
        self.seq = 0
        """The number of the newest event of the run that was told."""
        self._base_url = base_url
        self._attempt = 1
        self._text_open = False

    @property
    def waits(self) -> bool:
        """Whether the task waits for its caller."""
        return self.log.waits

    def apply(self, event: StoredEvent) -> None:
        """Tell one event."""
        self.seq = event.seq
        kind, payload = event.kind, event.payload
        if kind == "run_finished" or self.log.is_over:
            return
        if kind == "run_started":
            self._status(at=event.at)
        elif kind == "progress":
            self._status(_text_parts(payload.get("message")), at=event.at)
        elif kind == "text_delta":
            self._delta(str(payload.get("text", "")))
        elif kind == "artifact":
            self._file(payload)
        elif kind in ASKING:
            self._ask(kind, payload)
        elif kind == "interaction_closed":
            self._go_on(event.at)
        elif kind == "retry":
            self._close_text()
            self._attempt += 1
        elif kind not in RESERVED_KINDS:
            metadata: JSONObject = {"molecule.event": {"kind": kind, "payload": payload}}
            self._status(metadata=metadata, at=event.at)

    def finish(self, record: RunRecord, artifacts: list[ArtifactRecord]) -> None:
        """Tell how the run ended."""
        if self.log.is_over:
            return
        self._close_text()
        artifact_ids = {str(one.get("artifactId")) for one in _objects(self.log.whole.get("artifacts"))}
        for written in artifacts:
            if written.name not in artifact_ids:
                self._file(shapes.artifact(record.run_id, written))
        turn = self._speaker()
        if record.state is RunState.SUCCEEDED:
            part: JSONObject = (
                {"text": record.result} if isinstance(record.result, str) else {"data": record.result}
            )
            turn.artifact({"artifactId": RESULT, "name": RESULT, "parts": [part]}, last=True)
            turn.complete()
        elif record.state is RunState.CANCELLED:
            turn.cancel()
        else:
            failed = record.failure
            assert failed is not None
            turn.fail(
                failed.error or failed.code,
                metadata=failure_metadata(failed.code, failed.status, failed.extras),
            )

    def _speaker(self) -> Turn:
        if self.turn is None or self.turn.is_over:
            self.turn = Turn(self.log, {}, _now)
        return self.turn

    def _status(
        self, parts: list[JSON] | None = None, *, metadata: JSONObject | None = None, at: float
    ) -> None:
        status = new_status(TaskState.WORKING, datetime.fromtimestamp(at, UTC))
        if parts:
            status["message"] = {
                "messageId": f"{self.log.id}-{self.log.number + 1}",
                "role": "ROLE_AGENT",
                "parts": parts,
                "taskId": self.log.id,
                "contextId": self.log.context_id,
            }
        self.log.tell_status(status, metadata)

    def _delta(self, text: str) -> None:
        artifact: JSONObject = {"artifactId": f"text-{self._attempt}", "parts": [{"text": text}]}
        self._speaker().artifact(artifact, append=self._text_open)
        self._text_open = True

    def _close_text(self) -> None:
        """Say which chunk was the last; that is known only once something else comes."""
        if self._text_open:
            artifact: JSONObject = {"artifactId": f"text-{self._attempt}", "parts": [{"text": ""}]}
            self._speaker().artifact(artifact, append=True, last=True)
            self._text_open = False

    def _file(self, payload: JSONObject) -> None:
        name = str(payload.get("name", ""))
        uri = str(payload.get("uri", ""))
        if uri == shapes.artifact_uri(self.log.id, name):
            uri = f"{self._base_url}/runs/{self.log.id}/artifacts/{quote(name)}"
        part: JSONObject = {"url": uri, "filename": name}
        if isinstance(payload.get("mime_type"), str):
            part["mediaType"] = payload["mime_type"]
        self._speaker().artifact({"artifactId": name, "name": name, "parts": [part]}, last=True)

    def _ask(self, kind: str, payload: JSONObject) -> None:
        prompt = payload.get("prompt") or payload.get("title") or payload.get("reason") or "input is needed"
        parts: list[JSON] = [{"text": str(prompt)}, {"data": {"kind": kind, **payload}}]
        self._speaker().ask(parts, for_authentication=kind == "scope_request")

    def _go_on(self, at: float) -> None:
        """An interaction is closed: by the next message of the task, which told so, or in another way."""
        if self.log.waits:
            status = new_status(TaskState.SUBMITTED, datetime.fromtimestamp(at, UTC))
            question = self.log.status.get("message")
            history = [
                *_objects(self.log.whole.get("history")),
                *([question] if isinstance(question, dict) else []),
            ]
            whole: JSONObject = {**self.log.whole, "status": status, "history": list[JSON](history)}
            self.log.append({"task": whole})
        self._status(at=at)


def begun(record: RunRecord, log: TaskLog) -> JSONObject:
    """The first event of the task of a run: with its message, or one that asks for the same."""
    kept = (record.new.origin or {}).get("message")
    data: JSONObject = {"skill": record.new.skill, "arguments": record.new.arguments}
    like: JSONObject = {"messageId": f"{record.run_id}-0", "role": "ROLE_USER", "parts": [{"data": data}]}
    message = kept if isinstance(kept, dict) else like
    status = new_status(TaskState.SUBMITTED, datetime.fromtimestamp(record.new.created_at, UTC))
    return {"task": tasks.begun(log.id, log.context_id, message, status)}


def failure_metadata(code: str, status: int, extras: JSONObject) -> JSONObject:
    """What is said of a failure beside its text."""
    return {"code": code, "molecule": {**extras, "code": code, "status": status}}


def _text_parts(value: JSON) -> list[JSON]:
    return [{"text": value}] if isinstance(value, str) and value else []


def _objects(value: Any) -> list[JSONObject]:
    if not isinstance(value, list):
        return []
    return [cast("JSONObject", one) for one in cast("list[Any]", value) if isinstance(one, dict)]
