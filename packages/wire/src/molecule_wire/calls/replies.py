"""Which call answers a received message: that depends on where it came from."""

from molecule_wire.calls import a2a, activity, inbound, inbox, values

_BY_INBOX = frozenset({"schedule", "channel", "system"})


def reply(
    workspace_id: str, message: inbound.InboundMessage, text: str, *, rpc_id: str, message_id: str
) -> values.Request:
    """Answer a message; ValueError when there is nothing to say or nobody to say it to.

    `rpc_id` and `message_id` are fresh ids for the case that the answer is itself a message to a peer.
    """
    if not text.strip():
        raise ValueError("reply text must be non-empty")
    if message.lease is not None:
        token = message.lease.token
        return inbox.answer(workspace_id, message.message_id, text=text, lease_token=token)
    answers = message.message_id or message.activity_id
    if message.source == "canvas_user":
        return activity.notify(workspace_id, text, in_reply_to=answers)
    if message.source == "peer_agent":
        peer = _peer_of(message)
        return a2a.answer(workspace_id, peer, text, rpc_id=rpc_id, message_id=message_id, in_reply_to=answers)
    if message.source in _BY_INBOX and message.message_id:
        return inbox.answer(workspace_id, message.message_id, text=text)
    raise ValueError(f"cannot auto-route reply for source={message.source!r}")


def _peer_of(message: inbound.InboundMessage) -> str:
    if not message.source_id:
        raise ValueError(f"message {message.activity_id} of a peer has no source_id to reply to")
    return message.source_id
