"""JSON that is bytes already and is only put inside other JSON."""


class JsonBytes:
    """One JSON value as it came; whoever writes the value around it puts these bytes there."""

    __slots__ = ("text",)

    def __init__(self, text: bytes) -> None:
        self.text = text
