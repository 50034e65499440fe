"""Exceptions of the skill SDK, each with its code of the table in `molecule_wire.errors`.

A class of `PUBLIC` that a handler raises reaches the caller as itself; any other exception is wrapped in
`SkillInvocationError`. `report_of` says how an exception is shown to a caller.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

from molecule_wire import JSON, JSONObject
from molecule_wire import errors as codes

MAX_SENTENCE = 2000
"""Characters of an error text that a caller is shown; the log has all of it."""


class CancelledByCaller(RuntimeError):
    """Cancellation: the caller called the run off. The only argument is the task id."""

    code: ClassVar[str] = "cancelled"


class MissingScopes(PermissionError):
    """Authorisation failure: the caller lacks scopes; `missing` has them in the order they were asked for."""

    code: ClassVar[str] = "missing-scopes"

    def __init__(self, missing: Sequence[str]) -> None:
        self.missing = tuple(missing)
        super().__init__(f"missing scopes: {sorted(self.missing)!r}")

    def __reduce__(self) -> tuple[type["MissingScopes"], tuple[tuple[str, ...]]]:
        return type(self), (self.missing,)


class SkillNotFound(KeyError):
    """The agent has no skill of this name."""

    code: ClassVar[str] = "skill-not-found"

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class SkillInputError(ValueError):
    """Validation failure of the arguments; `errors` lists each place as `{loc, msg, type}`."""

    code: ClassVar[str] = "skill-input-invalid"

    def __init__(self, message: str, errors: Sequence[Mapping[str, Any]] = ()) -> None:
        self.errors: list[dict[str, Any]] = [dict(error) for error in errors]
        super().__init__(message)


class AuthError(Exception):
    """Authentication failure: 401 no valid credential, 403 forbidden, 503 cannot be checked."""

    _CODES: ClassVar[Mapping[int, str]] = {401: "unauthenticated", 403: "forbidden", 503: "auth-unavailable"}

    def __init__(self, message: str, status_code: int = 401) -> None:
        if status_code not in self._CODES:
            raise ValueError(f"an AuthError is one of {sorted(self._CODES)}, not {status_code}")
        self.status_code = status_code
        self.code = self._CODES[status_code]
        super().__init__(message)


class GrantInvalid(PermissionError):
    """A file grant is refused; `code` is one of the `grant-` codes."""

    def __init__(self, code: str, message: str = "") -> None:
        self.code = code
        super().__init__(f"{code}: {message}" if message else code)


class GrantDelegationDenied(PermissionError):
    """A file grant may not be passed on as asked; the text names the field that would widen it."""

    code: ClassVar[str] = "grant-delegation-denied"


class WorkspaceDenied(PermissionError):
    """The workspace's policy or the grant refuses an operation on files."""

    code: ClassVar[str] = "workspace-denied"


class ScopeDenied(PermissionError):
    """A request for more access was denied, or nobody answered it; `reason` says why."""

    code: ClassVar[str] = "scope-denied"

    def __init__(self, reason: str = "") -> None:
        self.reason = reason
        super().__init__(reason or "the request for more access was denied")


class ScopeExpansionNotAllowed(PermissionError):
    """The skill did not opt in with `allow_scope_expansion=True`."""

    code: ClassVar[str] = "scope-expansion-not-allowed"


class Declined(PermissionError):
    """A person declined to answer a question or a form; `reason` is what they said about it."""

    code: ClassVar[str] = "declined"

    def __init__(self, reason: str = "") -> None:
        self.reason = reason
        super().__init__(reason or "the question was declined")


class CapabilityUnavailable(PermissionError):
    """This context cannot do what was asked of it; `member` names the part of `RunContext`."""

    code: ClassVar[str] = "not-implemented"

    def __init__(self, member: str, why: str = "this context does not provide it") -> None:
        self.member = member
        super().__init__(f"ctx.{member} is not available: {why}")


class OverlayConflict(RuntimeError):
    """Optimistic concurrency: `paths` changed since they were staged; nothing was applied."""

    code: ClassVar[str] = "overlay-conflict"

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = tuple(paths)
        super().__init__(f"changed since they were read: {', '.join(self.paths)}; read them again and repeat")


class StateConflict(RuntimeError):
    """Optimistic concurrency: the state was saved by another run since it was loaded."""

    code: ClassVar[str] = "state-conflict"


class SkillTimeout(TimeoutError):
    """The handler ran longer than `timeout_seconds`."""

    code: ClassVar[str] = "skill-timeout"


class InteractionTimeout(TimeoutError):
    """Nobody answered a question or a form in time."""

    code: ClassVar[str] = "interaction-timeout"


class CallTimeout(TimeoutError):
    """A call to another agent took longer than its `timeout`; the remote run was cancelled."""

    code: ClassVar[str] = "call-timeout"


class SandboxUnavailable(RuntimeError):
    """No sandbox can be used, or none that enforces what the caller set."""

    code: ClassVar[str] = "sandbox-unavailable"


class SandboxRuntimeError(RuntimeError):
    """A sandbox failed while it was used."""

    code: ClassVar[str] = "sandbox-error"

    def __init__(
        self, operation: str, backend: str = "", status: int | None = None, detail: str = "", cause: str = ""
    ) -> None:
        self.operation, self.backend, self.status = operation, backend, status
        self.detail, self.cause = detail, cause
        super().__init__(f"sandbox {operation} failed: {detail or cause or 'no detail'}")

    def to_error_payload(self) -> JSONObject:
        """The fields as JSON."""
        return {
            "operation": self.operation,
            "backend": self.backend,
            "status": self.status,
            "detail": self.detail,
            "cause": self.cause,
        }


class SandboxTimeout(SandboxRuntimeError, TimeoutError):
    """A command in a sandbox ran too long and was killed; `result` is what it had written by then."""

    code: ClassVar[str] = "sandbox-timeout"
    result: object = None


class A2AError(RuntimeError):
    """A call to another agent failed; status and code are the callee's, else 502 and `peer-unreachable`."""

    default_code: ClassVar[str] = "peer-unreachable"

    def __init__(
        self,
        message: str = "",
        *,
        url: str = "",
        status_code: int | None = None,
        code: str | None = None,
        detail: str = "",
        body: object = None,
    ) -> None:
        # First: an error of a callee is also of the class that its code names, which would set its own code.
        super().__init__(message or detail or code or self.default_code)
        self.url, self.status_code, self.detail, self.body = url, status_code, detail, body
        self.code = code or self.default_code


class InsufficientBudget(A2AError):
    """The budget of the run does not cover the call."""

    default_code: ClassVar[str] = "budget-exceeded"


class CallLimitExceeded(A2AError):
    """The call would close a cycle, go deeper than 8, or be one too many for the root run."""

    default_code: ClassVar[str] = "delegation-limit"


class RetryableError(RuntimeError):
    """Raised by a handler that may be tried again; `retry_after` is how many seconds to wait first."""

    code: ClassVar[str] = "skill-failed"

    def __init__(self, message: str = "", retry_after: float | None = None) -> None:
        self.retry_after = retry_after
        super().__init__(message)


class SkillInvocationError(RuntimeError):
    """A handler failed; the exception it raised is the cause."""

    default_code: ClassVar[str] = "skill-failed"

    def __init__(self, message: str = "", *, code: str | None = None) -> None:
        self.code = code or self.default_code
        super().__init__(message)


class SkillOutputError(SkillInvocationError):
    """What a handler returned is not what its annotation says, or is larger than 4 MiB."""

    default_code: ClassVar[str] = "skill-output-invalid"

    def __init__(
        self, message: str = "", *, code: str | None = None, errors: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        self.errors: list[dict[str, Any]] = [dict(error) for error in errors]
        super().__init__(message, code=code)


class RunRefused(RuntimeError):
    """The gate, or a view of a run, refuses a request; `code` is one of the table and says the status.

    For the refusals that have no class of their own: `idempotency-conflict`, `agent-busy`, `agent-stopping`,
    `not-found`, `cursor-ahead`, `cursor-lost`, `already-answered`, `interaction-closed`, `answer-invalid`,
    `lease-lost`, `run-interrupted`, `replay-diverged`, `deadline-exceeded`.
    """

    def __init__(self, code: str, message: str, **extras: JSON) -> None:
        self.code = code
        self.extras: JSONObject = extras
        super().__init__(message)


PUBLIC: tuple[type[Exception], ...] = (
    SkillNotFound,
    SkillInputError,
    MissingScopes,
    AuthError,
    GrantInvalid,
    GrantDelegationDenied,
    WorkspaceDenied,
    ScopeDenied,
    ScopeExpansionNotAllowed,
    Declined,
    CapabilityUnavailable,
    OverlayConflict,
    StateConflict,
    CancelledByCaller,
    SkillTimeout,
    InteractionTimeout,
    CallTimeout,
    SandboxUnavailable,
    SandboxRuntimeError,
    A2AError,
    RetryableError,
    SkillInvocationError,
    RunRefused,
)
"""The classes that pass through the engine unwrapped, subclasses included."""


class ErrorReport(NamedTuple):
    """How an exception is shown to a caller; `extras` are members of the body beside the fixed ones."""

    status: int
    code: str
    sentence: str
    extras: JSONObject


def report_of(problem: BaseException) -> ErrorReport:
    """Status, code and text for a caller; of an exception that is not `PUBLIC` only the class is told."""
    if not isinstance(problem, PUBLIC):
        return ErrorReport(500, "skill-failed", type(problem).__name__, {})
    code: str = getattr(problem, "code", "skill-failed")
    sentence = (str(problem) or type(problem).__name__)[:MAX_SENTENCE]
    return ErrorReport(_status_of(problem, code), code, sentence, _extras_of(problem))


def _status_of(problem: Exception, code: str) -> int:
    if isinstance(problem, CancelledByCaller):
        return 499
    if isinstance(problem, A2AError) and type(problem) is A2AError:
        return problem.status_code or 502
    return codes.status_of(code) if codes.is_known(code) else 500


def _extras_of(problem: Exception) -> JSONObject:
    if isinstance(problem, RunRefused):
        return dict(problem.extras)
    if isinstance(problem, MissingScopes):
        return {"missing": list(problem.missing)}
    if isinstance(problem, CapabilityUnavailable):
        return {"member": problem.member}
    if isinstance(problem, RetryableError):
        return {"retryable": True}
    if isinstance(problem, SkillInputError | SkillOutputError) and problem.errors:
        return {"errors": [dict(error) for error in problem.errors]}
    return {}
