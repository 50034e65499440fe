"""Everything the SDK raises, sorted by who must act.

MoleculeError
├─ ConfigurationError(ValueError)                        the program
├─ AmbiguousPeerError(ValueError)
├─ NeedInput, Fail                                       the sender of a message; raised by its handler
├─ PlatformUnreachableError(requests.ConnectionError)    the network
├─ PlatformTimeoutError(requests.Timeout)
├─ TokenStoreError(OSError)                              the machine
├─ A2AError                                              the peer answered with an error
├─ CallerAssertionError                                  somebody who is not the platform called the agent
├─ PluginError                                           the plugin
│  ├─ PluginNameError(ValueError), UnsafeArchiveError(ValueError), PluginManifestError(ValueError)
│  └─ PluginIntegrityError(ValueError)
│     └─ SHA256MismatchError, PluginSignatureError, PluginRevokedError, LockMismatchError
└─ ApiError(requests.HTTPError)                          the platform refused; one subclass per status,
                                                         below it one per code that needs its own
"""

from collections.abc import Generator
from contextlib import contextmanager

import requests

from molecule_wire import JSON, JSONObject, exceptions
from molecule_wire import errors as wire_errors
from molecule_wire.calls import values

MoleculeError = exceptions.MoleculeError
NeedInput = exceptions.NeedInput
Fail = exceptions.Fail
PluginError = exceptions.PluginError
PluginNameError = exceptions.PluginNameError
UnsafeArchiveError = exceptions.UnsafeArchiveError
PluginManifestError = exceptions.PluginManifestError
PluginIntegrityError = exceptions.PluginIntegrityError
SHA256MismatchError = exceptions.SHA256MismatchError
PluginSignatureError = exceptions.PluginSignatureError
PluginRevokedError = exceptions.PluginRevokedError
LockMismatchError = exceptions.LockMismatchError


class ConfigurationError(MoleculeError, ValueError):
    """An argument or a setting cannot work; the text says which and what to write instead."""


class AmbiguousPeerError(MoleculeError, ValueError):
    """Several peers bear the name given; the text lists their ids and paths."""


class PlatformUnreachableError(MoleculeError, requests.ConnectionError):
    """No connection to the platform; check its address and whether it runs."""


class PlatformTimeoutError(MoleculeError, requests.Timeout):
    """The platform did not answer in time; the call may or may not have had its effect."""


class _ConnectTimeoutError(PlatformTimeoutError, PlatformUnreachableError):
    """Both at once, as `requests.ConnectTimeout` is."""


class TokenStoreError(MoleculeError, OSError):
    """The directory with the agent's token cannot be used."""


class A2AError(MoleculeError):
    """A peer answered with a JSON-RPC error, or its task ended without an answer."""

    def __init__(self, code: int, message: str, data: JSON = None) -> None:
        self.code = code
        self.message = message
        self.data = data
        super().__init__(f"{code}: {message}")


class CallerAssertionError(MoleculeError):
    """A request to the agent does not prove that it comes from the platform."""


class ApiError(MoleculeError, requests.HTTPError):
    """The platform refused a call; `code` is a name of `molecule_wire.errors.TABLE`, or empty."""

    def __init__(
        self,
        message: str = "",
        *,
        status: int = 0,
        code: str = "",
        request_id: str = "",
        retry_after: float | None = None,
        extras: JSONObject | None = None,
        response: requests.Response | None = None,
    ) -> None:
        self.status = status
        self.code = code
        self.message = message
        self.request_id = request_id
        self.retry_after = retry_after
        self.extras: JSONObject = extras or {}
        text = values.sentence(status, code, message, request_id) if status else message
        super().__init__(text, response=response)


class BadRequestError(ApiError):
    """400."""


class AuthenticationError(ApiError):
    """401: no usable credential."""


class TokenRejectedError(AuthenticationError):
    """The token is unknown, expired or revoked."""


class EnrolmentError(AuthenticationError):
    """The enrolment token or recovery secret was refused."""


class BudgetExceededError(ApiError):
    """402."""


class PermissionDeniedError(ApiError):
    """403: a valid credential that may not do this."""


class AccessDeniedError(PermissionDeniedError):
    """The org tree does not let this workspace call that one."""


class ScopeError(PermissionDeniedError):
    """The credential lacks a scope."""


class IdentityError(PermissionDeniedError):
    """The request named another workspace than its credential."""


class PluginNotAllowedError(PermissionDeniedError):
    """The organisation does not allow this plugin."""


class NotFoundError(ApiError):
    """404."""


class ConflictError(ApiError):
    """409."""


class IdempotencyConflictError(ConflictError):
    """The same idempotency key was used with another body."""


class LeaseLostError(ConflictError):
    """The lease on a message has ended; somebody else may have it now."""


class DelegationLimitError(ConflictError):
    """A delegation would be too deep, too many, or a circle."""


class GoneError(ApiError):
    """410."""


class CursorLostError(GoneError):
    """The platform no longer knows the cursor; start again without one."""


class WorkspaceRemovedError(GoneError):
    """The workspace was deleted."""


class PreconditionError(ApiError):
    """412."""


class PayloadTooLargeError(ApiError):
    """413."""


class UnsupportedMediaTypeError(ApiError):
    """415."""


class UnprocessableError(ApiError):
    """422."""


class PluginRejectedError(UnprocessableError):
    """The platform will not serve or install this plugin."""


class RateLimitedError(ApiError):
    """429."""


class ServerError(ApiError):
    """Any other 5xx."""


class UpstreamError(ApiError):
    """502: the peer could not be reached or answered nonsense."""


class UnavailableError(ApiError):
    """503."""


class PeerWakingError(UnavailableError):
    """The peer is being started."""


class PeerBusyError(UnavailableError):
    """The peer is at its capacity."""


class MailboxFullError(UnavailableError):
    """The peer has too many open messages."""


class DeadlineExceededError(ApiError):
    """504, or the SDK's own wait ended."""


def from_failure(failure: values.CallFailed, response: requests.Response | None) -> ApiError:
    """Make the error of section 13 for a refused call."""
    name = wire_errors.class_for(failure.status, failure.code)
    found = globals().get(name, ApiError)
    chosen: type[ApiError] = found if isinstance(found, type) and issubclass(found, ApiError) else ApiError
    return chosen(
        failure.message,
        status=failure.status,
        code=failure.code,
        request_id=failure.request_id,
        retry_after=failure.retry_after,
        extras=failure.extras,
        response=response,
    )


def with_advice(error: ApiError, advice: str) -> ApiError:
    """The same error, whose text also says what to do next."""
    return type(error)(
        f"{error.message}; {advice}" if error.message else advice,
        status=error.status,
        code=error.code,
        request_id=error.request_id,
        retry_after=error.retry_after,
        extras=error.extras,
        response=error.response,
    )


@contextmanager
def translated() -> Generator[None]:
    """Turn what `requests` raises inside into the SDK's own errors."""
    try:
        yield
    except requests.RequestException as error:
        ours = from_transport(error)
        if ours is error:
            raise
        raise ours from error


def from_transport(error: requests.RequestException) -> requests.RequestException:
    """Translate what `requests` raises when there is no answer; anything unknown stays as it is."""
    if isinstance(error, MoleculeError):
        return error
    for kind, ours in _TRANSPORT:
        if isinstance(error, kind):
            return ours(str(error), request=error.request, response=error.response)
    return error


_TRANSPORT: tuple[tuple[type[requests.RequestException], type[requests.RequestException]], ...] = (
    (requests.exceptions.ConnectTimeout, _ConnectTimeoutError),
    (requests.Timeout, PlatformTimeoutError),
    (requests.ConnectionError, PlatformUnreachableError),
    (requests.exceptions.ChunkedEncodingError, PlatformUnreachableError),
)
