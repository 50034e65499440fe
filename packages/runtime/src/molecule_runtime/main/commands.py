"""`molecule-runtime`: run a workspace, and look at one."""

import argparse
import asyncio
import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from molecule_runtime.settings.environment import Environment


def run_command(arguments: Sequence[str] | None = None) -> int:
    """Run a command; without one, the workspace."""
    described = "Host one agent engine as a workspace."
    parser = argparse.ArgumentParser(prog="molecule-runtime", description=described)
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("run", help="run the workspace that the environment describes (the default)")
    check = commands.add_parser("check", help="read config.yaml and run the preflight checks")
    runtimes = commands.add_parser("runtimes", help="list the engines that can be run")
    smoke = commands.add_parser("smoke", help="build the engine and ask it once, without a platform")
    smoke.add_argument("--deep", action="store_true", help="start the engine for real and ask for its health")
    doctor = commands.add_parser("doctor", help="show what the workspace would start with")
    chat = commands.add_parser("chat", help="have one message answered here, without a platform")
    chat.add_argument("text")
    conformance = commands.add_parser("conformance", help="check a running workspace from outside")
    conformance.add_argument("url")
    conformance.add_argument("--token", default="", help="a bearer token for the requests")
    snapshots = commands.add_parser("snapshot", help="show or clear the snapshot")
    snapshots.add_argument("verb", choices=("show", "clear"))
    proof = commands.add_parser(
        "hermes-proof", help="prove that hermes' plugin path works in this installation"
    )
    for one in (check, runtimes, smoke, doctor, chat, conformance, snapshots, proof):
        one.add_argument("--json", action="store_true", dest="as_json", help="print JSON")
    chosen = parser.parse_args(arguments)
    return _COMMANDS[chosen.command or "run"](chosen)


def _run(chosen: argparse.Namespace) -> int:
    # A template's image is checked with this variable and its usual command.
    if os.environ.get("MOLECULE_SMOKE_MODE", "").strip() and _environment().smoke_mode:
        return _smoke(argparse.Namespace(deep=False, as_json=False))
    from molecule_a2a.http_server import new_event_loop
    from molecule_runtime.main import main as run

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(run())


def _smoke(chosen: argparse.Namespace) -> int:
    from molecule_runtime.main import local_turn

    runtime = ""
    try:
        environment = _environment()
        adapter = local_turn.make_adapter(environment)
        runtime = adapter.name()
        warning = asyncio.run(local_turn.smoke_problem(environment, adapter, deep=chosen.deep))
    except Exception as problem:  # noqa: BLE001 - told to whoever builds the image
        text = str(problem) or type(problem).__name__
        _print(chosen, {"ok": False, "runtime": runtime, "problem": text}, f"smoke failed: {text}")
        return 1
    prefix = f"warning: {warning}\n" if warning else ""
    _print(chosen, {"ok": True, "runtime": runtime, "warning": warning}, f"{prefix}smoke ok: {runtime}")
    return 0


def _doctor(chosen: argparse.Namespace) -> int:
    from molecule_runtime.main.doctor import examine
    from molecule_runtime.settings.preflight import format_preflight_report

    facts, report = asyncio.run(examine(_environment()))
    issues = [vars(issue) for issue in (*report.failures, *report.warnings)]
    lines = [f"{name:<18}{value}" for name, value in facts.items()]
    found = format_preflight_report(report) or "nothing to complain about"
    _print(chosen, {**facts, "ok": report.ok, "issues": issues}, "\n".join([*lines, "", found]))
    return 0 if report.ok else 1


def _chat(chosen: argparse.Namespace) -> int:
    from molecule_runtime.main import local_turn

    environment, output = _environment(), local_turn.TerminalOutput(is_quiet=chosen.as_json)
    try:
        adapter = local_turn.make_adapter(environment)
        outcome = asyncio.run(local_turn.take_turn(environment, adapter, chosen.text, output))
    except Exception as problem:  # noqa: BLE001 - told to whoever asked
        text = str(problem) or type(problem).__name__
        _print(chosen, {"state": "failed", "problem": text}, f"the engine cannot be asked: {text}")
        return 1
    if chosen.as_json:
        print(json.dumps({"state": outcome.state, "text": outcome.text, "events": output.events}, indent=2))
    return 0 if outcome.state in ("completed", "input-required") else 1


def _environment() -> "Environment":
    """The environment of a command that needs no platform, and so no workspace id."""
    from molecule_runtime.settings.environment import LOCAL_WORKSPACE_ID, Environment

    return Environment.read({"WORKSPACE_ID": LOCAL_WORKSPACE_ID, **os.environ})


def _check(chosen: argparse.Namespace) -> int:
    from molecule_runtime.domain.config_values import ConfigError
    from molecule_runtime.settings.config import load_config
    from molecule_runtime.settings.environment import config_dir
    from molecule_runtime.settings.preflight import format_preflight_report, run_preflight

    folder = config_dir(os.environ)
    try:
        report = run_preflight(load_config(str(folder)), folder)
    except (ConfigError, FileNotFoundError) as problem:
        _print(chosen, {"ok": False, "problems": str(problem).splitlines()}, str(problem))
        return 1
    issues = [vars(issue) for issue in (*report.failures, *report.warnings)]
    text = format_preflight_report(report) or f"{folder}: nothing to complain about"
    _print(chosen, {"ok": not report.failures, "issues": issues}, text)
    return 1 if report.failures else 0


def _runtimes(chosen: argparse.Namespace) -> int:
    from molecule_runtime.registry.adapters import discover_adapters, list_adapters

    rows: list[Any] = list_adapters()
    if chosen.as_json:
        found = discover_adapters()
        rows = [{**row, **_schema(found.get(row["name"]))} for row in rows]
    lines = [f"{row['name']:<16}{'yes' if row['available'] else 'no':<5}{row['description']}" for row in rows]
    _print(chosen, rows, "\n".join([f"{'runtime':<16}{'here':<5}what it is", *lines]))
    return 0


def _schema(adapter: Any) -> dict[str, Any]:
    """What an adapter that can be imported says of its `runtime_config`."""
    return {} if adapter is None else {"config_schema": adapter.get_config_schema()}


def _conformance(chosen: argparse.Namespace) -> int:
    from molecule_runtime.testing import conformance
    from molecule_runtime.testing.probe import Probe

    headers = {"Authorization": f"Bearer {chosen.token}"} if chosen.token else {}
    results = list[Any]()
    for result in conformance.run(Probe(chosen.url, headers)):
        results.append({"name": result.name, "passed": result.passed, "problem": result.problem})
        if not chosen.as_json:
            print(f"{'pass' if result.passed else 'FAIL'}  {result.name}", flush=True)
            if result.problem:
                print(f"      {result.problem}", flush=True)
    if chosen.as_json:
        print(json.dumps(results, indent=2))
    return 0 if all(result["passed"] for result in results) else 1


def _snapshot(chosen: argparse.Namespace) -> int:
    from molecule_runtime.kit.state import snapshot

    if chosen.verb == "clear":
        snapshot.delete_snapshot()
        _print(chosen, {"cleared": True}, "the snapshot is gone")
        return 0
    kept = snapshot.read_snapshot()
    if kept is None:
        _print(chosen, None, f"there is no snapshot at {snapshot.snapshot_path()}")
        return 1
    print(json.dumps(kept, indent=2, ensure_ascii=False))
    return 0


def _hermes_proof(chosen: argparse.Namespace) -> int:
    from molecule_runtime.main.hermes_selftest import run_hermes_proof

    return run_hermes_proof(as_json=chosen.as_json)


def _print(chosen: argparse.Namespace, value: Any, text: str) -> None:
    print(json.dumps(value, indent=2) if chosen.as_json else text)


_COMMANDS = {
    "run": _run,
    "check": _check,
    "smoke": _smoke,
    "doctor": _doctor,
    "chat": _chat,
    "runtimes": _runtimes,
    "conformance": _conformance,
    "snapshot": _snapshot,
    "hermes-proof": _hermes_proof,
}
