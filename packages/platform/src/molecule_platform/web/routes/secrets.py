"""Secrets of a workspace and of its organisation, the model of a workspace, and the key of the house."""

from molecule_platform.domain.workspaces import Workspace
from molecule_platform.services.keys.key_rotation import KeyRotation
from molecule_platform.services.keys.secrets import SecretService
from molecule_platform.services.support.audit_log import AuditActor
from molecule_platform.web.pipeline.calls import Call, Handler, Response
from molecule_platform.web.routes import secrets_schemas as shapes


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
        body: shapes.PutSecret = call.body
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
        body: shapes.ChooseModel = call.body
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
