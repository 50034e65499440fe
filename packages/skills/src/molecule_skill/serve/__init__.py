"""Serving an agent: HTTP with JSON and server-sent events, and A2A; every way in goes through one gate."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from molecule_skill.agent import A2AAgent
    from molecule_skill.identity import AuthResolver
    from molecule_skill.sandbox import SandboxClient
    from molecule_skill.serve.app import SkillApp
    from molecule_skill.store import RunStore

__all__ = ["build_app"]


def build_app(
    agent: "A2AAgent[Any, Any] | type[A2AAgent[Any, Any]]",
    *,
    resolver: "AuthResolver | None" = None,
    store: "RunStore | None" = None,
    grants: Any = None,
    sandboxes: "SandboxClient | None" = None,
) -> "SkillApp":
    """An ASGI application that serves an agent, also below a prefix; needs the extra `serve`.

    Without a `resolver` the agent's own `auth_resolver` is asked, in a workspace the platform, and else
    nobody: then only requests from this machine are served. Without a `store` runs are kept in
    `.molecule/runs.db`.
    """
    try:
        from molecule_skill.serve.app import make_app
    except ImportError as problem:
        if problem.name not in ("starlette", "uvicorn", "molecule_a2a"):
            raise
        sentence = "serving an agent needs the extra 'serve': pip install 'molecule-ai-skills[serve]'"
        raise ImportError(sentence) from problem
    return make_app(agent, resolver=resolver, store=store, grants=grants, sandboxes=sandboxes)
