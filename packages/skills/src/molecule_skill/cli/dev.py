"""`molecule-skill dev`: the agent on this machine, with a page to try it and code that is read again on save.

A save makes a new agent for new runs. Runs that are under way, also those that wait for a person, go on with
the code that they began with, until the last of them is over.
"""

import argparse
import asyncio
import hmac
import logging
import secrets
from pathlib import Path

from molecule_a2a.asgi import Receive, Scope, Send
from molecule_skill.auth import NoAuthResolver
from molecule_skill.cli import project
from molecule_skill.cli.output import CommandFailed, Output
from molecule_skill.cli.traces import AuthorFormatter
from molecule_skill.errors import AuthError
from molecule_skill.serve import callers, server, shapes
from molecule_skill.serve.app import SkillApp, error_response, make_app
from molecule_skill.serve.asgi import AsgiRequest, Response, json_response
from molecule_skill.store import RunStore, SqliteRunStore
from molecule_wire import JSON, JSONObject

LOOK_SECONDS = 0.2
IDLE_LOOK_SECONDS = 2.0
COOKIE = "molecule_dev"
LISTED_RUNS = 50
PAGE = Path(__file__).parent / "page"
_MEDIA = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css",
    ".svg": "image/svg+xml",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
)

log = logging.getLogger("molecule_skill")


def run(options: argparse.Namespace, output: Output) -> int:
    """Serve on loopback until Ctrl-C."""
    found = project.find(options.project)
    if options.workspace is not None:
        raise CommandFailed("--workspace needs file grants, which are not supported yet")
    handler = logging.StreamHandler()
    handler.setFormatter(AuthorFormatter(found.root))
    logging.getLogger().addHandler(handler)
    try:
        listener = server.bind("127.0.0.1", options.port)
    except server.PortTaken as problem:
        raise CommandFailed(f"{problem}; choose another with --port") from problem
    port = listener.getsockname()[1]
    app = DevServer(found, options.env_file, reload=not options.no_reload, output=output)

    def started() -> None:
        output.line("Open this address; it works once, then the browser is known:")
        output.verbatim(f"  http://127.0.0.1:{port}/_dev?token={app.token}")
        output.value({"ok": True, "url": f"http://127.0.0.1:{port}/_dev?token={app.token}"})
        if not options.no_reload:
            output.line("Saved files take effect at once. Ctrl-C ends.")

    server.run(server.serve_until_signal(app, listener, started))
    return 0


class DevServer:
    """An ASGI application: the page, and the agent of the newest code that could be loaded."""

    def __init__(
        self, found: project.Project, env_file: Path | None, *, reload: bool, output: Output
    ) -> None:
        self._project, self._env_file, self._output = found, env_file, output
        self._reloads = reload
        self.token = secrets.token_urlsafe(24)
        self._session = secrets.token_urlsafe(24)
        self._store: RunStore = SqliteRunStore(found.root / ".molecule" / "runs.db")
        self._apps: list[SkillApp] = []
        """The newest last; older ones have runs that are not over."""
        self._problem = ""
        self._version = 0
        self._watching: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Load the agent; one that cannot be loaded is shown on the page until a save mends it."""
        await self._load()
        if self._reloads:
            self._watching = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        """End all runs that do not survive a restart."""
        if self._watching is not None:
            self._watching.cancel()
        for app in self._apps:
            await app.stop()
        await self._store.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI scope."""
        if scope["type"] != "http":
            return None
        request = AsgiRequest(scope, receive)
        if request.path == "/_dev" or request.path.startswith("/_dev/"):
            try:
                callers.check_origin(request, NoAuthResolver())
                answer = await self._page(request)
            except AuthError as problem:
                answer = error_response(problem, request)
            return await answer.send(request, send)
        app = await self._app_for(request.path)
        if app is None:
            body: JSONObject = {"error": self._problem or "the agent is not loaded yet", "code": "agent-busy"}
            return await json_response(body, 503, {"retry-after": "1"}).send(request, send)
        return await app(scope, receive, send)

    # Code

    async def _load(self) -> None:
        self._version += 1
        try:
            agent = self._project.instance()
            kept = project.secrets(self._project, self._env_file, tuple(agent.required_secrets))
            app = make_app(
                agent,
                resolver=None,
                store=self._store,
                grants=None,
                sandboxes=None,
                secrets=kept,
                owns_store=False,
            )
            await app.start()
        except CommandFailed as problem:
            self._problem = str(problem)
            self._output.line(self._problem)
            return
        readiness = app.gate.readiness()
        self._problem = "" if readiness.ok else "\n".join(readiness.reasons)
        if self._problem:
            self._output.line(f"{agent.name} is not ready: {self._problem}")
        self._apps.append(app)
        self._output.line(f"{agent.name} {agent.version}: {', '.join(agent.skills) or 'no skills yet'}")

    async def _watch(self) -> None:
        known = self._saved_at()
        looks = 0
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            saved = self._saved_at()
            if saved != known:
                known = saved
                self._project = _again(self._project)
                await self._load()
            looks += 1
            if looks % int(IDLE_LOOK_SECONDS / LOOK_SECONDS) == 0:
                await self._retire()

    def _saved_at(self) -> dict[str, int]:
        root = self._project.root
        paths = [root / project.CONFIG, self._env_file or root / project.ENV_FILE]
        paths += [
            path
            for path in root.rglob("*.py")
            if not any(part.startswith(".") or part == "__pycache__" for part in path.relative_to(root).parts)
        ]
        return {str(path): path.stat().st_mtime_ns for path in paths if path.is_file()}

    async def _retire(self) -> None:
        """Shut down agents of older code whose last run is over."""
        for app in self._apps[:-1]:
            if not app.gate.active_runs():
                self._apps.remove(app)
                await app.stop()

    async def _app_for(self, path: str) -> SkillApp | None:
        """Who serves a path: the agent that has the run at work, else the newest."""
        kind, _, rest = path.lstrip("/").partition("/")
        run_id = rest.partition("/")[0]
        if kind in ("answers", "input-requests"):
            request = await self._store.request(run_id)
            run_id = request.run_id if request else ""
        for app in self._apps[:-1] if len(self._apps) > 1 else ():
            if run_id in app.gate.active_runs():
                return app
        return self._apps[-1] if self._apps else None

    # Page

    async def _page(self, request: AsgiRequest) -> Response:
        if request.method != "GET":
            raise AuthError("the page is only looked at", 403)
        token = request.query.get("token", "")
        if request.path == "/_dev" and token:
            return self._signed_in(token)
        if not hmac.compare_digest(_cookie(request), self._session):
            raise AuthError("open the address that 'molecule-skill dev' printed; it works once", 401)
        if request.path == "/_dev/api/state":
            return json_response(self._state())
        if request.path == "/_dev/api/runs":
            return json_response({"runs": await self._runs()})
        return _asset("index.html" if request.path == "/_dev" else request.path.removeprefix("/_dev/"))

    def _signed_in(self, token: str) -> Response:
        if not self.token or not hmac.compare_digest(token.encode(), self.token.encode()):
            raise AuthError(
                "this address was used already: start 'molecule-skill dev' again for a new one", 401
            )
        self.token = ""
        cookie = f"{COOKIE}={self._session}; Path=/_dev; HttpOnly; SameSite=Strict"
        return Response(
            303, b"", headers={"location": "/_dev", "set-cookie": cookie, "cache-control": "no-store"}
        )

    def _state(self) -> JSONObject:
        if not self._apps:
            return {
                "name": self._project.root.name,
                "agent_version": "",
                "description": "",
                "skills": [],
                "problem": self._problem,
                "version": self._version,
                "needs_token": False,
            }
        app = self._apps[-1]
        card = app.agent.card().to_json()
        return {
            "name": card["name"],
            "agent_version": card["version"],
            "description": card["description"],
            "skills": card["skills"],
            "problem": self._problem,
            "version": self._version,
            "needs_token": not isinstance(app.resolver, NoAuthResolver),
        }

    async def _runs(self) -> list[JSON]:
        if not self._apps:
            return []
        found = await self._apps[-1].gate.runs(None, limit=LISTED_RUNS)
        return [
            {
                "run_id": record.run_id,
                "skill": record.new.skill,
                "state": record.state.value,
                "created_at": shapes.moment(record.new.created_at),
            }
            for record in found
        ]


def _again(found: project.Project) -> project.Project:
    try:
        return project.find(found.root)
    except CommandFailed:
        return found  # half-written: the next save tells


def _asset(name: str) -> Response:
    path = PAGE / name
    if path.parent != PAGE or path.suffix not in _MEDIA or not path.is_file():
        return json_response({"error": "not found", "code": "not-found"}, 404)
    headers = {
        "content-security-policy": _POLICY,
        "x-content-type-options": "nosniff",
        "referrer-policy": "no-referrer",
        "cache-control": "no-store",
    }
    return Response(200, path.read_bytes(), _MEDIA[path.suffix], headers)


def _cookie(request: AsgiRequest) -> str:
    for pair in request.headers.get("cookie", "").split(";"):
        name, _, value = pair.strip().partition("=")
        if name == COOKIE:
            return value
    return ""
