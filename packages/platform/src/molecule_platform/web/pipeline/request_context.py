"""Which request is being served, for whoever writes a line into the log meanwhile."""

from contextvars import ContextVar

from molecule_platform.web.pipeline.request import Request

REQUEST: ContextVar[Request | None] = ContextVar("request", default=None)
