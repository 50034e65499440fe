"""The files of a new project, by template."""

_BASIC = '''"""An agent with one skill: edit it while `molecule-skill dev` runs."""

from molecule_skill import A2AAgent, RunContext, skill


class Agent(A2AAgent):
    name = "{name}"
    description = "Greets people."
    version = "0.1.0"

    @skill(idempotent=True)
    async def greet(self, ctx: RunContext, name: str, times: int = 1) -> str:
        """Say hello to somebody."""
        await ctx.emit_progress(f"greeting {{name}}")
        return " ".join([f"Hello, {{name}}!"] * times)
'''
_BASIC_TEST = '''"""The skill runs here as it does in production; nothing is mocked."""

import asyncio

import pytest
from agent import Agent

from molecule_skill import SkillInputError


def test_it_greets() -> None:
    assert asyncio.run(Agent().local_invoke("greet", name="Ada")) == "Hello, Ada!"


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(SkillInputError):
        asyncio.run(Agent().local_invoke("greet", name="Ada", times="often"))
'''
_CHAT = '''"""An agent that is spoken to: plain text goes to its default skill."""

from molecule_skill import A2AAgent, RunContext, skill


class Agent(A2AAgent):
    name = "{name}"
    description = "Answers in plain text."
    version = "0.1.0"
    default_skill = "reply"

    @skill(stream=True)
    async def reply(self, ctx: RunContext, text: str) -> str:
        """Answer a message, word by word."""
        mood = await ctx.ask("How do you feel today?")
        answer = f"You said {{text!r}} and feel {{mood}}."
        for word in answer.split(" "):
            await ctx.emit_text_delta(word + " ")
        return answer
'''
_CHAT_TEST = '''"""A question is answered beforehand: the test waits for nobody."""

import asyncio

from agent import Agent

from molecule_skill import LocalRunContext, NoAuth


async def talk() -> str:
    ctx = LocalRunContext(auth=NoAuth(), answers=["fine"])
    answer = await Agent().invoke("reply", ctx, text="hi")
    assert [event.kind for event in ctx.events].count("text_delta") > 3
    return answer


def test_it_asks_and_answers() -> None:
    assert asyncio.run(talk()) == "You said 'hi' and feel fine."
'''
_FILES = '''"""An agent that writes a file."""

import csv
import io

from molecule_skill import A2AAgent, RunContext, skill


class Agent(A2AAgent):
    name = "{name}"
    description = "Makes tables."
    version = "0.1.0"

    @skill(idempotent=True)
    async def table(self, ctx: RunContext, rows: list[list[str]]) -> int:
        """Write rows into a CSV file; the result is how many there are."""
        text = io.StringIO()
        csv.writer(text).writerows(rows)
        ref = await ctx.write_artifact("table.csv", text.getvalue().encode(), "text/csv")
        await ctx.emit_artifact(ref)
        return len(rows)
'''
_FILES_TEST = '''"""The file that the skill writes is there to look at."""

import asyncio

from agent import Agent

from molecule_skill import LocalRunContext, NoAuth


def test_it_writes_a_table() -> None:
    async def write() -> LocalRunContext[NoAuth]:
        ctx = LocalRunContext(auth=NoAuth())
        assert await Agent().invoke("table", ctx, rows=[["a", "b"], ["1", "2"]]) == 2
        return ctx

    assert asyncio.run(write()).artifacts["table.csv"] == b"a,b\\r\\n1,2\\r\\n"
'''
_CONFIG = """name: {name}
description: {description}
version: 0.1.0
runtime: python
runtime_config:
  entrypoint: "agent:Agent"
"""
_PYPROJECT = """[project]
name = "{name}"
version = "0.1.0"
requires-python = ">=3.11"
dependencies = ["molecule-ai-skills[serve]"]

[dependency-groups]
dev = ["pytest>=8"]

[tool.pytest.ini_options]
pythonpath = ["."]
testpaths = ["tests"]
"""
_README = """# {name}

| you want to | run |
|---|---|
| try it in a browser | `molecule-skill dev` |
| check it | `molecule-skill test`, `pytest` |
| call it here | `molecule-skill call . {skill}` |
| serve it | `molecule-skill run --host 127.0.0.1` |

Secrets go into `.env.local` (see `.env.local.example`) and are declared in `required_secrets`.
"""
_ENV = """# Copy to .env.local. Declare each name in required_secrets of the agent; a skill reads it with
# ctx.secret("NAME").
# OPENAI_API_KEY=
"""
_GITIGNORE = ".env.local\n.molecule/\n.venv/\n__pycache__/\n.pytest_cache/\n"

_TEMPLATES = {
    "basic": (_BASIC, _BASIC_TEST, "Greets people.", "greet name=Ada"),
    "chat": (_CHAT, _CHAT_TEST, "Answers in plain text.", "reply text=hi"),
    "files": (_FILES, _FILES_TEST, "Makes tables.", "table rows='[[\"a\"]]'"),
}


def files(name: str, template: str) -> dict[str, str]:
    """The files of a project by their paths."""
    agent, test, description, call = _TEMPLATES[template]
    return {
        "agent.py": agent.format(name=name),
        "config.yaml": _CONFIG.format(name=name, description=description),
        "pyproject.toml": _PYPROJECT.format(name=name),
        "tests/test_agent.py": test,
        ".env.local.example": _ENV,
        ".gitignore": _GITIGNORE,
        "README.md": _README.format(name=name, skill=call),
    }
