"""What came of every message."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from scripts.soak.agents import Seen
from scripts.soak.senders import Errand

SHOWN = 10


@dataclass(frozen=True)
class Verdict:
    """The figures of one soak; `lost` and `twice` name what must not be."""

    engine: str
    kills: int
    seconds: float
    sent: int
    answered: int
    failed: Mapping[str, int]
    lost: Sequence[str]
    twice: Sequence[str]
    redelivered: int

    @property
    def kept(self) -> bool:
        """Whether the platform kept its promise."""
        return not self.lost and not self.twice

    def lines(self) -> list[str]:
        """The figures as text."""
        reasons = [f"{code}: {count}" for code, count in sorted(self.failed.items())]
        return [
            f"{self.engine}: {self.kills} kills in {self.seconds:.0f} s",
            f"  sent                            {self.sent}",
            f"  answered                        {self.answered}",
            f"  failed with reason              {sum(self.failed.values())}{_some(reasons)}",
            f"  lost                            {len(self.lost)}{_some(self.lost)}",
            f"  answered twice by the platform  {len(self.twice)}{_some(self.twice)}",
            f"  seen more than once by an agent {self.redelivered}",
        ]


def judge(
    engine: str,
    kills: int,
    seconds: float,
    errands: Sequence[Errand],
    seen: Seen,
    endings: Iterable[str],
) -> Verdict:
    """`endings` holds a message id for each terminal event in the log of the platform."""
    ends = Counter(endings)
    first = [errand.told[0] for errand in errands if errand.told]
    return Verdict(
        engine,
        kills,
        seconds,
        sent=len(errands),
        answered=sum(outcome.answered for outcome in first),
        failed=Counter(outcome.said for outcome in first if not outcome.answered),
        lost=[errand.words for errand in errands if not errand.told or ends[errand.message_id] == 0],
        twice=[errand.words for errand in errands if _told_twice(errand, seen, ends)],
        redelivered=sum(max(rows.values()) > 1 for rows in seen.values()),
    )


def _told_twice(errand: Errand, seen: Seen, ends: Counter[str]) -> bool:
    """Two outcomes, two ends in the log, or two rows for one key."""
    return len(errand.told) > 1 or ends[errand.message_id] > 1 or len(seen.get(errand.words, ())) > 1


def _some(words: Sequence[str]) -> str:
    return f" ({', '.join(words[:SHOWN])})" if words else ""
