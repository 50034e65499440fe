"""A model that refuses, breaks or says nothing: the real hermes and the bridge still end every turn."""

import pytest

from molecule_runtime.runtimes.hermes import executor
from molecule_runtime.testing.scripted_model import ModelReply, ScriptedModel, by_text, recall
from tests.hermes.bridges import HEAD, Bridge, text_of

# Hermes repeats what failed three times, with pauses: some 8 s for each of these.
pytestmark = [pytest.mark.e2e, pytest.mark.long]

BROKEN = {
    "429": ModelReply("slow down", status=429),
    "500": ModelReply("it broke", status=500),
    "a page": ModelReply("<html><body>bad gateway</body></html>", status=502),
    "a page as an answer": ModelReply("<html><body>welcome</body></html>"),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_model_that_fails_ends_the_turn_and_the_next_one_is_answered(
    bridges: list[Bridge], model: ScriptedModel, name: str
) -> None:
    for bridge in bridges:
        conversation = f"{bridge.transport} {name}"
        model.script = by_text({"broken": BROKEN[name]})
        outcome = await bridge.outcome(conversation, "broken")
        print(f"\n{bridge.transport}, {name}: {text_of(outcome)}")
        if bridge.transport == "chat":
            assert text_of(outcome).startswith("[hermes-agent error 502] ")
            assert outcome.metadata["molecule"]["state"] == "failed"
        else:
            assert text_of(outcome), "hermes says it in its own words"
        model.script = recall
        assert (await bridge.ask(conversation, "well again")).endswith("\nwell again")


async def test_a_model_that_says_nothing_is_given_up_and_the_next_turn_is_answered(
    bridges: list[Bridge], model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    for bridge in bridges:
        model.script = by_text({"say nothing": ModelReply(silent=True)})
        with monkeypatch.context() as shortly:
            shortly.setattr(executor, "_REQUEST_TIMEOUT", 3.0)
            shortly.setattr(executor, "_PLUGIN_REPLY_TIMEOUT", 3.0)
            outcome = await bridge.outcome("silence", "say nothing")
        assert outcome.metadata["molecule"]["code"] == "turn-timeout"
        sentences = {
            "chat": "[hermes-agent unreachable] TimeoutError 127.0.0.1:",
            "plugin": "[hermes plugin reply timeout after 3s]",
        }
        assert text_of(outcome).startswith(sentences[bridge.transport])
        model.script = recall
        answer = await bridge.ask("silence", "now then")
        assert answer.startswith(HEAD)
        assert answer.endswith("\nnow then")
