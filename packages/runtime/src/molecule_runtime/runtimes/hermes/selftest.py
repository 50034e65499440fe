"""The install proof: six checks that the plugin path works in this very installation, as this user.

The first three look at the home that the gateway of a workspace would use, and change nothing there. The
gateway of the others runs on a home of its own in a temporary folder, with a stub in place of the model: the
proof has no conversation of the user's, no key and no other chat platform in its hands. A home that no start
has prepared yet is proven as the first start would make it.
"""

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from molecule_runtime.runtimes.hermes import selftest_checks
from molecule_runtime.runtimes.hermes.errors import HermesError
from molecule_runtime.runtimes.hermes.gateway import child_environment
from molecule_runtime.runtimes.hermes.gateway_settings import GatewaySettings
from molecule_runtime.runtimes.hermes.home_directory import (
    PLUGIN_NAME,
    plugin_stanza,
    prepare_home,
    stanza_secret,
)
from molecule_runtime.runtimes.hermes.installation import describe, find_hermes
from molecule_runtime.runtimes.hermes.selftest_checks import SelftestTarget, VisiblePlugin
from molecule_runtime.runtimes.hermes.selftest_file import SelftestRecord, write_proof
from molecule_runtime.runtimes.hermes.selftest_gateway import READY_SECONDS, SelftestGateway
from molecule_runtime.runtimes.hermes.yaml_config import read_config, write_config
from molecule_wire.times import format_time

CHECKS = {
    1: "plugin visible to hermes",
    2: "plugin enabled",
    3: "platform configured",
    4: "gateway started",
    5: "round trip",
    6: "nothing left behind",
}

# What decides how messages pass. The rest of a user's settings names other platforms, programs and models.
_COPIED_SETTINGS = ("plugins", "display", "streaming")

Value = TypeVar("Value")


@dataclass(frozen=True)
class SelftestResult:
    """The outcome of one check, with the sentence that tells it."""

    number: int
    passed: bool
    message: str
    seconds: float

    @property
    def name(self) -> str:
        """What was checked."""
        return CHECKS[self.number]


class SelftestFailed(Exception):
    """A check failed; it was reported."""


class InstallSelftest:
    """Runs the checks in order; the first one that fails is the last. Each is reported as it ends."""

    def __init__(
        self, env: Mapping[str, str], model_url: str, report: Callable[[SelftestResult], object]
    ) -> None:
        self._env = env
        self._model_url = model_url
        self._report = report

    async def run(self) -> tuple[SelftestRecord, Path]:
        """Return the record and its file. Raises `SelftestFailed`, or `HermesError` for a refusal."""
        self._check_secret()
        with tempfile.TemporaryDirectory(
            prefix="molecule-hermes-proof-", ignore_cleanup_errors=True
        ) as folder:
            target, plugin = await self._look(Path(folder))
            await self._try_out(Path(folder), target, plugin)
        version = target.environment.version
        proof = SelftestRecord(plugin.version, version, format_time(datetime.now(UTC)), plugin.digest)
        return proof, await asyncio.to_thread(write_proof, target.environment.prefix, proof)

    def _check_secret(self) -> None:
        """Refuse a prepared home without a secret; a fresh one is given its own."""
        settings = self._settings(self._home())
        config = read_config(self._home() / "config.yaml")
        has_secret = settings.secret or stanza_secret(config) or not plugin_stanza(config)
        if not has_secret and not settings.allow_no_secret:
            raise HermesError(
                "hermes-proof does not run without a secret, and there is none in platforms."
                f"{PLUGIN_NAME}.extra.shared_secret of {self._home() / 'config.yaml'}: "
                "set MOLECULE_A2A_PLATFORM_SHARED_SECRET, or MOLECULE_A2A_ALLOW_NO_SECRET=true to prove it "
                "without one."
            )

    async def _look(self, folder: Path) -> tuple[SelftestTarget, VisiblePlugin]:
        """Checks 1 to 3."""

        async def find() -> tuple[SelftestTarget, VisiblePlugin]:
            target = await self._target(folder)
            return target, await selftest_checks.find_plugin(target)

        target, plugin = await self._check(1, find(), lambda found: f"{found[1].place}, {found[1].version}")
        await self._check(2, selftest_checks.check_enabled(target, plugin))
        await self._check(3, selftest_checks.check_stanza(target))
        return target, plugin

    async def _try_out(self, folder: Path, target: SelftestTarget, plugin: VisiblePlugin) -> None:
        """Checks 4 to 6. The gateway is stopped whatever happens; a failure before counts first."""
        settings = replace(
            self._settings(folder / "hermes"), provider_keys={}, plugin_entry_point=plugin.entry_point
        )
        await asyncio.to_thread(self._copy_settings, target.home, settings)
        gateway = SelftestGateway(settings, self._variables(folder, target.executable))
        try:
            await self._check(4, gateway.start(self._ready_seconds()))
            await self._check(5, gateway.round_trip())
        except BaseException:
            await asyncio.gather(asyncio.shield(gateway.stop()), return_exceptions=True)
            raise
        await self._check(6, gateway.stop())

    async def _check(self, number: int, work: Awaitable[Value], tell: Callable[[Value], str] = str) -> Value:
        began = time.monotonic()
        try:
            value = await work
        except HermesError as problem:
            self._report(SelftestResult(number, False, str(problem), time.monotonic() - began))
            raise SelftestFailed from None
        self._report(SelftestResult(number, True, tell(value), time.monotonic() - began))
        return value

    async def _target(self, folder: Path) -> SelftestTarget:
        """The hermes and the home that a workspace would start with."""
        executable = find_hermes(self._env)
        environment = await describe(executable)
        if environment is None or not environment.version:
            raise HermesError(
                f"{executable} is not run by a Python that has hermes-agent: set HERMES_BIN to the script "
                "of its installation, or run `molecule runtime install hermes`."
            )
        home = self._home()
        if not (home / "config.yaml").exists() and not (home / "plugins" / PLUGIN_NAME).exists():
            home = folder / "hermes"
            settings = replace(self._settings(home), provider_keys={})
            await asyncio.to_thread(prepare_home, settings, environment.interpreter)
        return SelftestTarget(executable, environment, home, child_environment(self._env, home))

    def _copy_settings(self, home: Path, settings: GatewaySettings) -> None:
        """Begin the home of the gateway with what the proven one says about the plugin."""
        if home == settings.home:
            return
        config = read_config(home / "config.yaml")
        copied: dict[str, Any] = {name: config[name] for name in _COPIED_SETTINGS if name in config}
        copied["platforms"] = {PLUGIN_NAME: plugin_stanza(config)}
        write_config(settings.home / "config.yaml", copied)

    def _home(self) -> Path:
        return GatewaySettings.read(self._stub_model()).home

    def _settings(self, home: Path) -> GatewaySettings:
        return replace(GatewaySettings.read(self._stub_model()), home=home)

    def _variables(self, folder: Path, executable: Path) -> dict[str, str]:
        """The variables of the gateway; its user's home is a folder of the proof, too."""
        user_home = folder / "user"
        user_home.mkdir(mode=0o700)
        return {**self._stub_model(), "HOME": str(user_home), "HERMES_BIN": str(executable)}

    def _stub_model(self) -> dict[str, str]:
        """The variables, with the plugin on, the stub as the model, and no tools of a workspace."""
        return {
            **self._env,
            "MOLECULE_A2A_PLATFORM_ENABLED": "true",
            "API_SERVER_KEY": "",
            "HERMES_INFERENCE_PROVIDER": "custom",
            "HERMES_INFERENCE_MODEL": "scripted",
            "HERMES_CUSTOM_BASE_URL": self._model_url,
            "HERMES_CUSTOM_API_KEY": "stub",
            "HERMES_CUSTOM_API_MODE": "chat_completions",
            "HERMES_BRIDGE_TOOLS": "off",
        }

    def _ready_seconds(self) -> float:
        budget = self._env.get("HERMES_GATEWAY_READY_BUDGET_SEC", "").strip()
        return max(float(budget), 5.0) if budget.isdecimal() else READY_SECONDS
