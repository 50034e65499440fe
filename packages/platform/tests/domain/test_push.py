"""Push notifications: when a webhook is tried again, what may be registered, and what goes with a body."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_platform.domain import push, push_requests
from molecule_platform.domain.push import Notification, PushConfig
from molecule_wire import JSONObject
from molecule_wire.a2a.errors import A2AError

NOON = datetime(2026, 5, 2, 12, 0, tzinfo=UTC)
CHANCES = st.floats(0, 1, exclude_max=True)
BASES = (1, 5, 30, 120, 600)


def notification(attempts: int = 0) -> Notification:
    return Notification("delivery-1", "own-1", 7, attempts, NOON)


@given(st.integers(1, 60), CHANCES)
def test_a_try_comes_after_the_stated_time_give_or_take_a_fifth(failed: int, chance: float) -> None:
    base = BASES[failed - 1] if failed <= len(BASES) else 3600
    assert 0.8 * base <= push.retry_delay(failed, chance) <= 1.2 * base


@given(CHANCES, st.none() | st.floats(0, 86_400))
def test_a_notification_is_tried_for_a_day_and_then_given_up(chance: float, asked: float | None) -> None:
    now, attempts = NOON, 0
    while True:
        again = push.next_try(notification(attempts), now, chance, asked)
        if again is None:
            break
        wait = (again - now).total_seconds()
        # Times are kept to the microsecond.
        assert wait >= max(push.retry_delay(attempts + 1, chance), asked or 0.0) - 1e-6
        now, attempts = again, attempts + 1
        assert now <= NOON + push.KEPT
    assert attempts <= 40
    if asked is None:
        assert now >= NOON + push.KEPT - timedelta(seconds=1.2 * 3600)
        assert attempts >= push.MAX_FAILURES


SOUND: dict[str, Any] = {"url": "https://hook.example/a"}


def test_what_is_registered_is_kept_apart_by_what_must_be_sealed() -> None:
    authentication: JSONObject = {"scheme": "Bearer", "credentials": "s3cret"}
    wish = push_requests.read(
        {
            **SOUND,
            "id": "c1",
            "taskId": "t1",
            "tenant": "x",
            "token": "tok",
            "authentication": authentication,
            "more": 2**60,
        }
    )
    assert (wish.url, wish.config_id) == (SOUND["url"], "c1")
    assert wish.secret == {"token": "tok", "authentication": authentication}
    assert wish.more == {"more": 2**60}
    assert "s3cret" not in repr(wish)
    assert "tok'" not in repr(wish)


@pytest.mark.parametrize(
    ("given_config", "field"),
    [
        ({}, "url"),
        ({"url": ""}, "url"),
        ({"url": 7}, "url"),
        ({**SOUND, "id": "x" * 300}, "id"),
        ({**SOUND, "id": "a/b"}, "id"),
        ({**SOUND, "id": "a\0"}, "id"),
        ({**SOUND, "id": 7}, "id"),
        ({**SOUND, "token": "a\r\nX-Evil: 1"}, "token"),
        ({**SOUND, "token": "x" * 5000}, "token"),
        ({**SOUND, "token": ["a"]}, "token"),
        ({**SOUND, "authentication": "Bearer x"}, "authentication"),
        ({**SOUND, "authentication": {"credentials": "x"}}, "authentication.scheme"),
        ({**SOUND, "authentication": {"scheme": "a b"}}, "authentication.scheme"),
        (
            {**SOUND, "authentication": {"scheme": "Basic", "credentials": "é"}},
            "authentication.credentials",
        ),
        ({**SOUND, "more": "x" * 20_000}, ""),
    ],
)
def test_what_cannot_be_used_is_refused_by_the_name_of_its_member(
    given_config: dict[str, Any], field: str
) -> None:
    with pytest.raises(A2AError) as refused:
        push_requests.read(given_config)
    assert refused.value.code == -32602
    assert [violation.field for violation in refused.value.violations] == [field]


@pytest.mark.parametrize("nothing", [None, ""])
def test_a_member_without_a_value_counts_as_not_given(nothing: Any) -> None:
    wish = push_requests.read({**SOUND, "id": nothing, "token": nothing, "authentication": nothing})
    assert (wish.config_id, wish.secret) == ("", {})


def test_a_config_is_shown_as_it_was_registered() -> None:
    config = PushConfig(
        id="own-1",
        org_id="org",
        workspace_id="ada",
        tenant="north",
        task_id="t1",
        config_id="c1",
        owner="user:ann",
        dialect="1.0",
        url="https://hook.example/a",
        config={"more": 1},
        created_at=NOON,
        secret_sealed="sealed-line",
    )
    assert push_requests.public_row(config, {"token": "tok"}) == {
        "more": 1,
        "tenant": "north",
        "id": "c1",
        "taskId": "t1",
        "url": "https://hook.example/a",
        "token": "tok",
    }
    assert "sealed-line" not in repr(config)


def test_the_headers_say_which_delivery_and_which_event_it_is() -> None:
    secret: Any = {"token": "tok", "authentication": {"scheme": "Bearer", "credentials": "abc"}}
    assert push_requests.headers(notification(), "1.0", secret) == {
        "Content-Type": "application/a2a+json",
        "A2A-Version": "1.0",
        "X-Molecule-Delivery": "delivery-1",
        "X-Molecule-Sequence": "7",
        "X-A2A-Notification-Token": "tok",
        "Authorization": "Bearer abc",
    }


@pytest.mark.parametrize("secret", [{}, {"authentication": {"scheme": "Bearer"}}])
def test_without_credentials_nothing_is_authorised(secret: Any) -> None:
    written = push_requests.headers(notification(), "0.3", secret)
    assert written["Content-Type"] == "application/json"
    assert written["A2A-Version"] == "0.3"
    assert not {"Authorization", "X-A2A-Notification-Token"} & set(written)


def test_of_several_schemes_of_0_3_the_first_counts() -> None:
    secret: Any = {"authentication": {"schemes": ["Basic", "Bearer"], "credentials": "abc"}}
    push_requests.read({**SOUND, **secret})
    assert push_requests.headers(notification(), "0.3", secret)["Authorization"] == "Basic abc"


ANYTHING = st.none() | st.integers() | st.text(max_size=20) | st.lists(st.text(max_size=5), max_size=2)
PARTS = st.dictionaries(st.sampled_from(["scheme", "schemes", "credentials"]), ANYTHING)
MEMBERS = st.sampled_from(["id", "token", "taskId", "more"])


@given(st.dictionaries(MEMBERS, ANYTHING), PARTS | ANYTHING, st.just("https://hook.example/") | ANYTHING)
def test_whatever_comes_is_read_or_refused_and_what_is_read_fits_into_headers(
    members: dict[str, Any], authentication: Any, url: Any
) -> None:
    wish = None
    with suppress(A2AError):
        wish = push_requests.read({**members, "authentication": authentication, "url": url})
    secret = {} if wish is None else wish.secret
    for name, value in push_requests.headers(notification(), "1.0", secret).items():
        assert (name + value).isascii()
        assert (name + value).isprintable()
