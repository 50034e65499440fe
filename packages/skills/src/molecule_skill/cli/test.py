"""`molecule-skill test`: checks of a project, then its safe skills with made-up arguments."""

import argparse
import asyncio
import inspect
import os
from pathlib import Path
from typing import Any

from molecule_skill.cli import project, samples
from molecule_skill.cli.output import CommandFailed, Output
from molecule_skill.cli.traces import author_lines

RUN_SECONDS = 30.0


class _Report:
    """What was found; `failed` decides the exit code."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self.lines: list[dict[str, str]] = []

    def add(self, state: str, what: str, says: str = "") -> None:
        self.lines.append({"state": state, "check": what, "detail": says})
        mark = {"ok": "ok  ", "warning": "warn", "failed": "FAIL", "skipped": "skip"}[state]
        self._output.line(f"{mark} {what}{': ' + says if says else ''}")

    @property
    def failed(self) -> bool:
        return any(line["state"] == "failed" for line in self.lines)


def run(options: argparse.Namespace, output: Output) -> int:
    """Check everything; exit code 1 when something failed."""
    found = project.find(options.project)
    report = _Report(output)
    report.add("ok", "project", f"{found.root.name}, entrypoint {found.entrypoint}")
    agent = found.instance()
    report.add("ok", "import", f"{agent.name} {agent.version}, {len(agent.skills)} skills")
    _check_card(report, found, agent)
    secrets = _check_environment(report, found, agent, options.env_file)
    _check_sandbox(report, agent)
    for name, spec in agent.skills.items():
        if inspect.signature(spec.handler).return_annotation is inspect.Signature.empty:
            report.add("warning", f"skill {name}", "no return annotation: its result is not checked")
    if options.skill is not None and options.skill not in agent.skills:
        raise CommandFailed(f"there is no skill {options.skill!r}; there are {', '.join(agent.skills)}")
    for name, spec in agent.skills.items():
        is_safe = spec.idempotent or "safe" in spec.tags
        if options.skill == name or (options.skill is None and is_safe and not report.failed):
            made = samples.json_object(options.args, "--args") if options.skill and options.args else None
            asyncio.run(_run_skill(report, found.root, agent, name, made, secrets))
        elif options.skill is None:
            report.add("skipped", f"run {name}", "not marked safe (idempotent=True or the tag 'safe')")
    output.value({"ok": not report.failed, "checks": report.lines})
    return 1 if report.failed else 0


def _check_card(report: _Report, found: project.Project, agent: Any) -> None:
    differences = project.drift(found, agent)
    for difference in differences:
        report.add("failed", "card", difference)
    card = agent.card()
    card.from_a2a(card.to_a2a())
    if not differences:
        report.add("ok", "card", "valid, and config.yaml agrees with it")
    report.add("ok", "schemas", ", ".join(agent.skills) or "no skills")


def _check_environment(
    report: _Report, found: project.Project, agent: Any, env_file: Path | None
) -> dict[str, str]:
    missing = [name for name in agent.required_env if name not in os.environ]
    report.add(
        "failed" if missing else "ok",
        "environment",
        f"set {', '.join(missing)}" if missing else "everything required is set",
    )
    names = tuple(agent.required_secrets)
    secrets = project.secrets(found, env_file, names)
    lacking = [name for name in names if name not in secrets]
    says = f"put {', '.join(lacking)} into {project.ENV_FILE}" if lacking else "all there"
    report.add("failed" if lacking else "ok", "secrets", says)
    return secrets


def _check_sandbox(report: _Report, agent: Any) -> None:
    report.add("skipped", "sandbox", "sandboxes are not part of this version")
    access = agent.workspace_access
    report.add(
        "ok", "workspace", f"up to {access.max_files} files" if access.enabled else "no access declared"
    )


async def _run_skill(
    report: _Report,
    root: Path,
    agent: Any,
    name: str,
    arguments: dict[str, Any] | None,
    secrets: dict[str, str],
) -> None:
    from molecule_skill.identity import NoAuth
    from molecule_skill.local_context import LocalRunContext
    from molecule_skill.paths import normalize

    values = samples.arguments(agent.skills[name].input_schema) if arguments is None else arguments
    ctx = LocalRunContext(auth=NoAuth(), secrets=secrets, caller="local")
    try:
        async with asyncio.timeout(RUN_SECONDS):
            await agent.invoke_json(name, ctx, values)
    except TimeoutError:
        report.add("failed", f"run {name}", f"it did not end within {RUN_SECONDS:g} s with {values}")
        return
    except Exception as problem:  # noqa: BLE001 - an author's code may raise anything
        report.add("failed", f"run {name}", f"with {values}\n{author_lines(problem, root)}")
        return
    report.add(
        "ok", f"run {name}", f"with {values}: {len(ctx.events)} events, {len(ctx.artifacts)} artifacts"
    )
    for artifact in ctx.artifacts:
        try:
            normalize(artifact)
        except ValueError as problem:
            report.add("warning", f"run {name}", f"hosting refuses the artifact name {artifact!r}: {problem}")
