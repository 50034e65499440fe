"""Lists of tasks, page by page: what is asked for, and the token that goes on where a page ended."""

import base64
import hmac
import json
from collections.abc import Callable
from datetime import datetime
from typing import TypeAlias

from molecule_wire import JSON, JSONObject, times
from molecule_wire.a2a import errors, task_lists
from molecule_wire.values import value

Place = tuple[str, str]
"""Where a task stands in a list, which is ordered by these: the time of its status, and its id."""

Seal: TypeAlias = Callable[[str, str], str]
"""Makes a token, which nobody else can make, of a text and what it is given for; or opens one.

Opening raises ValueError for a token that was made up, or given for something else.
"""

_FILTERS = ("contextId", "status", "statusTimestampAfter")


@value
class ListQuery:
    """What checked params of a list ask for."""

    context_id: str | None
    state: str | None
    after: datetime | None
    limit: int
    bound_to: str
    before: Place | None = None


def list_query(params: JSONObject, owner: tuple[str, ...], unseal: Seal) -> ListQuery:
    """Read the params of a list. Raises -32602 for a token that no page of this list gave to this owner."""
    context, size = params.get("contextId"), params.get("pageSize")
    bound_to = json.dumps([*owner, *map(params.get, _FILTERS)])
    after = params.get("statusTimestampAfter")
    return ListQuery(
        context if isinstance(context, str) and context else None,
        task_lists.state_in(params),
        times.parse_time(after) if isinstance(after, str) and after else None,
        size if isinstance(size, int) else task_lists.DEFAULT_PAGE,
        bound_to,
        _place(params.get("pageToken"), bound_to, unseal),
    )


def next_token(last: Place, query: ListQuery, seal: Seal) -> str:
    """The token of the page after the one that ends with this place."""
    return seal(json.dumps(last), query.bound_to)


class HashSeal:
    """Seals with a keyed hash before the text."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def seal(self, text: str, bound_to: str, /) -> str:
        """A token that holds the text."""
        return base64.urlsafe_b64encode(self._hash(text.encode(), bound_to) + text.encode()).decode()

    def open(self, token: str, bound_to: str, /) -> str:
        """The text of a token."""
        raw = base64.b64decode(token, altchars=b"-_", validate=True)
        if not hmac.compare_digest(raw[:32], self._hash(raw[32:], bound_to)):
            raise ValueError("not a token of ours")
        return raw[32:].decode()

    def _hash(self, said: bytes, bound_to: str) -> bytes:
        return hmac.digest(self._secret, bound_to.encode() + b"\n" + said, "sha256")


def _place(token: JSON, bound_to: str, unseal: Seal) -> Place | None:
    if not isinstance(token, str) or not token:
        return None
    try:
        status_at, task_id = json.loads(unseal(token, bound_to))
        return status_at, task_id
    except ValueError as problem:
        sentence = "is not one that a page of this list gave you: begin again without it"
        raise errors.invalid_params(errors.Violation("pageToken", sentence)) from problem
