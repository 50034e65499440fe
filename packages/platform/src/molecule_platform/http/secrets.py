"""Secrets of a workspace and of its organisation."""

from molecule_platform.api import shapes
from molecule_platform.api.calls import Call, Handler, Reply
from molecule_platform.domain.workspaces import Workspace
from molecule_platform.services.secrets import SecretService


class SecretRoutes:
    """Serves /workspaces/{id}/secrets and /settings/secrets."""

    def __init__(self, secrets: SecretService) -> None:
        self._secrets = secrets

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
        }

    async def listing(self, call: Call) -> Reply:
        """The keys that hold a value."""
        org_id, workspace = _place(call)
        return Reply(await self._secrets.listing(org_id, workspace))

    async def values(self, call: Call) -> Reply:
        """The values, for the workspace itself."""
        return Reply(await self._secrets.values(call.workspace))

    async def put(self, call: Call) -> Reply:
        """Keep a value."""
        body: shapes.PutSecret = call.body
        org_id, workspace = _place(call)
        await self._secrets.put(org_id, workspace, body.key, body.value)
        return Reply({"status": "saved", "key": body.key, "needs_restart": False})

    async def delete(self, call: Call) -> Reply:
        """Forget a value."""
        org_id, workspace = _place(call)
        await self._secrets.delete(org_id, workspace, call.path["key"])
        return Reply({"status": "deleted", "key": call.path["key"]})


def _place(call: Call) -> tuple[str, Workspace | None]:
    """The organisation and, on a workspace's route, the workspace."""
    if "id" not in call.path:
        return call.principal.org_id, None
    return call.workspace.org_id, call.workspace
