"""The baseline of figures about A2A: the reference server of the official SDK, answering by itself.

`hi` gets one Message; `task:N` gets a Task, its start, N artifact updates and its end.

usage: python -m benchmarks.sdk_server PORT
"""

import sys

import uvicorn
from a2a.helpers import new_task_from_user_message, new_text_message
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Part, Role
from starlette.applications import Starlette


class Echo(AgentExecutor):
    """One Message, or a task of as many chunks as asked for."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        said = context.get_user_input()
        if said == "hi":
            answer = new_text_message("hello", context_id=context.context_id, role=Role.ROLE_AGENT)
            await event_queue.enqueue_event(answer)
            return
        assert context.message is not None
        assert context.task_id is not None
        assert context.context_id is not None
        await event_queue.enqueue_event(new_task_from_user_message(context.message))
        updates = TaskUpdater(event_queue, context.task_id, context.context_id)
        await updates.start_work()
        for number in range(int(said.partition(":")[2])):
            parts = [Part(text=f"chunk {number}")]
            await updates.add_artifact(parts, artifact_id="out", append=number > 0)
        await updates.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        raise NotImplementedError


def main(port: int) -> None:
    card = AgentCard(
        name="echo",
        description="Repeats text",
        version="1.0.0",
        supported_interfaces=[
            AgentInterface(
                url=f"http://127.0.0.1:{port}/rpc", protocol_binding="JSONRPC", protocol_version="1.0"
            )
        ],
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="echo", name="Echo", description="Repeats text", tags=["demo"])],
    )
    handler = DefaultRequestHandler(Echo(), InMemoryTaskStore(), card)
    routes = [
        *create_agent_card_routes(card, cache_control="max-age=60"),
        *create_jsonrpc_routes(handler, rpc_url="/rpc", enable_v0_3_compat=True),
        *create_rest_routes(handler, path_prefix="/rest"),
    ]
    uvicorn.run(Starlette(routes=routes), port=port, log_level="warning")


if __name__ == "__main__":
    main(int(sys.argv[1]))
