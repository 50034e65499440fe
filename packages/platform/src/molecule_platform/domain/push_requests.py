"""A push config as a client registers it, in 1.0 shape, and the headers that tell of an event."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from molecule_platform.domain import push
from molecule_platform.domain.push import Notification, PushConfig
from molecule_wire import JSON, JSONObject, jsontext
from molecule_wire.a2a import errors, rest
from molecule_wire.a2a.errors import Violation
from molecule_wire.a2a.operations import Dialect

MOST_BYTES = 16 * 1024
MAX_ID_LENGTH = 256
MAX_SECRET_LENGTH = 4096

_SCHEME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,64}")
_IN_A_HEADER = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_OURS = frozenset({"id", "taskId", "tenant", "url"})
_SECRET = ("token", "authentication")
_MEDIA_TYPES: dict[Dialect, str] = {"1.0": rest.A2A_MEDIA, "0.3": rest.JSON_MEDIA}


@dataclass(frozen=True)
class PushConfigRequest:
    """A config that was read: its parts as they are kept. `secret` is sealed before anything stores it."""

    url: str
    config_id: str
    secret: JSONObject = field(repr=False)
    more: JSONObject


def read(given: JSONObject) -> PushConfigRequest:
    """Read what a client registers. Raises -32602 with every member that is missing or wrong."""
    wrong = tuple(_violations(given))
    if wrong:
        raise errors.invalid_params(*wrong)
    secret = {name: given[name] for name in _SECRET if _is_given(given.get(name))}
    more = {name: value for name, value in given.items() if name not in _OURS and name not in _SECRET}
    return PushConfigRequest(str(given["url"]), str(given.get("id") or ""), secret, more)


def bad_url(sentence: str) -> errors.A2AError:
    """The -32602 for a URL that may not be called."""
    return errors.invalid_params(Violation("url", sentence))


def public_row(config: PushConfig, secret: JSONObject) -> JSONObject:
    """The config as its creator registered it."""
    tenant: JSONObject = {"tenant": config.tenant} if config.tenant else {}
    named: JSONObject = {"id": config.config_id, "taskId": config.task_id, "url": config.url}
    return {**config.config, **tenant, **named, **secret}


def secret_of(config: PushConfig, open_sealed: Callable[[str, str], str]) -> JSONObject:
    """Token and credentials of a config. Raises what `open_sealed` does when they cannot be opened."""
    if config.secret_sealed is None:
        return {}
    secret = jsontext.decode(open_sealed(config.secret_sealed, push.seal_context(config.id)).encode())
    return secret if isinstance(secret, dict) else {}


def headers(notification: Notification, dialect: Dialect, secret: JSONObject) -> dict[str, str]:
    """What goes with the body of a notification."""
    written = {
        "Content-Type": _MEDIA_TYPES[dialect],
        "A2A-Version": dialect,
        "X-Molecule-Delivery": notification.id,
        "X-Molecule-Sequence": str(notification.seq),
    }
    token, authentication = secret.get("token"), secret.get("authentication")
    if isinstance(token, str):
        written["X-A2A-Notification-Token"] = token
    if isinstance(authentication, dict):
        scheme, credentials = _scheme(authentication), authentication.get("credentials")
        if isinstance(scheme, str) and isinstance(credentials, str) and credentials:
            written["Authorization"] = f"{scheme} {credentials}"
    return written


def _violations(given: JSONObject) -> Iterator[Violation]:
    yield from _url(given.get("url"))
    name = given.get("id")
    if _is_given(name) and not _is_text(name, MAX_ID_LENGTH):
        yield Violation("id", f"must be a string of at most {MAX_ID_LENGTH} characters, without NUL or slash")
    token = given.get("token")
    if _is_given(token) and not _fits_a_header(token):
        yield Violation("token", f"must be visible ASCII of at most {MAX_SECRET_LENGTH} characters")
    yield from _authentication(given.get("authentication"))
    if len(jsontext.encode(given)) > MOST_BYTES:
        yield Violation("", f"a push config has at most {MOST_BYTES} bytes")


def _url(url: JSON) -> Iterator[Violation]:
    if not _is_given(url):
        yield Violation("url", "is required")
    elif not isinstance(url, str):
        yield Violation("url", "must be a string")


def _authentication(given: JSON) -> Iterator[Violation]:
    if not _is_given(given):
        return
    if not isinstance(given, dict):
        yield Violation("authentication", "must be an object")
        return
    scheme, credentials = _scheme(given), given.get("credentials")
    if not isinstance(scheme, str) or not _SCHEME.fullmatch(scheme):
        yield Violation("authentication.scheme", "must be the name of an HTTP authentication scheme")
    if _is_given(credentials) and not _fits_a_header(credentials):
        description = f"must be visible ASCII of at most {MAX_SECRET_LENGTH} characters"
        yield Violation("authentication.credentials", description)


def _scheme(authentication: JSONObject) -> JSON:
    """1.0 names one scheme; of a 0.3 list the first counts."""
    schemes = authentication.get("schemes")
    return schemes[0] if isinstance(schemes, list) and schemes else authentication.get("scheme")


def _is_given(value: JSON) -> bool:
    return value is not None and value != ""


def _is_text(value: JSON, longest: int) -> bool:
    return isinstance(value, str) and len(value) <= longest and not {"\0", "/"} & set(value)


def _fits_a_header(value: JSON) -> bool:
    return isinstance(value, str) and len(value) <= MAX_SECRET_LENGTH and bool(_IN_A_HEADER.fullmatch(value))
