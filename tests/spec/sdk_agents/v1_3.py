"""An agent made with a2a-sdk 1.3: JSON-RPC and HTTP+JSON, protocol 1.0 alone unless told to speak 0.3 too.

`hi` gets one Message, `slow` a task that works until it is cancelled, `ask` a question without words,
anything else a task that repeats it.

usage: python -m tests.spec.sdk_agents.v1_3 PORT [--compat]
"""

import asyncio
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

SLOW_SECONDS = 60


class Echo(AgentExecutor):
    """Repeats what it is told."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        said = context.get_user_input()
        if said == "hi":
            answer = new_text_message("hello", context_id=context.context_id, role=Role.ROLE_AGENT)
            await event_queue.enqueue_event(answer)
            return
        assert context.message is not None
        assert context.task_id is not None
        known = context.current_task
        if known is None:
            await event_queue.enqueue_event(new_task_from_user_message(context.message))
        context_id = known.context_id if known else context.context_id
        assert context_id is not None
        updates = TaskUpdater(event_queue, context.task_id, context_id)
        if said == "ask":
            await updates.requires_input()
            return
        await updates.start_work()
        if said == "slow":
            await asyncio.sleep(SLOW_SECONDS)
        await updates.add_artifact([Part(text=f"re: {said}")], artifact_id="out", last_chunk=True)
        await updates.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.current_task is not None
        task = context.current_task
        await TaskUpdater(event_queue, task.id, task.context_id).cancel()


def card(base: str, *, compat: bool) -> AgentCard:
    bindings = [("/rpc", "JSONRPC", "1.0"), ("/rest", "HTTP+JSON", "1.0")]
    if compat:
        bindings.append(("/rpc", "JSONRPC", "0.3"))
    return AgentCard(
        name="echo",
        description="Repeats text",
        version="1.0.0",
        supported_interfaces=[
            AgentInterface(url=base + path, protocol_binding=binding, protocol_version=version)
            for path, binding, version in bindings
        ],
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="echo", name="Echo", description="Repeats text", tags=["demo"])],
    )


def main(port: int, *, compat: bool) -> None:
    served = card(f"http://127.0.0.1:{port}", compat=compat)
    handler = DefaultRequestHandler(Echo(), InMemoryTaskStore(), served)
    routes = [
        *create_agent_card_routes(served),
        *create_jsonrpc_routes(handler, rpc_url="/rpc", enable_v0_3_compat=compat),
        *create_rest_routes(handler, path_prefix="/rest"),
    ]
    uvicorn.run(Starlette(routes=routes), port=port, log_level="error")


if __name__ == "__main__":
    main(int(sys.argv[1]), compat="--compat" in sys.argv)
