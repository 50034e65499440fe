"""What every bus promises, on every bus."""

import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

import pytest

from molecule_platform.ports import bus
from tests.rows import each_row

Eventually = Callable[[Callable[[], bool]], Awaitable[None]]


class Replicas(Protocol):
    publisher: bus.Bus
    listener: bus.Bus


class Listener:
    """Remembers what it is told."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, bytes]] = []

    def __call__(self, subject: str, payload: bytes) -> None:
        self.heard.append((subject, payload))

    @property
    def payloads(self) -> list[bytes]:
        return [payload for _, payload in self.heard]


async def test_a_subscriber_hears_what_is_published_after_it_subscribed(
    replicas: Replicas, eventually: Eventually
) -> None:
    listener = Listener()
    await replicas.listener.subscribe("inbox.a", listener)
    await replicas.publisher.publish("inbox.a", b"wake")
    await eventually(lambda: bool(listener.heard))
    assert listener.heard == [("inbox.a", b"wake")]


async def test_the_messages_of_one_publisher_arrive_in_order(
    replicas: Replicas, eventually: Eventually
) -> None:
    listener = Listener()
    await replicas.listener.subscribe("events.>", listener)
    sent = [str(number).encode() for number in range(500)]
    for number, payload in enumerate(sent):
        await replicas.publisher.publish(f"events.{number % 7}", payload)
    await eventually(lambda: len(listener.heard) >= len(sent))
    assert listener.payloads == sent


async def test_a_pattern_hears_everything_below_it_and_nothing_beside_it(
    replicas: Replicas, eventually: Eventually
) -> None:
    below, exact = Listener(), Listener()
    await replicas.listener.subscribe("a.b.>", below)
    await replicas.listener.subscribe("a.b", exact)
    for subject in ("a.b", "a.bc", "a.b.c", "x.a.b.c", "a.b.c.d", "a"):
        await replicas.publisher.publish(subject, b"")
    await eventually(lambda: len(below.heard) >= 2 and len(exact.heard) >= 1)
    assert [subject for subject, _ in below.heard] == ["a.b.c", "a.b.c.d"]
    assert [subject for subject, _ in exact.heard] == ["a.b"]


async def test_each_of_several_subscribers_hears_a_message_once(
    replicas: Replicas, eventually: Eventually
) -> None:
    listeners = [Listener() for _ in range(3)]
    for listener, pattern in zip(listeners, ("t.one", "t.one", "t.>"), strict=True):
        await replicas.listener.subscribe(pattern, listener)
    await replicas.publisher.publish("t.one", b"1")
    await replicas.publisher.publish("t.one", b"2")
    await eventually(lambda: all(len(listener.heard) >= 2 for listener in listeners))
    assert [listener.payloads for listener in listeners] == [[b"1", b"2"]] * 3


async def test_a_closed_subscription_hears_nothing_and_its_neighbour_still_does(
    replicas: Replicas, eventually: Eventually
) -> None:
    gone, staying = Listener(), Listener()
    subscription = await replicas.listener.subscribe("t.x", gone)
    await replicas.listener.subscribe("t.x", staying)
    await subscription.close()
    await subscription.close()
    await replicas.publisher.publish("t.x", b"after")
    await eventually(lambda: bool(staying.heard))
    assert gone.heard == []


async def test_a_subject_can_be_subscribed_to_again_after_its_last_subscription_closed(
    replicas: Replicas, eventually: Eventually
) -> None:
    gone, back = Listener(), Listener()
    await (await replicas.listener.subscribe("t.x", gone)).close()
    await replicas.listener.subscribe("t.x", back)
    await replicas.publisher.publish("t.x", b"again")
    await eventually(lambda: bool(back.heard))
    assert (gone.heard, back.payloads) == ([], [b"again"])


async def test_a_handler_that_raises_is_logged_and_costs_the_others_nothing(
    replicas: Replicas, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(subject: str, payload: bytes) -> None:
        raise RuntimeError("handler broke")

    listener = Listener()
    await replicas.listener.subscribe("t.x", broken)
    await replicas.listener.subscribe("t.x", listener)
    with caplog.at_level(logging.ERROR):
        await replicas.publisher.publish("t.x", b"1")
        await eventually(lambda: bool(listener.heard))
    assert "A bus handler for t.x failed" in caplog.text
    await replicas.publisher.publish("t.x", b"2")
    await eventually(lambda: len(listener.heard) == 2)


@each_row("subject", ["", ".", "a.", ".a", "a..b", "a b", "a.*", ">", "a.>", "ä", "a\n", "x" * 257])
async def test_a_malformed_subject_is_refused_when_published(replicas: Replicas, subject: str) -> None:
    with pytest.raises(ValueError, match="is no bus subject"):
        await replicas.publisher.publish(subject, b"")


@each_row("subject", ["", ">", "*", "a.*", "a.>.b", "a.>.>", "a>", "a.> "])
async def test_a_malformed_pattern_is_refused_when_subscribed(replicas: Replicas, subject: str) -> None:
    with pytest.raises(ValueError, match="is no bus subject"):
        await replicas.publisher.subscribe(subject, Listener())


async def test_odd_but_visible_characters_are_carried(replicas: Replicas, eventually: Eventually) -> None:
    listener = Listener()
    subject = "who.user:ann+1,b/c=$@[x]~!.018f-77"
    await replicas.listener.subscribe("who.>", listener)
    await replicas.publisher.publish(subject, b"\x00\xff")
    await eventually(lambda: bool(listener.heard))
    assert listener.heard == [(subject, b"\x00\xff")]


async def test_the_largest_payload_is_carried_and_a_larger_one_refused(
    replicas: Replicas, eventually: Eventually
) -> None:
    listener = Listener()
    await replicas.listener.subscribe("t.x", listener)
    await replicas.publisher.publish("t.x", b"x" * bus.MAX_PAYLOAD_BYTES)
    await eventually(lambda: bool(listener.heard))
    with pytest.raises(ValueError, match="publish its id"):
        await replicas.publisher.publish("t.x", b"x" * (bus.MAX_PAYLOAD_BYTES + 1))


async def test_an_open_bus_is_healthy_and_a_closed_one_is_silent(replicas: Replicas) -> None:
    listener = Listener()
    await replicas.publisher.subscribe("t.x", listener)
    assert replicas.publisher.healthy
    await replicas.publisher.close()
    await replicas.publisher.close()
    await replicas.publisher.publish("t.x", b"")
    assert not replicas.publisher.healthy
    assert listener.heard == []
