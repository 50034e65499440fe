"""Secrets of a workspace and of its organisation, the model of a workspace, and the key of the house."""

from msgspec import UNSET, UnsetType

from molecule_platform.domain.authorisation import Who, org_with, self_with
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.services.keys.key_rotation import KeyRotation
from molecule_platform.services.keys.secrets import SecretService
from molecule_platform.services.support.audit_log import AuditActor
from molecule_platform.web.pipeline.calls import Call, Handler, Response
from molecule_platform.web.pipeline.route import Route
from molecule_platform.web.pipeline.schemas import Body, Schema


class PutSecret(Body):
    """A secret value."""

    key: str
    value: str


class SecretRow(Schema):
    """A key that holds a value, never the value."""

    key: str
    has_value: bool
    scope: str
    created_at: str
    updated_at: str


class Saved(Schema):
    """The value is kept."""

    status: str
    key: str
    needs_restart: bool


class Deleted(Schema):
    """The value is forgotten."""

    status: str
    key: str


class ChooseModel(Body):
    """The model of a workspace; an empty one means the default."""

    model: str


class Model(Schema):
    """The model that was chosen, and whether it was."""

    model: str
    source: str


class Chosen(Schema):
    """The model is kept, or the default holds again."""

    status: str
    model: str | UnsetType = UNSET


class Rotated(Schema):
    """The key in use now, how many rows were sealed again, and which ones no key here can open."""

    status: str
    key_id: str
    resealed: int
    failed_keys: list[str]


_WRITE = (self_with("ws.secrets.write"), org_with("org.secrets"))
_ORG = (org_with("org.secrets"),)
_MODEL = "/workspaces/{id}/model"


def _put(name: str, method: str, path: str, who: tuple[Who, ...], summary: str) -> Route:
    return Route(name, method, path, who, summary, PutSecret, reply=Saved)


def _of_org(place: str) -> tuple[Route, ...]:
    """The routes of an organisation's secrets; they have two addresses."""
    return (
        Route(
            "org-secret.list",
            "GET",
            place,
            _ORG,
            "The keys of the organisation's secrets.",
            reply=list[SecretRow],
        ),
        _put("org-secret.put", "POST", place, _ORG, "Keep a value for every workspace."),
        _put("org-secret.put", "PUT", place, _ORG, "Keep a value for every workspace."),
        Route(
            "org-secret.delete",
            "DELETE",
            f"{place}/{{key}}",
            _ORG,
            "Forget a value of the organisation.",
            reply=Deleted,
            refusals=("not-found",),
        ),
    )


ROUTES = (
    Route(
        "secret.list",
        "GET",
        "/workspaces/{id}/secrets",
        (self_with("ws.secrets.read"), org_with("org.secrets")),
        "The keys that hold a value, never the values.",
        reply=list[SecretRow],
    ),
    Route(
        "secret.values",
        "GET",
        "/workspaces/{id}/secrets/values",
        (self_with("ws.secrets.read"),),
        "The values, for the workspace itself and nobody else.",
        reply=dict[str, str],
    ),
    _put("secret.put", "POST", "/workspaces/{id}/secrets", _WRITE, "Keep a value."),
    _put("secret.put", "PUT", "/workspaces/{id}/secrets", _WRITE, "Keep a value."),
    Route(
        "secret.delete",
        "DELETE",
        "/workspaces/{id}/secrets/{key}",
        _WRITE,
        "Forget a value.",
        reply=Deleted,
        refusals=("not-found",),
    ),
    Route(
        "model.show",
        "GET",
        _MODEL,
        (self_with(""), org_with("org.write")),
        "The model of a workspace.",
        reply=Model,
    ),
    Route(
        "model.choose",
        "PUT",
        _MODEL,
        (self_with("ws.secrets.write"), org_with("org.write")),
        "Choose the model of a workspace.",
        ChooseModel,
        reply=Chosen,
    ),
    *_of_org("/settings/secrets"),
    *_of_org("/admin/secrets"),
    Route(
        "secret.rotate-key",
        "POST",
        "/admin/secrets/rotate-key",
        (org_with("admin"),),
        "Seal every secret of the platform with a new key.",
        reply=Rotated,
        refusals=("conflict",),
    ),
)


class SecretHandlers:
    """Serves /workspaces/{id}/secrets, /workspaces/{id}/model, /settings/secrets and /admin/secrets."""

    def __init__(self, secrets: SecretService, rotation: KeyRotation) -> None:
        self._secrets = secrets
        self._rotation = rotation

    def handlers(self) -> dict[str, Handler]:
        """The handlers by route."""
        return {
            "secret.list": self.listing,
            "secret.values": self.values,
            "secret.put": self.put,
            "secret.delete": self.delete,
            "org-secret.list": self.listing,
            "org-secret.put": self.put,
            "org-secret.delete": self.delete,
            "secret.rotate-key": self.rotate_key,
            "model.show": self.model,
            "model.choose": self.choose_model,
        }

    async def listing(self, call: Call) -> Response:
        """The keys that hold a value."""
        org_id, workspace = _place(call)
        return Response(await self._secrets.listing(org_id, workspace))

    async def values(self, call: Call) -> Response:
        """The values, for the workspace itself."""
        return Response(await self._secrets.values(_by(call), call.workspace))

    async def put(self, call: Call) -> Response:
        """Keep a value."""
        body: PutSecret = call.body
        org_id, workspace = _place(call)
        needs_restart = await self._secrets.put(_by(call), org_id, workspace, body.key, body.value)
        return Response({"status": "saved", "key": body.key, "needs_restart": needs_restart})

    async def delete(self, call: Call) -> Response:
        """Forget a value."""
        org_id, workspace = _place(call)
        await self._secrets.delete(_by(call), org_id, workspace, call.path["key"])
        return Response({"status": "deleted", "key": call.path["key"]})

    async def model(self, call: Call) -> Response:
        """The model of a workspace."""
        model = await self._secrets.model(_by(call), call.workspace)
        return Response({"model": model or "", "source": "workspace_secrets" if model else "default"})

    async def choose_model(self, call: Call) -> Response:
        """Choose the model of a workspace, or go back to the default."""
        body: ChooseModel = call.body
        await self._secrets.choose_model(_by(call), call.workspace, body.model)
        return Response({"status": "saved", "model": body.model} if body.model else {"status": "cleared"})

    async def rotate_key(self, call: Call) -> Response:
        """Seal everything with a new key."""
        done = await self._rotation.rotate(_by(call), call.principal.org_id)
        rotated = {"key_id": done.key_id, "resealed": done.resealed, "failed_keys": done.failed_keys}
        return Response({"status": "rotated", **rotated})


def _by(call: Call) -> AuditActor:
    return AuditActor(call.principal.text, call.request_id)


def _place(call: Call) -> tuple[str, Workspace | None]:
    """The organisation and, on a workspace's route, the workspace."""
    if "id" not in call.path:
        return call.principal.org_id, None
    return call.workspace.org_id, call.workspace
