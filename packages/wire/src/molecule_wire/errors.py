"""Every error code of the platform, once: the platform answers from this table and its clients raise from it.

A code says what happened, its status how a plain HTTP client sees it, its class name what the SDK raises,
and `retryable` whether the same request, repeated later and unchanged, may succeed.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from molecule_wire import JSON, JSONObject


class ErrorCode(NamedTuple):
    """What belongs to one error code."""

    status: int
    class_name: str
    retryable: bool


CODES_BY_STATUS: Mapping[int, str] = MappingProxyType(
    {
        400: "invalid-json invalid-request invalid-id invalid-url invalid-cron invalid-timezone"
        " skill-input-invalid image-not-allowed",
        401: "unauthenticated invalid-token token-revoked token-expired invalid-signature enrolment-invalid"
        " caller-unverified caller-assertion-invalid",
        402: "budget-exceeded",
        403: "hierarchy-denied scope-required identity-mismatch forged-identity csrf self-approval"
        " plugin-not-allowed plugin-signature-required forbidden missing-scopes workspace-denied"
        " scope-denied scope-expansion-not-allowed declined grant-malformed grant-unknown-key"
        " grant-bad-signature grant-expired grant-not-yet-valid grant-wrong-audience grant-revoked"
        " grant-wrong-run grant-bad-pattern grant-delegation-denied",
        404: "not-found workspace-not-found message-not-found delegation-not-found skill-not-found",
        405: "method-not-allowed",
        409: "conflict idempotency-conflict confirmation-required version-conflict lease-lost not-cancelable"
        " parent-paused busy parent-cycle delegation-limit already-exists plugin-lock-mismatch"
        " overlay-conflict state-conflict already-answered cursor-ahead",
        410: "workspace-removed cursor-lost interaction-closed",
        412: "missing-env",
        413: "payload-too-large",
        415: "unsupported-media-type",
        421: "misdirected-request",
        422: "plugin-source-unpinned plugin-integrity plugin-signature-invalid plugin-revoked"
        " plugin-manifest-invalid unsafe-archive answer-invalid",
        429: "rate-limited token-limit channel-budget",
        499: "cancelled",
        500: "internal auth-model-mismatch skill-failed skill-output-invalid result-too-large"
        " state-incompatible",
        501: "not-implemented",
        502: "peer-unreachable invalid-agent-response unsafe-url fetch-failed sandbox-error",
        503: "platform-unavailable peer-busy peer-waking peer-unavailable mailbox-full no-provisioner"
        " auth-unavailable sandbox-unavailable agent-busy agent-stopping",
        504: "deadline-exceeded skill-timeout interaction-timeout call-timeout sandbox-timeout",
    }
)

CLASS_BY_STATUS: Mapping[int, str] = MappingProxyType(
    {
        400: "BadRequestError",
        401: "AuthenticationError",
        402: "BudgetExceededError",
        403: "PermissionDeniedError",
        404: "NotFoundError",
        409: "ConflictError",
        410: "GoneError",
        412: "PreconditionError",
        413: "PayloadTooLargeError",
        415: "UnsupportedMediaTypeError",
        421: "BadRequestError",
        422: "UnprocessableError",
        429: "RateLimitedError",
        502: "UpstreamError",
        503: "UnavailableError",
        504: "DeadlineExceededError",
    }
)

CLASS_BY_CODE: Mapping[str, str] = MappingProxyType(
    {
        "token-expired": "TokenRejectedError",
        "token-revoked": "TokenRejectedError",
        "invalid-token": "TokenRejectedError",
        "enrolment-invalid": "EnrolmentError",
        "hierarchy-denied": "AccessDeniedError",
        "scope-required": "ScopeError",
        "identity-mismatch": "IdentityError",
        "forged-identity": "IdentityError",
        "plugin-not-allowed": "PluginNotAllowedError",
        "idempotency-conflict": "IdempotencyConflictError",
        "lease-lost": "LeaseLostError",
        "delegation-limit": "DelegationLimitError",
        "cursor-lost": "CursorLostError",
        "workspace-removed": "WorkspaceRemovedError",
        "unsafe-archive": "PluginRejectedError",
        "peer-waking": "PeerWakingError",
        "peer-busy": "PeerBusyError",
        "mailbox-full": "MailboxFullError",
    }
)

SKILL_CLASS_BY_CODE: Mapping[str, str] = MappingProxyType(
    {
        "skill-not-found": "SkillNotFound",
        "skill-input-invalid": "SkillInputError",
        "missing-scopes": "MissingScopes",
        "unauthenticated": "AuthError",
        "forbidden": "AuthError",
        "auth-unavailable": "AuthError",
        "grant-malformed": "GrantInvalid",
        "grant-unknown-key": "GrantInvalid",
        "grant-bad-signature": "GrantInvalid",
        "grant-expired": "GrantInvalid",
        "grant-not-yet-valid": "GrantInvalid",
        "grant-wrong-audience": "GrantInvalid",
        "grant-revoked": "GrantInvalid",
        "grant-wrong-run": "GrantInvalid",
        "grant-bad-pattern": "GrantInvalid",
        "grant-delegation-denied": "GrantDelegationDenied",
        "workspace-denied": "WorkspaceDenied",
        "scope-denied": "ScopeDenied",
        "scope-expansion-not-allowed": "ScopeExpansionNotAllowed",
        "declined": "Declined",
        "not-implemented": "CapabilityUnavailable",
        "overlay-conflict": "OverlayConflict",
        "state-conflict": "StateConflict",
        "cancelled": "CancelledByCaller",
        "skill-timeout": "SkillTimeout",
        "interaction-timeout": "InteractionTimeout",
        "call-timeout": "CallTimeout",
        "sandbox-unavailable": "SandboxUnavailable",
        "sandbox-error": "SandboxRuntimeError",
        "sandbox-timeout": "SandboxTimeout",
        "peer-unreachable": "A2AError",
        "budget-exceeded": "InsufficientBudget",
        "delegation-limit": "CallLimitExceeded",
        "skill-output-invalid": "SkillOutputError",
        "result-too-large": "SkillOutputError",
        "skill-failed": "SkillInvocationError",
        "auth-model-mismatch": "SkillInvocationError",
        "state-incompatible": "SkillInvocationError",
    }
)
"""The class of the skill SDK for a code; the clients of skills raise it, so that a callee's error is the same
class on both sides."""

RETRYABLE_CODES = frozenset(
    {
        "rate-limited",
        "token-limit",
        "channel-budget",
        "peer-unreachable",
        "fetch-failed",
        "platform-unavailable",
        "peer-busy",
        "peer-waking",
        "peer-unavailable",
        "mailbox-full",
        "auth-unavailable",
        "sandbox-unavailable",
        "agent-busy",
        "agent-stopping",
    }
)

_OF_CREDENTIALS = 401
_STATUS_OF_OUTCOME: Mapping[str, int] = MappingProxyType(
    {
        "no-reply": 504,
        "wake-failed": 503,
        "released-too-often": 502,
        "turn-timeout": 504,
        "turn-stalled": 504,
        "run-interrupted": 500,
        "replay-diverged": 500,
    }
)
OUTCOME_CODES = frozenset(_STATUS_OF_OUTCOME)
"""How a message, delegation or run may end besides the codes of `TABLE`; none is a status of its own."""
# 499 stands in bodies only: no answer has it.
_TOLD_WITH: Mapping[str, int] = MappingProxyType({**_STATUS_OF_OUTCOME, "cancelled": 409})


def is_known(code: str) -> bool:
    """Whether a code is one of the tables."""
    return code in TABLE or code in OUTCOME_CODES


def status_of(code: str) -> int:
    """The HTTP status with which somebody is told of a code. Raises KeyError for one that nobody knows."""
    return _TOLD_WITH[code] if code in _TOLD_WITH else TABLE[code].status


def of_agent(code: str | None) -> str:
    """What an agent says of its work: any code there is, but none about the credential of its sender.

    A sender that believed such a one would throw its own credential away.
    """
    is_its = code is not None and is_known(code) and status_of(code) != _OF_CREDENTIALS
    return code if code is not None and is_its else "skill-failed"


def class_for(status: int, code: str | None) -> str:
    """Name the class the SDK raises for an answer; a code it does not know is judged by the status."""
    if code is not None and code in TABLE:
        return TABLE[code].class_name
    return _class_named(status, code or "")


def body(code: str, sentence: str, request_id: str, /, **extras: JSON) -> JSONObject:
    """Make the body of a REST error; `extras` never replace the three members that every error has."""
    if code not in TABLE:
        raise ValueError(f"{code!r} is no error code: add it to molecule_wire.errors")
    return {"error": sentence, "code": code, "request_id": request_id} | _without_fixed(extras)


def _without_fixed(extras: JSONObject) -> JSONObject:
    return {name: value for name, value in extras.items() if name not in ("error", "code", "request_id")}


def _class_named(status: int, code: str) -> str:
    if code in CLASS_BY_CODE:
        return CLASS_BY_CODE[code]
    if code.startswith("plugin-"):
        return "PluginRejectedError"
    if status in CLASS_BY_STATUS:
        return CLASS_BY_STATUS[status]
    return "ServerError" if status in range(500, 600) else "ApiError"


def _table() -> dict[str, ErrorCode]:
    return {
        code: ErrorCode(status, _class_named(status, code), code in RETRYABLE_CODES)
        for status, codes in CODES_BY_STATUS.items()
        for code in codes.split()
    }


TABLE: Mapping[str, ErrorCode] = MappingProxyType(_table())
