"""A log tells of refusals without being filled by them."""

from molecule_platform.web.pipeline.log_sampling import BURST, LogSampler


def test_a_flood_of_lines_is_sampled_and_none_is_forgotten() -> None:
    now = 0.0
    sampler = LogSampler(lambda: now)
    taken = [sampler.take() for _ in range(1000)]
    assert taken[: int(BURST)] == [0] * int(BURST)
    assert set(taken[int(BURST) :]) == {None}
    now = 1.0
    assert sampler.take() == 1000 - BURST
    assert sampler.take() is None
