"""Extensions: what a caller asks for, what a card declares, and what comes of the two."""

from collections.abc import Collection, Mapping

from molecule_wire import JSON
from molecule_wire.a2a import errors

HEADERS = ("a2a-extensions", "x-a2a-extensions")
"""Where callers name extensions; 0.3 also knows the second."""

MOST = 64


def asked(headers: Mapping[str, str]) -> tuple[str, ...]:
    """The URIs that a request names, by headers whose names are in small letters."""
    if headers.keys().isdisjoint(HEADERS):
        return ()
    listed = [headers[name] for name in HEADERS if name in headers]
    found = dict.fromkeys(uri.strip() for uri in ",".join(listed).split(","))
    return tuple(uri for uri in found if uri)[:MOST]


def declared(card: Mapping[str, JSON] | None) -> dict[str, bool]:
    """The URIs that a card declares, each with whether it is required."""
    capabilities = card.get("capabilities") if card else None
    listed = capabilities.get("extensions") if isinstance(capabilities, dict) else None
    if not isinstance(listed, list):
        return {}
    return {
        extension["uri"]: extension.get("required") is True
        for extension in listed
        if isinstance(extension, dict) and isinstance(extension.get("uri"), str)
    }  # pyright: ignore[reportReturnType]


def activated(card: Mapping[str, JSON] | None, wanted: Collection[str]) -> tuple[str, ...]:
    """The URIs that both sides know; others are ignored."""
    if not wanted:
        return ()
    known = declared(card)
    return tuple(uri for uri in wanted if uri in known)


def check_required(card: Mapping[str, JSON] | None, wanted: Collection[str]) -> None:
    """Raise -32008 when the agent requires an extension that the caller did not ask for."""
    for uri, required in declared(card).items():
        if required and uri not in wanted:
            sentence = f"The agent requires the extension {uri}: name it in A2A-Extensions"
            raise errors.protocol_error(errors.EXTENSION_SUPPORT_REQUIRED, sentence, extension=uri)
