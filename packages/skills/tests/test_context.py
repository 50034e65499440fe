"""The run context: eight abstract members, helpers, and every text of the local one."""

import asyncio
import inspect
import pickle
from typing import Any

import pytest
from pydantic import BaseModel

from molecule_skill import context
from molecule_skill.a2a_client import A2AClient, CallResult
from molecule_skill.context import (
    AgentEvent,
    ArtifactRef,
    AuthT,
    CancelledByCaller,
    LocalRunContext,
    MissingScopes,
    RunContext,
)
from molecule_skill.errors import CapabilityUnavailable
from molecule_skill.identity import APIKeyAuth, NoAuth
from molecule_skill.sandbox import SandboxUnavailable

EIGHT = {
    "emit_event",
    "write_artifact",
    "check_cancelled",
    "secret",
    "workspace",
    "sandbox",
    "discover",
    "_a2a_client",
}


class Foreign(RunContext[NoAuth]):
    """A context of somebody else, with the eight members and nothing more."""

    def __init__(self) -> None:
        self.task_id, self.auth = "foreign", NoAuth()
        self.events: list[AgentEvent] = []

    async def emit_event(self, event: AgentEvent) -> None:
        self.events.append(event)

    async def write_artifact(self, name: str, data: bytes, mime_type: str) -> ArtifactRef:
        return ArtifactRef(name, f"x://{name}", mime_type, len(data))

    async def check_cancelled(self) -> None:
        return None

    def secret(self, name: str) -> str:
        return name

    @property
    def workspace(self) -> Any:
        return None

    @property
    def sandbox(self) -> Any:
        return None

    @property
    def discover(self) -> Any:
        return None

    def _a2a_client(self) -> Any:
        raise PermissionError("none")


def local(**keywords: Any) -> LocalRunContext[Any]:
    return LocalRunContext(auth=keywords.pop("auth", NoAuth()), **keywords)


def test_exactly_eight_members_are_abstract() -> None:
    assert RunContext.__abstractmethods__ == EIGHT


def test_a_context_with_only_the_eight_members_can_be_made_and_has_the_defaults_of_the_rest() -> None:
    ctx = Foreign()
    assert (ctx.caller, ctx.run_id, ctx.attempt, ctx.session_id, ctx.deadline, ctx.grant) == (
        "local", "foreign", 1, None, None, None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("member", "arguments"),
    [
        ("ask", ("?",)),
        ("step", ("key", int)),
        ("load_state", ()),
        ("save_state", (1,)),
        ("ensure_read", ("a",)),
        ("ensure_write", ("a",)),
        ("random", ()),
        ("consumer_config", ("name",)),
        ("consumer_secret", ("name",)),
    ],
)
async def test_what_a_foreign_context_lacks_is_named(member: str, arguments: tuple[Any, ...]) -> None:
    async def use() -> None:
        result = getattr(Foreign(), member)(*arguments)
        if inspect.isawaitable(result):
            await result

    with pytest.raises(CapabilityUnavailable, match=member) as caught:
        await use()
    assert caught.value.member == member


def test_class_data_of_the_context() -> None:
    assert RunContext.__parameters__ == (AuthT,)  # type: ignore[attr-defined]
    assert not hasattr(RunContext, "task_id")
    assert not hasattr(RunContext, "auth")
    assert RunContext[NoAuth] is not None
    assert LocalRunContext[NoAuth] is not None


def test_names_that_existing_code_imports_from_the_context_module_are_there() -> None:
    names = "A2AClient CallResult DiscoveryClient SandboxClient SandboxUnavailable WorkspaceClient AuthT"
    assert [name for name in names.split() if not hasattr(context, name)] == []


async def test_helpers_emit_their_exact_payloads() -> None:
    ctx = local()
    ref = ArtifactRef("a", "memory://t/a", "text/plain", 3)
    await ctx.emit_progress("half")
    await ctx.emit_text_delta("to")
    await ctx.emit_artifact(ref)
    await ctx.emit_error("bad")
    await ctx.emit_error("worse", code="x")
    assert ctx.events == [
        AgentEvent("progress", {"message": "half"}),
        AgentEvent("text_delta", {"text": "to"}),
        AgentEvent(
            "artifact", {"name": "a", "uri": "memory://t/a", "mime_type": "text/plain", "size_bytes": 3}
        ),
        AgentEvent("error", {"message": "bad", "code": None}),
        AgentEvent("error", {"message": "worse", "code": "x"}),
    ]


def test_events_and_references_answer_by_field_name_and_are_frozen() -> None:
    event, ref = AgentEvent("k"), ArtifactRef("a", "u", "m", 1)
    assert (event["kind"], event["payload"], ref["uri"], ref["size_bytes"]) == ("k", {}, "u", 1)
    assert AgentEvent("k").payload is not event.payload
    with pytest.raises(KeyError):
        event["other"]
    with pytest.raises(AttributeError):
        event.kind = "x"  # type: ignore[misc]


def test_scopes_missing_are_named_in_order_with_duplicates() -> None:
    ctx = local(auth=APIKeyAuth(api_key_id="k", scopes=("c",)))
    with pytest.raises(MissingScopes) as caught:
        ctx.require_scopes(["b", "c", "a", "b"])
    assert caught.value.missing == ("b", "a", "b")
    assert caught.value.args == ("missing scopes: ['a', 'b', 'b']",)
    assert pickle.loads(pickle.dumps(caught.value)).missing == ("b", "a", "b")


class NoneScopes(BaseModel):
    scopes: tuple[str, ...] | None = None


@pytest.mark.parametrize("auth", [NoAuth(), NoneScopes()])
def test_a_caller_without_scopes_holds_none(auth: BaseModel) -> None:
    with pytest.raises(MissingScopes):
        local(auth=auth).require_scopes(["a"])


def test_an_empty_requirement_does_not_look_at_the_caller() -> None:
    class Untouchable:
        @property
        def scopes(self) -> object:
            raise AssertionError("looked")

    local(auth=Untouchable()).require_scopes([])


async def test_call_passes_its_keywords_on_and_returns_the_very_object() -> None:
    class Client(A2AClient):
        async def call(self, target: str, skill: str, **keywords: Any) -> CallResult:  # type: ignore[override]
            self.seen = (target, skill, keywords)
            return answer

    answer, client = CallResult(1), Client()
    assert await local(a2a=client).call("t", "s", args={"a": 1}, grant="g", timeout=2.0) is answer
    assert client.seen == ("t", "s", {"args": {"a": 1}, "grant": "g", "timeout": 2.0})


# The local context, row by row


def test_a_local_context_can_be_made_without_an_event_loop_and_takes_keywords_alone() -> None:
    ctx = LocalRunContext(auth=NoAuth())
    assert (ctx.task_id, ctx.events, ctx.artifacts) == ("local-task", [], {})
    with pytest.raises(TypeError):
        LocalRunContext(NoAuth())  # type: ignore[misc]
    names = list(inspect.signature(LocalRunContext).parameters)
    assert names[:7] == ["auth", "task_id", "secrets", "workspace", "sandbox", "a2a", "discover"]


async def test_events_of_any_kind_are_kept_as_they_are() -> None:
    ctx, odd = local(), AgentEvent("question", {"x": object()})
    await ctx.emit_event(odd)
    assert ctx.events[0] is odd


async def test_an_artifact_is_the_object_given_and_emits_nothing() -> None:
    ctx, data = local(task_id="t"), b"abc"
    ref = await ctx.write_artifact("../ö b", data, "text/x")
    assert ctx.artifacts["../ö b"] is data
    assert ref == ArtifactRef("../ö b", "memory://t/../ö b", "text/x", 3)
    assert ctx.events == []


async def test_cancelling_is_synchronous_repeatable_and_lasts() -> None:
    ctx = local(task_id="t")
    assert await ctx.check_cancelled() is None  # type: ignore[func-returns-value]
    ctx.cancel()
    ctx.cancel()
    for _ in range(2):
        with pytest.raises(CancelledByCaller) as caught:
            await ctx.check_cancelled()
        assert (caught.value.args, str(caught.value)) == (("t",), "t")


def test_secrets_are_copied_and_an_unknown_one_is_named() -> None:
    secrets = {"a": "1"}
    ctx = local(secrets=secrets)
    secrets["b"] = "2"
    assert ctx.secret("a") == "1"
    with pytest.raises(KeyError) as caught:
        ctx.secret("b")
    assert caught.value.args == ("unknown secret: 'b'",)
    assert isinstance(caught.value.__cause__, KeyError)


def test_bound_members_are_the_very_objects() -> None:
    things = [object() for _ in range(4)]
    ctx = local(workspace=things[0], sandbox=things[1], discover=things[2], a2a=things[3])
    found: list[object] = [ctx.workspace, ctx.sandbox, ctx.discover, ctx._a2a_client()]
    assert all(one is thing for one, thing in zip(found, things, strict=True))


@pytest.mark.parametrize(
    ("member", "error", "text"),
    [
        (
            "workspace",
            PermissionError,
            "no workspace bound to this context; agent did not declare workspace_access or runtime did not"
            " provision one",
        ),
        (
            "sandbox",
            SandboxUnavailable,
            "no sandbox client attached to this context; the runtime layer must provision one",
        ),
        ("discover", PermissionError, "no discovery client attached; runtime must provision one"),
    ],
)
def test_unbound_members_say_what_is_missing(member: str, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as caught:
        getattr(local(), member)
    assert str(caught.value) == text


async def test_a_call_without_a_client_fails_when_it_is_awaited() -> None:
    coroutine = local().call("t", "s")
    with pytest.raises(PermissionError) as caught:
        await coroutine
    text = "no A2A client attached; runtime must provision one before ctx.call(...) can be used"
    assert str(caught.value) == text


async def test_random_numbers_are_those_of_the_run() -> None:
    first = [local(task_id="t").random().random() for _ in range(2)]
    assert first[0] == first[1] != local(task_id="u").random().random()


async def test_on_event_sees_every_event_and_may_answer() -> None:
    def answer(event: AgentEvent) -> None:
        if event.kind == "question":
            asyncio.get_running_loop().call_soon(ctx.answer, event["payload"]["question_id"], "Ada")

    ctx = local(on_event=answer)
    assert await ctx.ask("name?") == "Ada"
    assert [event.kind for event in ctx.events] == ["question", "interaction_closed"]
