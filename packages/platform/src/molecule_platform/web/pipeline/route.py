"""A row of the route table: everything the outside may know of one operation."""

from dataclasses import dataclass, field
from typing import Any, Literal

from molecule_platform.domain.authorisation import PUBLIC, Who
from molecule_platform.web.pipeline import schemas
from molecule_platform.web.pipeline.rate_limits import RateLimit

JSON = "application/json"
EVENT_STREAM = "text/event-stream"


@dataclass(frozen=True)
class Route:
    """One operation of the API."""

    name: str
    method: str
    path: str
    who: tuple[Who, ...]
    summary: str
    body: type[schemas.Body] | None = None
    query: type[schemas.Query] | None = None
    # The type of the body of a success; None when it has none.
    reply: Any = None
    status: tuple[int, ...] = (200,)
    # Codes of the error table beyond those that every route of its kind may give.
    refusals: tuple[str, ...] = ()
    media: str = JSON
    # How a refusal is written: as the platform does, as its A2A path does, or as the standard A2A base does
    # over HTTP+JSON and over JSON-RPC.
    errors: Literal["rest", "jsonrpc", "a2a", "a2a-rpc"] = "rest"
    # Whose limit of size its body has; one of A2A is read by the handler itself.
    limit: Literal["api", "a2a", "plugin"] = "api"
    # The route tells that an id is unknown or removed before it knows who asks.
    gone_first: bool = False
    # The handler applies `who` itself, because what is asked decides which rules hold.
    admits_itself: bool = False
    # Operators may ask about a workspace that is gone; the handler says whether it answers.
    removed_too: bool = False
    # A POST that makes something new: an Idempotency-Key lets it happen once.
    creates: bool = False
    # A stream that a browser opens with a ticket in the query, where it cannot send a header.
    stream: bool = False
    # A token that ended with its workspace is told so here (410), where others just get 401.
    tells_removed: bool = False
    # Never limited in its rate: whoever watches the house must always be let in.
    unlimited: bool = False
    # A limit of its own, instead of the general one.
    rate: RateLimit | None = None
    # Its success is routine and not worth a line in the log.
    quiet: bool = False
    # It can be asked for its headers alone, although it is not for all.
    has_head: bool = False

    # Whether no credential is needed, and whether none is even looked at.
    is_public: bool = field(init=False)
    is_for_all: bool = field(init=False)
    # Whether a body is read at all.
    takes_body: bool = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "is_public", PUBLIC in self.who)
        object.__setattr__(self, "is_for_all", self.who == (PUBLIC,))
        object.__setattr__(self, "takes_body", self.body is not None or self.limit == "a2a")

    @property
    def is_page(self) -> bool:
        """Whether it can be asked for its headers alone: reading it has no effect for anyone."""
        return self.has_head or (self.method == "GET" and self.is_for_all)
