"""Lists of tasks, page by page: what is asked for, and the token that goes on where a page ended."""

import json
from datetime import datetime
from typing import Protocol

from molecule_wire import JSON, JSONObject, times
from molecule_wire.a2a import errors, task_lists
from molecule_wire.values import value

Place = tuple[str, str]
"""Where a task stands in a list, which is ordered by these: the time of its status, and its id."""

_FILTERS = ("contextId", "status", "statusTimestampAfter")


class TokenSeal(Protocol):
    """Makes page tokens that nobody else can make; each is bound to what it was given for."""

    def seal(self, text: str, bound_to: str, /) -> str:
        """A token that holds the text."""
        ...

    def open(self, token: str, bound_to: str, /) -> str:
        """The text of a token. Raises ValueError when it was made up, or for something else."""
        ...


@value
class ListQuery:
    """What checked params of a list ask for."""

    context_id: str | None
    state: str | None
    after: datetime | None
    limit: int
    bound_to: str
    before: Place | None = None


def list_query(params: JSONObject, owner: tuple[str, ...], seal: TokenSeal) -> ListQuery:
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
        _place(params.get("pageToken"), bound_to, seal),
    )


def next_token(last: Place, query: ListQuery, seal: TokenSeal) -> str:
    """The token of the page after the one that ends with this place."""
    return seal.seal(json.dumps(last), query.bound_to)


def _place(token: JSON, bound_to: str, seal: TokenSeal) -> Place | None:
    if not isinstance(token, str) or not token:
        return None
    try:
        status_at, task_id = json.loads(seal.open(token, bound_to))
        return status_at, task_id
    except ValueError as problem:
        sentence = "is not one that a page of this list gave you: begin again without it"
        raise errors.invalid_params(errors.Violation("pageToken", sentence)) from problem
