"""`molecule-skill card`: show the card, or check that config.yaml agrees with it."""

import argparse
import json

from molecule_skill.cli import project
from molecule_skill.cli.output import CommandFailed, Output


def run(options: argparse.Namespace, output: Output) -> int:
    """Print the card of the project's agent."""
    found = project.find(options.project)
    agent = found.load()
    card = agent.card()
    differences = project.drift(found, agent)
    if differences:
        raise CommandFailed("\n".join([*differences, "Make them say the same."]), problems=differences)
    if options.check:
        card.from_a2a(card.to_a2a())
        output.line(f"The card of {agent.name} is valid, and config.yaml agrees with it.")
        output.value({"ok": True, "agent": agent.name})
        return 0
    document = card.to_json() if options.format == "native" else card.to_a2a()
    output.verbatim(json.dumps(document, indent=2, ensure_ascii=False))
    output.value(document)
    return 0
