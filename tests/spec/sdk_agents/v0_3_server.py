"""An agent made with a2a-sdk 0.3, which speaks nothing newer. Runs in the environment of that SDK.

`hi` gets one Message, `slow` a task that works until it is cancelled, `ask` a question without words,
anything else a task that repeats it.

usage: python v0_3_server.py PORT
"""

import asyncio
import sys

import uvicorn
from a2a.server.agent_execution import AgentExecutor
from a2a.server.apps import A2AStarletteApplication
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentSkill, Part, TaskState, TextPart
from a2a.utils import new_agent_text_message, new_task

SLOW_SECONDS = 60


class Echo(AgentExecutor):
    """Repeats what it is told."""

    async def execute(self, context, event_queue):
        said = context.get_user_input()
        if said == "hi":
            await event_queue.enqueue_event(new_agent_text_message("hello", context.context_id))
            return
        task = context.current_task or new_task(context.message)
        if context.current_task is None:
            await event_queue.enqueue_event(task)
        updates = TaskUpdater(event_queue, task.id, task.context_id)
        if said == "ask":
            await updates.update_status(TaskState.input_required, final=True)
            return
        await updates.start_work()
        if said == "slow":
            await asyncio.sleep(SLOW_SECONDS)
        await updates.add_artifact([Part(root=TextPart(text=f"re: {said}"))], artifact_id="out")
        await updates.complete()

    async def cancel(self, context, event_queue):
        task = context.current_task
        await TaskUpdater(event_queue, task.id, task.context_id).update_status(TaskState.canceled, final=True)


def main(port):
    card = AgentCard(
        name="echo",
        description="Repeats text",
        version="1.0.0",
        url=f"http://127.0.0.1:{port}/",
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="echo", name="Echo", description="Repeats text", tags=["demo"])],
    )
    handler = DefaultRequestHandler(Echo(), InMemoryTaskStore())
    app = A2AStarletteApplication(agent_card=card, http_handler=handler).build()
    uvicorn.run(app, port=port, log_level="error")


if __name__ == "__main__":
    main(int(sys.argv[1]))
