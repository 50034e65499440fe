"""`molecule key`: the keys with which the platform signs what it says of callers, and agent cards."""

import typer

from molecule_platform.cli import output
from molecule_platform.cli.session import ApiSession, command

keys = typer.Typer(no_args_is_help=True, help="The keys with which the platform signs.")


@command(keys, "rotate", serves=("key.rotate",))
def rotate(session: ApiSession) -> None:
    """Make new keys to sign with.

    They sign once every agent can know them; what the ones before signed can be checked for another 30 days.
    Keys that no longer open, because the key of the secrets was lost, are replaced at once.
    """
    done = session.client.post("/admin/keys/rotate", {}).object()
    new = ", ".join(f"{kid} ({alg})" for alg, kid in done["keys"].items())
    session.answer(done, f"The new keys are {new}. They sign from {output.moment(done['signs_at'])} on.")
