"""Measures every budget, prints a table, exits 1 on a miss.  usage: python -m benchmarks.run [NAME ...]

Each module measures in a process of its own: who sends the load is as fresh in a run of all of them as in a
run of one.
"""

import itertools
import multiprocessing
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor

from benchmarks import (
    agent_servers,
    call_peer,
    card,
    crowded_mailbox,
    events_replay,
    figure,
    first_piece,
    gateway_stream,
    gateway_unary,
    group_commit,
    heartbeat,
    held_streams,
    hermes_bridge,
    idle_agent,
    idle_subscribers,
    import_agent,
    import_skill,
    kept_messages,
    listing,
    runtime_boot,
    runtime_turns,
    skill_turns,
    slow_webhook,
    start,
)

BENCHMARKS: dict[str, Callable[[], figure.Figure]] = {
    "start": start.measure,
    "group_commit": group_commit.measure,
    "import_agent": import_agent.measure,
    "import_skill": import_skill.measure,
    "call_peer": call_peer.measure,
    "idle_agent": idle_agent.waiting,
    "idle_agent_abandoned": idle_agent.abandoned,
    "heartbeat": heartbeat.measure,
    "card": card.measure,
    "events_first_byte": events_replay.first_byte,
    "events_memory": events_replay.memory,
    "list_page": listing.measure_list,
    "list_page_of_a_lead": listing.measure_list_of_a_lead,
    "peers_page": listing.measure_peers,
    "kept_metrics": kept_messages.metrics,
    "kept_rare_activity": kept_messages.rare_activity,
    "kept_send": kept_messages.send,
    "kept_message_page": kept_messages.message_page,
    "kept_event_page": kept_messages.event_page,
    "gateway_unary": gateway_unary.against_echo,
    "gateway_unary_16": gateway_unary.against_echo_at_16,
    "gateway_unary_1": gateway_unary.against_echo_alone,
    "gateway_unary_sdk": gateway_unary.against_sdk,
    "sdk_server_unary": agent_servers.of_the_sdk,
    "asyncio_server_unary": agent_servers.on_asyncio,
    "runtime_unary": runtime_turns.unary,
    "runtime_stream": runtime_turns.event,
    "runtime_online": runtime_boot.online,
    "runtime_memory": runtime_boot.memory,
    "skill_invoke": skill_turns.invoke_in_memory,
    "skill_invoke_durable": skill_turns.invoke_durable,
    "skill_a2a": skill_turns.a2a_in_memory,
    "skill_a2a_durable": skill_turns.a2a_durable,
    "skill_event": skill_turns.event,
    "skill_waiting_memory": skill_turns.waiting_memory,
    "skill_waiting_processor": skill_turns.waiting_processor,
    "crowded_mailbox": crowded_mailbox.measure,
    "gateway_stream": gateway_stream.against_echo,
    "gateway_stream_sdk": gateway_stream.against_sdk,
    "first_piece_inbox_terminal": first_piece.inbox_to_terminal,
    "first_piece_inbox_page": first_piece.inbox_to_page,
    "first_piece_url_terminal": first_piece.push_to_terminal,
    "first_piece_url_page": first_piece.push_to_page,
    "idle_subscribers": idle_subscribers.measure,
    "slow_webhook": slow_webhook.measure,
    "held_streams": held_streams.measure,
    "hermes_chat": hermes_bridge.chat,
    "hermes_plugin": hermes_bridge.plugin,
}


def main(names: Sequence[str]) -> int:
    # Starts and imports are measured with warm bytecode, so whoever is started here must be able to keep it.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    unknown = sorted(set(names) - BENCHMARKS.keys())
    if unknown:
        print(f"No benchmark is called {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}.")
        return 1
    figures: list[figure.Figure] = []
    broken = False
    spawning = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawning, max_tasks_per_child=1) as process:
        for _, group in itertools.groupby(names or BENCHMARKS, lambda name: BENCHMARKS[name].__module__):
            try:
                figures += process.submit(_measured, list(group)).result()
            except Exception:  # noqa: BLE001 - the others are measured all the same
                traceback.print_exc()
                broken = True
    print(f"\n{figure.table(figures)}")
    # What could not be measured stands in the table; it is neither met nor missed.
    return 0 if not broken and all(one.met for one in figures if not one.not_measured) else 1


def _measured(names: list[str]) -> list[figure.Figure]:
    """The figures of one module, which shares what it measures among them."""
    figures: list[figure.Figure] = []
    for name in names:
        print(f"measuring {name} ...", flush=True)
        figures.append(BENCHMARKS[name]())
    return figures


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
