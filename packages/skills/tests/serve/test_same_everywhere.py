"""One sample agent, one suite: the same results, event kinds and error codes in every place."""

from typing import Any

import pytest

from molecule_skill.context import RunContext
from molecule_skill.decorator import skill
from molecule_skill.identity import APIKeyAuth
from molecule_skill.testing import PLACES, Case, Decline, assert_same_everywhere
from packages.skills.tests.serve.sample import Person, Sample

CASES = [
    Case("shout", {"text": "hi"}),
    Case("add", {"a": "2"}),
    Case("add", {"a": "x"}),
    Case("add", {"a": 1, "c": 2}),
    Case("absent"),
    Case("tell", {"words": 3}),
    Case("write", {"name": "out/a.txt", "size": 2}),
    Case("ask", {"question": "why?"}, answers=["because"]),
    Case("ask", {"question": "why?"}, answers=[Decline("private")]),
    Case("form", answers=[Person(name="Ada", age=36)]),
    Case("form", answers=[{"name": "Ada", "age": 36}]),
    Case("twice", answers=["a", "b"]),
    Case("fail", {"message": "boom"}),
    Case("wrong"),
    Case("guarded"),
    Case("nothing"),
]


def test_the_suite_runs_in_five_places() -> None:
    assert [place.name for place in PLACES] == [
        "local context",
        "in process",
        "over HTTP",
        "over A2A 1.0",
        "over A2A 0.3",
    ]


@pytest.mark.slow  # fifteen cases, each with a server of its own in three places
async def test_the_sample_agent_behaves_the_same_in_every_place() -> None:
    seen = await assert_same_everywhere(Sample, CASES)
    by_skill = dict(zip([case.skill for case in CASES], seen, strict=True))
    assert by_skill["shout"].result == "HI"
    assert by_skill["twice"].result == "ab"
    assert by_skill["fail"].error_code == "skill-failed"
    assert by_skill["absent"].error_code == "skill-not-found"
    assert by_skill["tell"].event_kinds == ("text_delta", "text_delta", "text_delta", "chapter")


async def test_scopes_are_those_of_the_caller_in_every_place() -> None:
    class Keyed(Sample):
        name = "keyed"
        auth_model = APIKeyAuth

    allowed = APIKeyAuth(api_key_id="a", scopes=("secret.read",))
    cases = [Case("guarded", auth=allowed), Case("guarded", auth=APIKeyAuth(api_key_id="b"))]
    seen = await assert_same_everywhere(Keyed, cases)
    assert [one.error_code for one in seen] == [None, "missing-scopes"]


async def test_a_skill_that_differs_is_named_with_both_sides() -> None:
    class Moody(Sample):
        name = "moody"
        runs = 0

        @skill()
        async def mood(self, ctx: RunContext[Any]) -> int:
            """Another answer each time."""
            Moody.runs += 1
            return Moody.runs

    with pytest.raises(AssertionError, match="mood.*differs"):
        await assert_same_everywhere(Moody, [Case("mood")])
