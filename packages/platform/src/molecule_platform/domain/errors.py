"""How the house says no: one exception, carrying a code of the shared error table."""

from molecule_wire import JSON, errors


class ApiError(Exception):
    """A request the house declines, with a code of `molecule_wire.errors.TABLE` and a sentence."""

    def __init__(self, code: str, sentence: str, **extras: JSON) -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence
        self.extras = extras

    @property
    def status(self) -> int:
        """The HTTP status of the code."""
        return errors.TABLE[self.code].status


def workspace_not_found(workspace_id: str) -> ApiError:
    """The one answer for an unknown id and for one of another organisation."""
    return ApiError("workspace-not-found", f"there is no workspace {workspace_id} here")


def workspace_removed(workspace_id: str, removed_at: str | None) -> ApiError:
    """The answer for a workspace that is gone for good."""
    return ApiError(
        "workspace-removed",
        f"workspace {workspace_id} was removed",
        id=workspace_id,
        removed_at=removed_at,
        hint="create a new workspace; a removed one does not come back",
    )
