"""The route table. A route outside it cannot be served; a row without a handler stops the start."""

from molecule_platform.web.pipeline.route import Route
from molecule_platform.web.routes import (
    access_schemas,
    activity_schemas,
    cards_schemas,
    delegations_schemas,
    events_schemas,
    inbox_schemas,
    messages_schemas,
    people_schemas,
    plugins_schemas,
    registry_schemas,
    secrets_schemas,
    tokens_schemas,
    version_schemas,
    workspaces_schemas,
)
from molecule_platform.web.routes.a2a import schemas

TABLE: tuple[Route, ...] = (
    *version_schemas.ROUTES,
    *people_schemas.ROUTES,
    *registry_schemas.ROUTES,
    *access_schemas.ROUTES,
    *workspaces_schemas.ROUTES,
    *tokens_schemas.ROUTES,
    *messages_schemas.ROUTES,
    *inbox_schemas.ROUTES,
    *schemas.ROUTES,
    *cards_schemas.ROUTES,
    *delegations_schemas.ROUTES,
    *activity_schemas.ROUTES,
    *events_schemas.ROUTES,
    *secrets_schemas.ROUTES,
    *plugins_schemas.ROUTES,
)
