"""Which addresses exist to be called, as one table."""

import enum
import functools
import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class AddressScope(enum.Enum):
    """What the guard thinks of a network."""

    NEVER = "never"
    LOOPBACK = "loopback"
    PRIVATE = "private"


@dataclass(frozen=True)
class AddressRule:
    """One row: the addresses of `network` are `what`, and may be reached as far as `reach` says."""

    network: Network
    reach: AddressScope
    what: str


def _rule(network: str, reach: AddressScope, what: str) -> AddressRule:
    return AddressRule(ipaddress.ip_network(network), reach, what)


RULES: tuple[AddressRule, ...] = (
    _rule("0.0.0.0/8", AddressScope.NEVER, "an unspecified address"),
    _rule("10.0.0.0/8", AddressScope.PRIVATE, "a private address"),
    _rule("100.64.0.0/10", AddressScope.NEVER, "an address of a carrier's network"),
    _rule("127.0.0.0/8", AddressScope.LOOPBACK, "a loopback address"),
    _rule("168.63.129.16/32", AddressScope.NEVER, "a cloud metadata address"),
    _rule("169.254.0.0/16", AddressScope.NEVER, "a link-local or cloud metadata address"),
    _rule("172.16.0.0/12", AddressScope.PRIVATE, "a private address"),
    _rule("192.0.0.0/24", AddressScope.NEVER, "a reserved address"),
    _rule("192.0.2.0/24", AddressScope.NEVER, "a documentation address"),
    _rule("192.88.99.0/24", AddressScope.NEVER, "a relay's address"),
    _rule("192.168.0.0/16", AddressScope.PRIVATE, "a private address"),
    _rule("198.18.0.0/15", AddressScope.NEVER, "an address for measurements"),
    _rule("198.51.100.0/24", AddressScope.NEVER, "a documentation address"),
    _rule("203.0.113.0/24", AddressScope.NEVER, "a documentation address"),
    _rule("224.0.0.0/4", AddressScope.NEVER, "a multicast address"),
    _rule("240.0.0.0/4", AddressScope.NEVER, "a reserved address"),
    _rule("::/96", AddressScope.NEVER, "an unspecified or reserved address"),
    _rule("::1/128", AddressScope.LOOPBACK, "a loopback address"),
    _rule("::ffff:0:0:0/96", AddressScope.NEVER, "a translated address"),
    _rule("64:ff9b:1::/48", AddressScope.NEVER, "a translated address"),
    _rule("100::/64", AddressScope.NEVER, "an address that discards"),
    _rule("2001::/23", AddressScope.NEVER, "a reserved address"),
    _rule("2001:db8::/32", AddressScope.NEVER, "a documentation address"),
    _rule("3fff::/20", AddressScope.NEVER, "a documentation address"),
    _rule("5f00::/16", AddressScope.NEVER, "an address of segment routing"),
    _rule("fc00::/8", AddressScope.NEVER, "a reserved address"),
    _rule("fd00::/8", AddressScope.PRIVATE, "a private address"),
    _rule("fd00:ec2::254/128", AddressScope.NEVER, "a cloud metadata address"),
    _rule("fe80::/10", AddressScope.NEVER, "a link-local address"),
    _rule("fec0::/10", AddressScope.NEVER, "a site-local address"),
    _rule("ff00::/8", AddressScope.NEVER, "a multicast address"),
)

_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")
_LOW_32_BITS = 0xFFFFFFFF


@functools.lru_cache(maxsize=4096)
def rule_for(address: Address) -> AddressRule | None:
    """The row of the narrowest network that holds the address; none for the open internet.

    Whatever has no row, and is not known to be reached from everywhere, is never called either.
    """
    matching = [rule for rule in RULES if address in rule.network]
    if not matching and not address.is_global:
        return AddressRule(
            ipaddress.ip_network(address),
            AddressScope.NEVER,
            "an address that is not reached from everywhere",
        )
    return max(matching, key=lambda rule: rule.network.prefixlen, default=None)


def forms_of(address: Address) -> Iterator[Address]:
    """The address and every IPv4 address that a packet to it could end at."""
    if isinstance(address, ipaddress.IPv4Address):
        yield address
        return
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
        return
    yield address
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    if address in _TRANSLATED:
        yield ipaddress.IPv4Address(int(address) & _LOW_32_BITS)
