"""The operations on tasks, at either door; who may see a task is decided by the task."""

from collections.abc import Awaitable, Callable
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


class TaskOperations:
    """Everything but sending."""

    def __init__(
        self,
        tasks: Tasks,
        pages: TaskPages,
        frames: TaskFrames,
        cancelling: Cancelling,
        configs: PushConfigs,
        cards: Cards,
    ) -> None:
        self._tasks = tasks
        self._pages = pages
        self._frames = frames
        self._cancelling = cancelling
        self._configs = configs
        self._cards = cards
        self._served: dict[Operation, Callable[[Ask], Awaitable[Reply]]] = {
            operations.GET: self._get,
            operations.LIST: self._list,
            operations.CANCEL: self._cancel,
            operations.SUBSCRIBE: self._subscribe,
            operations.PUSH_CREATE: self._create_config,
            operations.PUSH_GET: self._get_config,
            operations.PUSH_LIST: self._list_configs,
            operations.PUSH_DELETE: self._delete_config,
            operations.EXTENDED_CARD: self._extended_card,
        }

    async def serve(self, ask: Ask) -> Reply:
        """Do what is asked."""
        operation = ask.request.operation
        serve = None if operation is None else self._served.get(operation)
        if serve is None:
            raise relaying.unknown(ask.request.method)
        return await serve(ask)

    async def _get(self, ask: Ask) -> Reply:
        task = await self._tasks.get(ask.asking, _name(ask))
        return ask.framing.reply(ask.renderer.task(task), ask.echoed)

    async def _list(self, ask: Ask) -> Reply:
        params = ask.request.params
        page = await self._pages.page(ask.asking, params)
        listed = ask.renderer.page(
            page.tasks,
            artifacts=params.get("includeArtifacts") is True,
            nextPageToken=page.next_token,
            pageSize=page.size,
            totalSize=page.total,
        )
        return ask.framing.reply(listed, ask.echoed)

    async def _cancel(self, ask: Ask) -> Reply:
        task = await self._tasks.find(ask.asking, _name(ask), STEER)
        await self._cancelling.cancel_task(ask.call.principal, task, ask.request.params)
        whole, _ = await self._tasks.whole(task.key)
        return ask.framing.reply(ask.renderer.task(whole), ask.echoed)

    async def _subscribe(self, ask: Ask) -> Reply:
        task = await self._tasks.find(ask.asking, _name(ask))
        rejoined = await self._tasks.rejoin(task, ask.call.headers.get("last-event-id"))
        return await self._frames.of_task(ask, rejoined)

    # Push configs

    async def _create_config(self, ask: Ask) -> Reply:
        config = push_configs.given(ask.renderer.spelling, ask.request.params)
        dialect: Dialect = "1.0" if ask.renderer.spelling == "1.0" else "0.3"
        made = await self._configs.create(ask.call.principal, _key(ask), config, dialect)
        return _answer(ask, push_configs.shown(ask.renderer.spelling, made))

    async def _get_config(self, ask: Ask) -> Reply:
        config_id = push_configs.config_id(ask.renderer.spelling, ask.request.params)
        found = await self._configs.get(ask.call.principal, _key(ask), config_id)
        return _answer(ask, push_configs.shown(ask.renderer.spelling, found))

    async def _list_configs(self, ask: Ask) -> Reply:
        found = await self._configs.list(ask.call.principal, _key(ask))
        return _answer(ask, push_configs.listed(ask.renderer.spelling, found))

    async def _delete_config(self, ask: Ask) -> Reply:
        config_id = push_configs.config_id(ask.renderer.spelling, ask.request.params)
        await self._configs.delete(ask.call.principal, _key(ask), config_id or "")
        return _answer(ask, push_configs.deleted(ask.renderer.spelling))

    # The card

    async def _extended_card(self, ask: Ask) -> Reply:
        page = self._cards.page(ask.workspace, ask.request.dialect, ask.call.base_url)
        return ask.framing.reply(page.body, ask.echoed)


def _answer(ask: Ask, value: JSON) -> Reply:
    return ask.framing.reply(jsontext.encode(value), ask.echoed)


def _name(ask: Ask) -> str:
    return ask.request.task_id or ""


def _key(ask: Ask) -> TaskKey:
    params: dict[str, Any] = ask.request.params
    named = params.get("taskId") or (params.get("id") if ask.renderer.spelling != "1.0" else "")
    return TaskKey(ask.workspace.id, ask.invocation.tenant, str(named or ""))
