"""What can go wrong between a request and its answer."""


class NoResponse(Exception):
    """No whole answer came. `sent` tells whether the other side may have seen the request."""

    def __init__(self, sentence: str, *, sent: bool) -> None:
        super().__init__(sentence)
        self.sent = sent


class BodyTooLarge(Exception):
    """The other side answered with more than allowed."""


class UnsafeHeader(ValueError):
    """A header that would not stay one header on the wire. Nothing was sent."""
