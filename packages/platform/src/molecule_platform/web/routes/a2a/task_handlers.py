"""The operations on tasks, at either door; who may see a task is decided by the task."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from molecule_platform.domain.tasks import TaskKey
from molecule_platform.services.cards.card_service import CardService
from molecule_platform.services.messaging.messages import passthrough
from molecule_platform.services.messaging.messages.cancellation import CancelService
from molecule_platform.services.messaging.tasks.task_pages import TaskPages
from molecule_platform.services.messaging.tasks.task_service import STEER, TaskService
from molecule_platform.services.messaging.webhooks.push_configs import PushConfigService
from molecule_platform.web.pipeline.calls import Response
from molecule_platform.web.routes.a2a.a2a_call import A2ACall
from molecule_platform.web.streams.task_events import TaskEventStream
from molecule_wire import JSON, jsontext
from molecule_wire.a2a import operations, push_configs
from molecule_wire.a2a.operations import Dialect, Operation


@dataclass(frozen=True)
class A2ATaskHandlers:
    """Everything but sending."""

    tasks: TaskService
    pages: TaskPages
    frames: TaskEventStream
    cancellation: CancelService
    configs: PushConfigService
    cards: CardService

    async def serve(self, ask: A2ACall) -> Response:
        """Do what is asked."""
        serve = _SERVED.get(ask.request.operation)
        if serve is None:
            raise passthrough.unknown(ask.request.method)
        return await serve(self, ask)

    async def _get(self, ask: A2ACall) -> Response:
        task = await self.tasks.get(ask.asking, _name(ask))
        return ask.framing.reply(ask.renderer.task(task), ask.echoed)

    async def _list(self, ask: A2ACall) -> Response:
        params = ask.request.params
        page = await self.pages.page(ask.asking, params)
        listed = ask.renderer.page(page.tasks, params, page.next_token, page.size, page.total)
        return ask.framing.reply(listed, ask.echoed)

    async def _cancel(self, ask: A2ACall) -> Response:
        task = await self.tasks.find(ask.asking, _name(ask), STEER)
        await self.cancellation.cancel_task(ask.call.principal, task, ask.request.params)
        whole, _ = await self.tasks.whole(task.key)
        return ask.framing.reply(ask.renderer.task(whole), ask.echoed)

    async def _subscribe(self, ask: A2ACall) -> Response:
        task = await self.tasks.find(ask.asking, _name(ask))
        ask.call.open_stream(task.workspace_id)
        rejoined = await self.tasks.rejoin(task, ask.call.headers.get("last-event-id"))
        return await self.frames.of_task(ask, rejoined)

    # Push configs

    async def _create_config(self, ask: A2ACall) -> Response:
        config = push_configs.given(ask.renderer.spelling, ask.request.params)
        dialect: Dialect = "1.0" if ask.renderer.spelling == "1.0" else "0.3"
        made = await self.configs.create(ask.call.principal, _key(ask), config, dialect)
        return _answer(ask, push_configs.shown(ask.renderer.spelling, made))

    async def _get_config(self, ask: A2ACall) -> Response:
        config_id = push_configs.config_id(ask.renderer.spelling, ask.request.params)
        found = await self.configs.get(ask.call.principal, _key(ask), config_id)
        return _answer(ask, push_configs.shown(ask.renderer.spelling, found))

    async def _list_configs(self, ask: A2ACall) -> Response:
        found = await self.configs.list(ask.call.principal, _key(ask))
        return _answer(ask, push_configs.listed(ask.renderer.spelling, found))

    async def _delete_config(self, ask: A2ACall) -> Response:
        config_id = push_configs.config_id(ask.renderer.spelling, ask.request.params)
        await self.configs.delete(ask.call.principal, _key(ask), config_id or "")
        return _answer(ask, push_configs.deleted(ask.renderer.spelling))

    # The card

    async def _extended_card(self, ask: A2ACall) -> Response:
        page = self.cards.page(ask.workspace, ask.request.dialect, ask.call.base_url)
        return ask.framing.reply(page.body, ask.echoed)


_SERVED: dict[Operation | None, Callable[[A2ATaskHandlers, A2ACall], Awaitable[Response]]] = {
    operations.GET: A2ATaskHandlers._get,
    operations.LIST: A2ATaskHandlers._list,
    operations.CANCEL: A2ATaskHandlers._cancel,
    operations.SUBSCRIBE: A2ATaskHandlers._subscribe,
    operations.PUSH_CREATE: A2ATaskHandlers._create_config,
    operations.PUSH_GET: A2ATaskHandlers._get_config,
    operations.PUSH_LIST: A2ATaskHandlers._list_configs,
    operations.PUSH_DELETE: A2ATaskHandlers._delete_config,
    operations.EXTENDED_CARD: A2ATaskHandlers._extended_card,
}


def _answer(ask: A2ACall, value: JSON) -> Response:
    return ask.framing.reply(jsontext.encode(value), ask.echoed)


def _name(ask: A2ACall) -> str:
    return ask.request.task_id or ""


def _key(ask: A2ACall) -> TaskKey:
    params: dict[str, Any] = ask.request.params
    named = params.get("taskId") or (params.get("id") if ask.renderer.spelling != "1.0" else "")
    return TaskKey(ask.workspace.id, ask.invocation.tenant, str(named or ""))
