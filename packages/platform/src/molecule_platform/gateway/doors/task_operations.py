"""The operations on tasks, at either door; who may see a task is decided by the task."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from molecule_platform.api.calls import Reply
from molecule_platform.domain.tasks import TaskKey
from molecule_platform.gateway.doors.asks import Ask
from molecule_platform.gateway.doors.task_frames import TaskFrames
from molecule_platform.services import relaying
from molecule_platform.services.cancelling import Cancelling
from molecule_platform.services.cards import Cards
from molecule_platform.services.push_configs import PushConfigs
from molecule_platform.services.task_pages import TaskPages
from molecule_platform.services.tasks import STEER, Tasks
from molecule_wire import JSON, jsontext
from molecule_wire.a2a import operations, push_configs
from molecule_wire.a2a.operations import Dialect, Operation


@dataclass(frozen=True)
class TaskOperations:
    """Everything but sending."""

    tasks: Tasks
    pages: TaskPages
    frames: TaskFrames
    cancelling: Cancelling
    configs: PushConfigs
    cards: Cards

    async def serve(self, ask: Ask) -> Reply:
        """Do what is asked."""
        serve = _SERVED.get(ask.request.operation)
        if serve is None:
            raise relaying.unknown(ask.request.method)
        return await serve(self, ask)

    async def _get(self, ask: Ask) -> Reply:
        task = await self.tasks.get(ask.asking, _name(ask))
        return ask.framing.reply(ask.renderer.task(task), ask.echoed)

    async def _list(self, ask: Ask) -> Reply:
        params = ask.request.params
        page = await self.pages.page(ask.asking, params)
        listed = ask.renderer.page(page.tasks, params, page.next_token, page.size, page.total)
        return ask.framing.reply(listed, ask.echoed)

    async def _cancel(self, ask: Ask) -> Reply:
        task = await self.tasks.find(ask.asking, _name(ask), STEER)
        await self.cancelling.cancel_task(ask.call.principal, task, ask.request.params)
        whole, _ = await self.tasks.whole(task.key)
        return ask.framing.reply(ask.renderer.task(whole), ask.echoed)

    async def _subscribe(self, ask: Ask) -> Reply:
        task = await self.tasks.find(ask.asking, _name(ask))
        ask.call.open_stream(task.workspace_id)
        rejoined = await self.tasks.rejoin(task, ask.call.headers.get("last-event-id"))
        return await self.frames.of_task(ask, rejoined)

    # Push configs

    async def _create_config(self, ask: Ask) -> Reply:
        config = push_configs.given(ask.renderer.spelling, ask.request.params)
        dialect: Dialect = "1.0" if ask.renderer.spelling == "1.0" else "0.3"
        made = await self.configs.create(ask.call.principal, _key(ask), config, dialect)
        return _answer(ask, push_configs.shown(ask.renderer.spelling, made))

    async def _get_config(self, ask: Ask) -> Reply:
        config_id = push_configs.config_id(ask.renderer.spelling, ask.request.params)
        found = await self.configs.get(ask.call.principal, _key(ask), config_id)
        return _answer(ask, push_configs.shown(ask.renderer.spelling, found))

    async def _list_configs(self, ask: Ask) -> Reply:
        found = await self.configs.list(ask.call.principal, _key(ask))
        return _answer(ask, push_configs.listed(ask.renderer.spelling, found))

    async def _delete_config(self, ask: Ask) -> Reply:
        config_id = push_configs.config_id(ask.renderer.spelling, ask.request.params)
        await self.configs.delete(ask.call.principal, _key(ask), config_id or "")
        return _answer(ask, push_configs.deleted(ask.renderer.spelling))

    # The card

    async def _extended_card(self, ask: Ask) -> Reply:
        page = self.cards.page(ask.workspace, ask.request.dialect, ask.call.base_url)
        return ask.framing.reply(page.body, ask.echoed)


_SERVED: dict[Operation | None, Callable[[TaskOperations, Ask], Awaitable[Reply]]] = {
    operations.GET: TaskOperations._get,
    operations.LIST: TaskOperations._list,
    operations.CANCEL: TaskOperations._cancel,
    operations.SUBSCRIBE: TaskOperations._subscribe,
    operations.PUSH_CREATE: TaskOperations._create_config,
    operations.PUSH_GET: TaskOperations._get_config,
    operations.PUSH_LIST: TaskOperations._list_configs,
    operations.PUSH_DELETE: TaskOperations._delete_config,
    operations.EXTENDED_CARD: TaskOperations._extended_card,
}


def _answer(ask: Ask, value: JSON) -> Reply:
    return ask.framing.reply(jsontext.encode(value), ask.echoed)


def _name(ask: Ask) -> str:
    return ask.request.task_id or ""


def _key(ask: Ask) -> TaskKey:
    params: dict[str, Any] = ask.request.params
    named = params.get("taskId") or (params.get("id") if ask.renderer.spelling != "1.0" else "")
    return TaskKey(ask.workspace.id, ask.invocation.tenant, str(named or ""))
