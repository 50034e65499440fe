"""Two agents that say the time as their first piece: one takes its mail from the inbox, one has a URL.

The words of a message are the seconds that the handler waits before that.

usage: python -m benchmarks.streaming_agent PORT PLATFORM_URL FOLDER MAIL_ID MAIL_TOKEN PUSHED_ID PUSHED_TOKEN
"""

import sys
import time
from collections.abc import Iterator
from pathlib import Path

from molecule_agent import InboundMessage, InboxDelivery, RemoteAgentClient


def answer(message: InboundMessage) -> Iterator[str]:
    time.sleep(float(message.text))
    # The clock that all processes of a machine share.
    yield f"<{time.monotonic():.6f}> "
    time.sleep(0.05)
    yield "and no more."


def main() -> None:
    port, url, folder, *members = sys.argv[1:]
    mail, pushed = (
        RemoteAgentClient(workspace_id, url, token_dir=Path(folder) / workspace_id)
        for workspace_id in members[::2]
    )
    mail.save_token(members[1])
    pushed.save_token(members[3])
    mail.register()
    pushed.start_a2a_server(answer, host="127.0.0.1", port=int(port))
    pushed.register()
    mail.run_agent_loop(answer, InboxDelivery(mail))


if __name__ == "__main__":
    main()
