"""The adapter of hermes, against small gateways of the tests' own."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from molecule_runtime.kit.setup.adapter import AdapterConfig
from molecule_runtime.links import heartbeat as heartbeats
from molecule_runtime.runtimes.hermes import Adapter, HermesAdapter, adapter
from molecule_runtime.runtimes.hermes.adapter import HermesAgentAdapter


@asynccontextmanager
async def health(path: str) -> AsyncGenerator[int]:
    """A server that answers 200 on one path; its port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = (await reader.readline()).split()[1].decode()
        status = "200 OK" if target == path else "404 Not Found"
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}".encode())
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("MOLECULE_A2A_PLATFORM_ENABLED", "MOLECULE_A2A_PLATFORM_FALLBACK", "API_SERVER_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MOLECULE_ENGINES_DIR", str(tmp_path))
    monkeypatch.setenv("HERMES_API_BASE", "http://127.0.0.1:9/v1")
    monkeypatch.setattr(adapter, "PROBE_INTERVAL_SECONDS", 0.05)
    monkeypatch.setattr(adapter, "MIN_BUDGET_SECONDS", 0)


def config(**more: object) -> AdapterConfig:
    return AdapterConfig(model="m", **more)  # type: ignore[arg-type]


def test_the_platform_is_told_of_sessions_and_of_patience_alone() -> None:
    assert Adapter is HermesAdapter is HermesAgentAdapter
    flags = Adapter().capabilities().to_dict()
    assert [name for name, is_set in flags.items() if is_set] == ["session"]
    assert (Adapter().idle_timeout_override(), Adapter().memory_filename()) == (900, "AGENTS.md")
    assert (Adapter.name(), Adapter.display_name()) == ("hermes", "Hermes Agent (Nous Research)")


def test_a_heartbeat_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADAPTER_MODULE", "molecule_runtime.runtimes.hermes")
    block: Any = heartbeats._runtime_metadata_payload()["runtime_metadata"]
    assert block["idle_timeout_seconds"] == 900
    assert len(block["capabilities"]) == 7
    assert [name for name, is_set in block["capabilities"].items() if is_set] == ["session"]


async def test_a_gateway_that_comes_up_late_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_GATEWAY_READY_BUDGET_SEC", "10")
    async with health("/health") as port:
        pass
    monkeypatch.setenv("HERMES_API_BASE", f"http://127.0.0.1:{port}/v1")
    setting_up = asyncio.create_task(Adapter().setup(config()))
    await asyncio.sleep(0.2)
    assert not setting_up.done()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", port):
        await asyncio.wait_for(setting_up, 5)


async def test_a_gateway_that_never_comes_is_named_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_GATEWAY_READY_BUDGET_SEC", "1")
    began = time.monotonic()
    with pytest.raises(
        RuntimeError, match=r"http://127.0.0.1:9/health after \d+ attempt.*ConnectError"
    ) as failure:
        await Adapter().setup(config())
    assert time.monotonic() - began < 5
    assert "molecule runtime install hermes" in str(failure.value)


def test_a_budget_below_five_seconds_is_five(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    for value, seconds in (("1", 5.0), ("", 120.0), ("soon", 120.0), ("30", 30.0)):
        monkeypatch.setenv("HERMES_GATEWAY_READY_BUDGET_SEC", value)
        assert adapter._budget() == seconds


async def test_a_gateway_without_the_plugin_is_told_from_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMES_GATEWAY_READY_BUDGET_SEC", "0")
    monkeypatch.setenv("MOLECULE_A2A_PLATFORM_ENABLED", "true")
    monkeypatch.setenv("MOLECULE_A2A_PLATFORM_PORT", "9")
    async with health("/health") as port:
        monkeypatch.setenv("HERMES_API_BASE", f"http://127.0.0.1:{port}/v1")
        with pytest.raises(RuntimeError, match="plugin molecule-a2a not loaded"):
            await Adapter().setup(config())
        monkeypatch.setenv("MOLECULE_A2A_PLATFORM_FALLBACK", "true")
        made = Adapter()
        await made.setup(config())
        heartbeat = SimpleNamespace(runtime_state="")
        executor = await made.create_executor(config(heartbeat=heartbeat))
        assert not executor._use_plugin
        assert heartbeat.runtime_state == "degraded"
        assert await made.health() == {"ok": True}
        await made.close()


async def test_a_smoke_start_asks_nobody() -> None:
    made = Adapter()
    await made.setup(config(smoke=True))
    executor = await made.create_executor(config(smoke=True))
    assert made._executor is executor
    await made.close()


async def test_health_says_what_does_not_answer() -> None:
    health = await Adapter().health()
    assert not health["ok"]
    assert "http://127.0.0.1:9/health: ConnectError" in health["reason"]
