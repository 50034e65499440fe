"""`molecule-skill call`: run a skill of this project, a URL or the platform, and answer its questions."""

import argparse
import asyncio
import json
import os
import stat
import sys
from pathlib import Path
from typing import Any, cast

from molecule_skill.a2a_client import CallResult
from molecule_skill.cli import project, samples
from molecule_skill.cli.output import CommandFailed, Output
from molecule_skill.cli.traces import author_lines
from molecule_skill.errors import A2AError, report_of

CREDENTIALS = Path(".molecule/credentials.json")


def run(options: argparse.Namespace, output: Output) -> int:
    """Run the skill and print its result."""
    if options.grant is not None:
        raise CommandFailed("file grants are not supported yet: call without --grant")
    values = samples.json_object(options.args, "--args")
    if options.target == ".":
        return asyncio.run(_here(options, output, values))
    if options.target.startswith("platform:"):
        return asyncio.run(_platform(options, output, values))
    if options.target.startswith(("http://", "https://")):
        return asyncio.run(_url(options, output, values))
    raise CommandFailed("TARGET is a URL, platform:NAME, or . for this project", exit_code=2)


async def _here(options: argparse.Namespace, output: Output, values: dict[str, Any]) -> int:
    """Run it in this process, through the same gate as a server's."""
    from molecule_skill.auth import NoAuthResolver
    from molecule_skill.hosted import GateSettings, Invocation, RunGate
    from molecule_skill.store import MemoryRunStore

    found = project.find(options.project)
    agent = found.instance()
    spec = agent.skills.get(options.skill)
    if spec is None:
        raise CommandFailed(f"there is no skill {options.skill!r}; there are {', '.join(agent.skills)}")
    values |= samples.typed(options.values, spec.input_schema)
    secrets = project.secrets(found, options.env_file, tuple(agent.required_secrets))
    gate = RunGate(
        agent, MemoryRunStore(), GateSettings(resolver=NoAuthResolver(), secrets=secrets, drain_seconds=0.0)
    )
    await gate.start()
    try:
        ctx = await gate.open(Invocation("cli", options.skill, values))
        _, by = await gate.identify(None, {})
        async for event in gate.reader(ctx.run_id, by.principal).follow():
            _tell(output, options, event.kind, event.payload)
            if event.kind in ("question", "input_request"):
                answered = await _prompt(event.kind, event.payload)
                await gate.answer(_id_of(event.payload), by, answered)
        record = await gate.run(ctx.run_id, by.principal)
        if record.failure is not None:
            raise CommandFailed(f"{record.failure.code}: {record.failure.error}", code=record.failure.code)
        artifacts = [one.name for one in await gate.reader(ctx.run_id, by.principal).artifacts()]
        _result(output, record.result, artifacts, record.run_id)
        return 0
    except CommandFailed:
        raise
    except Exception as problem:
        raise _failed(problem, found.root) from problem
    finally:
        await gate.close()


async def _url(options: argparse.Namespace, output: Output, values: dict[str, Any]) -> int:
    from molecule_skill.clients.http import HttpA2AClient

    base = options.target.rstrip("/")
    tokens = credentials(Path.home())
    client = HttpA2AClient(credentials=tokens, allow_private=True)
    peer = _Peer(base, tokens)
    try:
        if options.values:
            values |= samples.typed(options.values, await peer.schema(options.skill))
        async for item in client.stream(base, options.skill, args=values, timeout=options.timeout):
            if isinstance(item, CallResult):
                _result(output, item.result, [one.name for one in item.artifacts], item.run_id)
                continue
            _tell(output, options, item.kind, item.payload)
            if item.kind in ("question", "input_request"):
                await peer.answer(item.kind, item.payload, await _prompt(item.kind, item.payload))
        return 0
    except (A2AError, TimeoutError) as problem:
        raise _failed(problem, Path()) from problem
    finally:
        await client.close()
        await peer.close()


async def _platform(options: argparse.Namespace, output: Output, values: dict[str, Any]) -> int:
    from molecule_skill.clients.platform import PlatformA2AClient
    from molecule_skill.http_client import origin

    url, workspace = os.environ.get("PLATFORM_URL", ""), os.environ.get("WORKSPACE_ID", "")
    token = credentials(Path.home()).get(origin(url) if url else "", "")
    if not url or not workspace or not token:
        raise CommandFailed(
            f"set PLATFORM_URL and WORKSPACE_ID, and put the token for that origin into ~/{CREDENTIALS}"
        )
    client = PlatformA2AClient(url, workspace, token)
    try:
        values |= samples.typed(options.values, {})
        name = options.target.removeprefix("platform:")
        result = await client.call(name, options.skill, args=values, timeout=options.timeout)
        _result(output, result.result, [one.name for one in result.artifacts], result.run_id)
        return 0
    except (A2AError, TimeoutError, KeyError) as problem:
        raise _failed(problem, Path()) from problem
    finally:
        await client.close()


class _Peer:
    """The served agent, beside the call: its card, and the answers to its questions."""

    def __init__(self, base: str, tokens: dict[str, str]) -> None:
        from molecule_skill.http_client import HttpClient, origin

        self._base = base
        self._http = HttpClient(allow_private=True)
        token = tokens.get(origin(base))
        self._headers = {"authorization": f"Bearer {token}"} if token else {}

    async def schema(self, skill: str) -> dict[str, Any]:
        """The schema of a skill's arguments."""
        url = f"{self._base}/.well-known/agent-card"
        try:
            reply = await self._http.send("GET", url, headers=self._headers, timeout=10.0)
        except OSError as problem:
            raise CommandFailed(f"{self._base} does not answer: {problem}") from problem
        if reply.status != 200:
            raise CommandFailed(f"{url} answered {reply.status}: is a skill agent served there?")
        skills = {one["id"]: one for one in json.loads(reply.body)["skills"]}
        if skill not in skills:
            raise CommandFailed(f"there is no skill {skill!r}; there are {', '.join(skills)}")
        return skills[skill]["input_schema"]

    async def answer(self, kind: str, payload: dict[str, Any], value: Any) -> None:
        """Answer a question or a form."""
        place, member = ("answers", "answer") if kind == "question" else ("input-requests", "value")
        content = json.dumps({member: value}).encode()
        headers = {**self._headers, "content-type": "application/json"}
        url = f"{self._base}/{place}/{_id_of(payload)}"
        reply = await self._http.send("POST", url, headers=headers, content=content, timeout=10.0)
        if reply.status != 200:
            raise CommandFailed(f"the answer was refused: {reply.body.decode(errors='replace')}")

    async def close(self) -> None:
        """Give the connections up."""
        await self._http.close()


def credentials(home: Path) -> dict[str, str]:
    """Tokens by origin, of a file that only its owner may read. Raises CommandFailed."""
    path = home / CREDENTIALS
    if not path.is_file():
        return {}
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise CommandFailed(f"{path} can be read by others: run 'chmod 600 {path}'")
    try:
        kept: Any = json.loads(path.read_text())
    except ValueError as problem:
        raise CommandFailed(f"{path} is no JSON") from problem
    entries = cast("dict[str, Any]", kept) if isinstance(kept, dict) else {}
    return {url: _token(entry) for url, entry in entries.items()}


def _token(entry: Any) -> str:
    return str(cast("dict[str, Any]", entry).get("token", "")) if isinstance(entry, dict) else str(entry)


async def _prompt(kind: str, payload: dict[str, Any]) -> Any:
    """Ask the person at the terminal; without one there is nobody to ask."""
    text = payload.get("prompt") or payload.get("title") or ""
    if kind == "question":
        return await _read_line(f"{text} ")
    schema: dict[str, Any] = payload.get("schema") or {}
    print(text, file=sys.stderr)
    answers: list[str] = []
    for name in schema.get("properties", {}):
        line = await _read_line(f"  {name}: ")
        if line or name in schema.get("required", []):
            answers.append(f"{name}={line}")
    return samples.typed(answers, schema)


async def _read_line(prompt: str) -> str:
    print(prompt, end="", file=sys.stderr, flush=True)
    line = await asyncio.to_thread(sys.stdin.readline)
    if not line:
        raise CommandFailed("the skill asks a question, and there is no terminal to answer it")
    return line.rstrip("\n")


def _tell(output: Output, options: argparse.Namespace, kind: str, payload: dict[str, Any]) -> None:
    if not options.stream:
        return
    if output.as_json:
        output.value({"kind": kind, "payload": payload})
    elif kind == "progress":
        output.line(f"… {payload.get('message', '')}")
    elif kind == "text_delta":
        print(payload.get("text", ""), end="", flush=True)
    elif kind not in ("question", "input_request", "interaction_closed"):
        output.line(f"[{kind}] {json.dumps(payload, ensure_ascii=False) if payload else ''}".rstrip())


def _result(output: Output, result: Any, artifacts: list[str], run_id: str | None) -> None:
    output.verbatim(result if isinstance(result, str) else json.dumps(result, indent=2, ensure_ascii=False))
    for name in artifacts:
        output.line(f"[artifact] {name}")
    output.value({"ok": True, "run_id": run_id, "result": result, "artifacts": artifacts})


def _failed(problem: BaseException, root: Path) -> CommandFailed:
    if isinstance(problem, A2AError | TimeoutError | KeyError):
        return CommandFailed(str(problem), code=getattr(problem, "code", None))
    report = report_of(problem)
    if report.code == "skill-failed":
        return CommandFailed(author_lines(problem, root), code=report.code)
    return CommandFailed(f"{report.code}: {report.sentence}", code=report.code)


def _id_of(payload: dict[str, Any]) -> str:
    return str(payload.get("question_id") or payload.get("request_id"))
