"""Counters of the process in the text format of Prometheus."""

from collections import Counter
from collections.abc import Callable, Iterable

from molecule_runtime.domain.turns import TurnEvent

PREFIX = "molecule_runtime"


class Metrics:
    """What happened since the start."""

    def __init__(self, heartbeat_failures: Callable[[], int]) -> None:
        self._turns: Counter[str] = Counter()
        self._seconds = 0.0
        self._tokens: Counter[tuple[str, str]] = Counter()
        self._heartbeat_failures = heartbeat_failures

    def count(self, event: TurnEvent) -> None:
        """Something happened in a turn."""
        if event.outcome is not None:
            self._turns[event.outcome.state] += 1
            self._seconds += event.seconds
        if event.usage is not None:
            self._tokens[event.usage.model, "input"] += event.usage.input_tokens
            self._tokens[event.usage.model, "output"] += event.usage.output_tokens

    def text(self, waiting: int, wedged: bool) -> str:
        """All of them."""
        return "\n".join([*self._lines(waiting, wedged), ""])

    def _lines(self, waiting: int, wedged: bool) -> Iterable[str]:
        yield f"# TYPE {PREFIX}_turns_total counter"
        for state, count in sorted(self._turns.items()):
            yield f'{PREFIX}_turns_total{{outcome="{state}"}} {count}'
        yield f"# TYPE {PREFIX}_turn_seconds summary"
        yield f"{PREFIX}_turn_seconds_sum {self._seconds:.6f}"
        yield f"{PREFIX}_turn_seconds_count {sum(self._turns.values())}"
        yield f"# TYPE {PREFIX}_tokens_total counter"
        for (model, kind), count in sorted(self._tokens.items()):
            name = model.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
            yield f'{PREFIX}_tokens_total{{model="{name}",kind="{kind}"}} {count}'
        yield f"# TYPE {PREFIX}_queued_turns gauge"
        yield f"{PREFIX}_queued_turns {waiting}"
        yield f"# TYPE {PREFIX}_heartbeat_failures_total counter"
        yield f"{PREFIX}_heartbeat_failures_total {self._heartbeat_failures()}"
        yield f"# TYPE {PREFIX}_wedged gauge"
        yield f"{PREFIX}_wedged {int(wedged)}"
