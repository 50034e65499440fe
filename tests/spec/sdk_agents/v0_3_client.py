"""A conversation of the client of a2a-sdk 0.3, in the environment of that SDK; prints what it was told.

usage: python v0_3_client.py BASE TOKEN JSONRPC|HTTP+JSON [--work=WORDS] [--slow=WORDS] …

WORDS are what the agent answers at once, and what it works on until it is cancelled.
"""

import asyncio
import json
import sys

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.client.helpers import create_text_message_object
from a2a.types import (
    GetTaskPushNotificationConfigParams,
    Message,
    PushNotificationConfig,
    TaskIdParams,
    TaskPushNotificationConfig,
    TaskQueryParams,
    TaskState,
)

SECONDS = 30


def words(flag, otherwise):
    """What to say instead, as a flag names it."""
    given = [argument.partition("=")[2] for argument in sys.argv if argument.startswith(f"{flag}=")]
    return given[0] if given else otherwise


def plain(event):
    """An event or a (task, update) pair as the dictionary that tells most."""
    if isinstance(event, Message):
        return event.model_dump(mode="json", exclude_none=True)
    task, update = event
    return (update or task).model_dump(mode="json", exclude_none=True)


async def said(client, text):
    return [plain(event) async for event in client.send_message(create_text_message_object(content=text))]


async def until_working(client):
    """Begin something slow, and leave as soon as it works; the id of its task."""
    async for event in client.send_message(create_text_message_object(content=words("--slow", "slow"))):
        task, update = event
        if update is not None and update.status.state == TaskState.working:
            return task.id
    raise AssertionError("it never worked")


async def cancelled_while_watched(client, task_id):
    """Join the task, cancel it once the first event has come, and read the rest."""
    watched, joined = [], asyncio.Event()

    async def watch():
        async for event in client.resubscribe(TaskIdParams(id=task_id)):
            watched.append(plain(event))
            joined.set()

    watching = asyncio.create_task(watch())
    if "--snapshot" in sys.argv:  # a server of 0.3 sends none to whoever joins
        await asyncio.wait_for(joined.wait(), SECONDS)
    task = await client.cancel_task(TaskIdParams(id=task_id))
    await asyncio.wait_for(watching, SECONDS)
    return task.status.state.value, watched


async def configured(client, task_id):
    hook = PushNotificationConfig(id="hook", url="http://127.0.0.1:9/hook", token="t")
    await client.set_task_callback(TaskPushNotificationConfig(task_id=task_id, push_notification_config=hook))
    asked = GetTaskPushNotificationConfigParams(id=task_id, push_notification_config_id="hook")
    kept = await client.get_task_callback(asked)
    return kept.push_notification_config.url


async def questioned(client):
    """Ask what is answered by a question, and answer that."""
    [question] = await said(client, "ask")
    answer = create_text_message_object(content="Paris")
    answer.task_id, answer.context_id = question["id"], question["contextId"]
    [done] = [plain(event) async for event in client.send_message(answer)]
    return [question, done]


async def main(base, token, transport):
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with httpx.AsyncClient(timeout=SECONDS, headers=headers) as http:
        card = await A2ACardResolver(http, base).get_agent_card()
        factories = [
            ClientFactory(
                ClientConfig(streaming=streaming, httpx_client=http, supported_transports=[transport])
            )
            for streaming in (False, True)
        ]
        unary, streaming = (factory.create(card) for factory in factories)
        work = words("--work", "work")
        told = {"message": await said(unary, "hi"), "unary": await said(unary, work)}
        told["stream"] = await said(streaming, work)
        [task_id, *_] = [one["id"] for one in told["unary"] + told["stream"] if one["kind"] == "task"]
        got = await unary.get_task(TaskQueryParams(id=task_id))
        told["got"] = got.model_dump(mode="json", exclude_none=True)
        if "--ask" in sys.argv:
            told["asked"] = await questioned(unary)
        slow = await until_working(streaming)
        if "--push" in sys.argv:
            told["hook"] = await configured(unary, slow)
        told["cancelled"], told["watched"] = await cancelled_while_watched(streaming, slow)
    print(json.dumps(told))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))
