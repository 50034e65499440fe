"""The route table. A route outside it cannot be served; a row without a handler stops the start."""

from molecule_platform.web.pipeline.route import Route
from molecule_platform.web.routes import (
    access,
    activity,
    cards,
    delegations_schemas,
    events,
    inbox_schemas,
    messages,
    people,
    plugins_schemas,
    registry_schemas,
    secrets,
    tokens,
    version_schemas,
    workspaces_schemas,
)
from molecule_platform.web.routes.a2a import schemas

TABLE: tuple[Route, ...] = (
    *version_schemas.ROUTES,
    *people.ROUTES,
    *registry_schemas.ROUTES,
    *access.ROUTES,
    *workspaces_schemas.ROUTES,
    *tokens.ROUTES,
    *messages.ROUTES,
    *inbox_schemas.ROUTES,
    *schemas.ROUTES,
    *cards.ROUTES,
    *delegations_schemas.ROUTES,
    *activity.ROUTES,
    *events.ROUTES,
    *secrets.ROUTES,
    *plugins_schemas.ROUTES,
)
