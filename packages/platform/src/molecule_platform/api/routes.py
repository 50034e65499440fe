"""The route table. A route outside it cannot be served; a row without a handler stops the start."""

from molecule_platform.api.nouns import (
    a2a,
    access,
    activity,
    cards,
    delegations,
    events,
    inbox,
    messages,
    ops,
    people,
    plugins,
    registry,
    secrets,
    tokens,
    workspaces,
)
from molecule_platform.api.route import Route

TABLE: tuple[Route, ...] = (
    *ops.ROUTES,
    *people.ROUTES,
    *registry.ROUTES,
    *access.ROUTES,
    *workspaces.ROUTES,
    *tokens.ROUTES,
    *messages.ROUTES,
    *inbox.ROUTES,
    *a2a.ROUTES,
    *cards.ROUTES,
    *delegations.ROUTES,
    *activity.ROUTES,
    *events.ROUTES,
    *secrets.ROUTES,
    *plugins.ROUTES,
)
