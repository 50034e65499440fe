"""What can keep hermes from running."""


class HermesError(RuntimeError):
    """Hermes cannot be started; the text is one sentence that says what to do."""
