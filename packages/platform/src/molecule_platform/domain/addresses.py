"""Addresses of agents, as people write them."""


def with_plain_scheme(url: str) -> str:
    """The URL with its scheme in small letters, which mean the same."""
    scheme, found, rest = url.partition("://")
    return f"{scheme.lower()}{found}{rest}" if found else url
