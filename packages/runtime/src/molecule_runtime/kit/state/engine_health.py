"""Whether the engine is wedged: up, but not able to finish a turn. One state for the process."""

import threading

_lock = threading.Lock()
_reason = ""
_by_adapter = False


def mark_wedged(reason: str) -> None:
    """Say that the engine is stuck. The first reason stays until it is cleared."""
    _mark(reason, by_adapter=True)


def mark_wedged_by_kit(reason: str) -> None:
    """The same, found by the kit itself: the next turn that succeeds clears it."""
    _mark(reason, by_adapter=False)


def clear_wedge() -> None:
    """Say that the engine works again."""
    global _reason, _by_adapter
    with _lock:
        _reason, _by_adapter = "", False


def clear_after_success() -> None:
    """A turn succeeded: what the kit found is over; what the adapter said, it takes back itself."""
    if _reason and not _by_adapter:
        clear_wedge()


def is_wedged() -> bool:
    """Whether the engine is stuck."""
    return bool(_reason)


def wedge_reason() -> str:
    """Why; empty when it is not."""
    return _reason


def reset_for_test() -> None:
    """Forget everything."""
    clear_wedge()


def _mark(reason: str, *, by_adapter: bool) -> None:
    global _reason, _by_adapter
    with _lock:
        if not _reason:
            _reason, _by_adapter = reason or "unknown", by_adapter
