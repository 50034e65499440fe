"""`molecule-skill run`: the production server."""

import argparse
import logging

from molecule_skill.cli import project
from molecule_skill.cli.output import CommandFailed, Output


def run(options: argparse.Namespace, output: Output) -> int:
    """Serve until SIGTERM or Ctrl-C, then drain."""
    from molecule_skill.serve import callers, server
    from molecule_skill.serve.app import make_app

    found = project.find(options.project)
    agent = found.instance()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    kept = project.secrets(found, options.env_file, tuple(agent.required_secrets))
    resolver = callers.choose_resolver(agent, None)
    try:
        callers.check_bind(resolver, options.host)
        listener = server.bind(options.host, options.port)
    except callers.RefusedToStart as problem:
        raise CommandFailed(str(problem)) from problem
    except server.PortTaken as problem:
        raise CommandFailed(f"{problem}; choose another with --port") from problem
    port = listener.getsockname()[1]

    async def serve() -> None:
        app = make_app(agent, resolver=resolver, store=None, grants=None, sandboxes=None, secrets=kept)
        await app.start()
        readiness = app.gate.readiness()
        if not readiness.ok:
            await app.stop()
            raise CommandFailed(f"{agent.name} cannot start: {'; '.join(readiness.reasons)}")
        await server.serve_until_signal(
            app, listener, lambda: output.line(f"{agent.name} listens on http://{options.host}:{port}")
        )

    server.run(serve())
    output.value({"ok": True, "agent": agent.name})
    return 0
