"""Who may see a message, and when a mailbox takes no more."""

from molecule_platform.domain.authorisation import org_with, workspace_with
from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.messages import Message
from molecule_platform.domain.principals import Principal
from molecule_platform.domain.workspaces import Workspace

FULL_RETRY_SECONDS = 5

# Whose credential opens what was sent and received: messages, their tasks, delegations. Which of these
# exist for somebody is decided by each of them.
ANSWERERS = (workspace_with("ws.inbox"), workspace_with("ws.send"))
READERS = (*ANSWERERS, org_with("org.read"), org_with("org.send"))
STEERERS = (workspace_with("ws.send"), org_with("org.send"))


def may_see(principal: Principal, message: Message) -> bool:
    """Whether the principal is a party to the message or may read its organisation."""
    if principal.workspace_id is not None:
        return principal.text == message.caller or principal.workspace_id == message.target_id
    mine = principal.org_id == message.org_id or principal.is_admin
    return mine and (principal.text == message.caller or principal.may("org.read"))


def message_not_found(message_id: str) -> ApiError:
    """The one answer for an unknown message and for somebody else's."""
    return ApiError("message-not-found", f"there is no message {message_id} here")


_FULL = {
    "mailbox": "the mailbox of {name} is full: it holds {maximum} open messages",
    "mailbox-bytes": "the mailbox of {name} is full: it holds {maximum} bytes",
    "sender-share": "your share of the mailbox of {name} is used up: {maximum} open messages",
    "sender-share-bytes": "your share of the mailbox of {name} is used up: {maximum} bytes",
    "org-bytes": "the mailboxes of the organisation of {name} are full: they hold {maximum} bytes",
}


def mailbox_full(target: Workspace, limit: str, maximum: int) -> ApiError:
    """There is no room for one more message; the refusal names which limit is reached, and the figure."""
    sentence = _FULL[limit].format(name=target.name, maximum=maximum)
    facts = {"retry_after": FULL_RETRY_SECONDS, "limit": limit, "maximum": maximum}
    return ApiError("mailbox-full", f"{sentence}; try again later", **facts)


def check_budget(target: Workspace) -> None:
    """Refuse work for a workspace that has spent its budget."""
    if target.budget_limit is not None and target.monthly_spend >= target.budget_limit:
        raise ApiError(
            "budget-exceeded",
            f"{target.name} has spent its budget of this month",
            budget_limit=target.budget_limit,
            monthly_spend=target.monthly_spend,
        )
