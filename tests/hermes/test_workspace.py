"""A workspace whose engine is the real hermes: it answers, remembers and delegates."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from molecule_platform.testing import servers
from molecule_runtime.runtimes.hermes.home_directory import stanza_secret
from molecule_runtime.testing.scripted_model import ModelReply, ModelRequest, ScriptedModel, ToolCall
from scripts import live_platform
from scripts.live_platform import LivePlatform
from tests.e2e.workspaces import Member, member, text_of, until

pytestmark = [pytest.mark.timeout(240), pytest.mark.long]

CONFIG = "name: Hermes\nruntime: hermes\na2a: {port: 0}\n"
DELEGATED = "[Delegation results received while you were idle]"


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LivePlatform]:
    with live_platform.running(tmp_path_factory.mktemp("live") / "data", "--no-demo") as running:
        yield running


def hermes_variables(folder: Path, hermes: Path, model: ScriptedModel) -> dict[str, str]:
    return {
        "HERMES_BIN": str(hermes),
        "HERMES_HOME": str(folder / "home"),
        "HOME": str(folder),
        "HERMES_CUSTOM_BASE_URL": model.base_url,
        "HERMES_CUSTOM_API_KEY": "model-key-canary",
        "HERMES_INFERENCE_MODEL": "scripted",
        "API_SERVER_PORT": str(servers.free_port()),
        "MOLECULE_A2A_PLATFORM_PORT": str(servers.free_port()),
    }


def start(workspace: Member) -> None:
    workspace.launch()
    until(lambda: "ready: workspace" in workspace.log.read_text(), workspace.log.read_text, 120)


@pytest.mark.parametrize("transport", ["chat", "plugin"])
def test_a_conversation_goes_on_after_a_restart_of_runtime_and_gateway(
    live: LivePlatform, hermes_executable: Path, model: ScriptedModel, tmp_path: Path, transport: str
) -> None:
    variables = hermes_variables(tmp_path, hermes_executable, model)
    variables["MOLECULE_A2A_PLATFORM_ENABLED"] = str(transport == "plugin")
    workspace = Member(live, tmp_path / "workspace", CONFIG, **variables)
    try:
        start(workspace)
        assert "first words" in text_of(workspace.send("first words", contextId="c"))
        other = text_of(workspace.send("other words", contextId="d"))
        assert "first words" not in other
        assert workspace.end() == 0
        start(workspace)
        text = text_of(workspace.send("second words", contextId="c"))
        assert "first words" in text
        assert "second words" in text
        assert workspace.end() == 0
        _check_no_secret(workspace.folder, tmp_path / "home")
    finally:
        workspace.close()


def _check_no_secret(folder: Path, home: Path) -> None:
    """Neither logs nor transcripts, snapshot or task store of a workspace hold a key or a secret."""
    variables = (line.partition("=") for line in (home / ".env").read_text().splitlines())
    secrets = {
        "model": "model-key-canary",
        "api": next(value for name, _, value in variables if name == "API_SERVER_KEY"),
    }
    if shared := stanza_secret(yaml.safe_load((home / "config.yaml").read_text())):
        secrets["shared"] = shared
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert {".agent_snapshot.json", ".tasks.db"} <= {path.name for path in files}
    for path in files:
        data = path.read_bytes()
        assert not [name for name, value in secrets.items() if value.encode() in data], path


def test_hermes_delegates_through_the_tools_of_its_workspace(
    live: LivePlatform, hermes_executable: Path, tmp_path: Path
) -> None:
    with member(live, tmp_path / "echo") as echo:

        def script(request: ModelRequest) -> ModelReply | str:
            if request.tool_results:
                return f"the tool said {request.tool_results[-1]}"
            name = next((tool for tool in request.tools if tool.endswith("delegate_to_workspace")), "")
            if name and request.last_user_text == "delegate this":
                return ModelReply(tool_calls=(ToolCall(name, {"workspace_id": echo.id, "task": "count"}),))
            return f"heard: {request.last_user_text}"

        with ScriptedModel(script) as model:
            variables = hermes_variables(tmp_path, hermes_executable, model)
            variables["MOLECULE_A2A_PLATFORM_ENABLED"] = "false"
            workspace = Member(live, tmp_path / "workspace", CONFIG, **variables)
            try:
                start(workspace)
                assert "delegated" in text_of(workspace.send("delegate this", contextId="c"))
                transcripts = workspace.folder / ".transcripts"
                until(
                    lambda: DELEGATED in "".join(path.read_text() for path in transcripts.glob("*")),
                    workspace.log.read_text,
                )
            finally:
                workspace.close()
