"""What a send costs when its sender has sent many before, on the path that looks for a repeat of each."""

import statistics

from benchmarks import figure, gateway, load, processes

BEFORE, REQUESTS, TURNS = 20_000, 1_000, 3
MOST = 1.25


def measure() -> figure.Figure:
    """Against the same sends while the mailbox was nearly empty."""
    body = gateway.message("hi", "SendMessage")
    with gateway.running() as ours:
        path = f"/workspaces/{ours.workspaces[0]}/a2a"
        server = processes.Server(ours.platform.port, ours.platform.pid)
        token = f"Bearer {ours.token}"

        def sends(many: int) -> gateway.Cost:
            def request(number: int) -> bytes:
                return load.post(path, body(number), A2A_Version="1.0", Authorization=token)

            return gateway.Side(server, request, many).turn()

        sends(REQUESTS)
        first = [sends(REQUESTS).cpu for _ in range(TURNS)]
        sends(BEFORE)
        last = [sends(REQUESTS).cpu for _ in range(TURNS)]
    empty, crowded = statistics.median(first), statistics.median(last)
    limits = (
        f"SQLite, one sender, {gateway.CONNECTIONS} connections, medians of {TURNS} turns; "
        f"CPU {crowded * 1e6:.0f} us against {empty * 1e6:.0f} us"
    )
    name = f"a send after {BEFORE:,} / the first ones"
    return figure.Figure(name, crowded / empty, "x", figure.Ceiling(MOST), limits)


if __name__ == "__main__":
    print(figure.table([measure()]))
