"""`molecule-runtime hermes-proof`: prove that hermes' plugin path works in this installation."""

import asyncio
import json
import os
import signal
from dataclasses import asdict
from typing import Any

from molecule_runtime.runtimes.hermes.errors import HermesError
from molecule_runtime.runtimes.hermes.selftest import InstallSelftest, SelftestFailed, SelftestResult
from molecule_runtime.testing.scripted_model import ScriptedModel


def run_hermes_proof(*, as_json: bool) -> int:
    """Run the checks and tell each as it ends; 0 when all of them passed."""
    results = list[SelftestResult]()

    def report(result: SelftestResult) -> None:
        results.append(result)
        if not as_json:
            verdict = "pass" if result.passed else "FAIL"
            print(f"{verdict}  {result.number} {result.name}: {result.message}", flush=True)

    summary: dict[str, Any] = {"ok": False}
    try:
        with ScriptedModel() as model:
            proof, path = asyncio.run(_run(InstallSelftest(os.environ, model.base_url, report)))
        sentence = f"hermes plugin path proven: {proof.plugin_version} on hermes {proof.hermes_version}"
        summary = {"ok": True, "message": sentence, "proof": asdict(proof), "file": str(path)}
    except SelftestFailed:
        failed = results[-1]
        summary["message"] = sentence = f"hermes plugin path not proven: check {failed.number} failed"
    except (KeyboardInterrupt, asyncio.CancelledError):
        summary["message"] = sentence = "hermes plugin path not proven: interrupted"
    except (HermesError, RuntimeError) as problem:
        summary["message"] = sentence = f"hermes plugin path not proven: {problem}"
    if as_json:
        summary["checks"] = [{**asdict(result), "name": result.name} for result in results]
        print(json.dumps(summary, indent=2))
    else:
        print(sentence)
    return 0 if summary["ok"] else 1


async def _run(proof: InstallSelftest) -> Any:
    """Run a proof that SIGTERM ends as Ctrl-C does: the gateway is stopped before the command ends."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await proof.run()
