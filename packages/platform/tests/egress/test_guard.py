"""Which URLs and addresses may be called."""

import ipaddress
from collections.abc import Sequence
from urllib.parse import urlsplit

import pytest
import yarl
from hypothesis import given
from hypothesis import strategies as st

from molecule_platform.egress import addresses, guard
from tests.rows import each_row

NOTHING = guard.agent_policy(())
LOOPBACK = guard.agent_policy(("loopback",))
PRIVATE = guard.agent_policy(("private",))
EVERYTHING = guard.agent_policy(("loopback", "private", "0.0.0.0/0", "::/0"))

NEVER = [
    "198.18.0.1",
    "198.19.255.255",
    "192.88.99.1",
    "192.88.99.255",
    "100::1",
    "2001:20::1",
    "2001:2::1",
    "2001::1",
    "3fff::1",
    "5f00::1",
    "::ffff:0:8.8.8.8",
    "::ffff:0:127.0.0.1",
    "2002:c612:0001::1",
    *("0.0.0.0", "0.1.2.3", "169.254.169.254", "169.254.0.1", "192.0.2.1", "198.51.100.7", "203.0.113.255"),
    *("100.64.0.1", "100.100.100.200", "100.127.255.255", "224.0.0.1", "239.255.255.255", "240.0.0.1"),
    *(
        "255.255.255.255",
        "192.0.0.192",
        "168.63.129.16",
        "fe80::1",
        "febf::1",
        "fc00::1",
        "2001:db8::1",
        "::",
    ),
    *("ff02::1", "fec0::1", "fd00:ec2::254", "::7f00:1", "::ffff:169.254.169.254", "::ffff:0.0.0.0"),
    *(
        "::ffff:100.64.0.1",
        "64:ff9b::a9fe:a9fe",
        "64:ff9b:1::1",
        "2002:a9fe:a9fe::1",
        "fe80::1%eth0",
        "fe80::1%2",
    ),
]
LOOPBACKS = ["127.0.0.1", "127.255.255.254", "::1", "::ffff:127.0.0.1", "::ffff:7f00:1"]
PRIVATES = ["10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "fd12:3456::1", "::ffff:10.1.2.3"]
PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "172.32.0.1",
    "172.15.255.255",
    "100.63.255.255",
    "100.128.0.1",
    "126.255.255.255",
]
PUBLIC_6 = ["2606:4700::1111", "2a00:1450::1", "64:ff9b::808:808", "2002:808:808::1", "::ffff:8.8.8.8"]


@each_row("address", NEVER)
def test_some_addresses_are_never_called_whatever_is_allowed(address: str) -> None:
    with pytest.raises(guard.UnsafeUrl, match="never called"):
        guard.check_address(address, EVERYTHING)


@pytest.mark.parametrize("address", LOOPBACKS)
def test_loopback_is_called_only_when_loopback_is_allowed(address: str) -> None:
    guard.check_address(address, LOOPBACK)
    for policy in (NOTHING, PRIVATE):
        with pytest.raises(guard.UnsafeUrl, match="a loopback address.*only if MOLECULE_ALLOW_PRIVATE_URLS"):
            guard.check_address(address, policy)


@pytest.mark.parametrize("address", PRIVATES)
def test_private_addresses_are_called_only_when_private_is_allowed(address: str) -> None:
    guard.check_address(address, PRIVATE)
    for policy in (NOTHING, LOOPBACK):
        with pytest.raises(guard.UnsafeUrl, match="a private address.*only if MOLECULE_ALLOW_PRIVATE_URLS"):
            guard.check_address(address, policy)


@pytest.mark.parametrize("address", [*PUBLIC, *PUBLIC_6])
def test_public_addresses_are_called_without_any_setting(address: str) -> None:
    guard.check_address(address, NOTHING)


def test_a_network_allows_its_own_addresses_alone() -> None:
    policy = guard.agent_policy(("10.1.0.0/16", "fd00:1::/32"))
    guard.check_address("10.1.2.3", policy)
    guard.check_address("fd00:1::5", policy)
    for other in ("10.2.0.1", "fd00:2::5", "127.0.0.1"):
        with pytest.raises(guard.UnsafeUrl):
            guard.check_address(other, policy)


def test_the_exception_for_agents_does_not_hold_for_urls_named_by_callers() -> None:
    for address in ("127.0.0.1", "10.0.0.1"):
        with pytest.raises(guard.UnsafeUrl, match="only if MOLECULE_PUSH_ALLOW_PRIVATE allows it"):
            guard.check_address(address, guard.caller_policy(push_allow_private=False))
        guard.check_address(address, guard.caller_policy(push_allow_private=True))
    with pytest.raises(guard.UnsafeUrl, match="never"):
        guard.check_address("169.254.169.254", guard.caller_policy(push_allow_private=True))


@pytest.mark.parametrize(
    "text", ["", "localhost", "1.2.3", "2130706433", "0x7f.0.0.1", "127.0.0.01", "::1]", "1.1.1.1 "]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(guard.UnsafeUrl, match="is not an IP address"):
        guard.check_address(text, EVERYTHING)


@given(st.ip_addresses())
def test_an_address_and_its_mapped_form_are_judged_alike(address: addresses.Address) -> None:
    if isinstance(address, ipaddress.IPv4Address):
        mapped = f"::ffff:{address}"
        for policy in (NOTHING, LOOPBACK, PRIVATE):
            assert _passes(str(address), policy) == _passes(mapped, policy)


@given(st.ip_addresses())
def test_whatever_passes_without_a_setting_is_not_a_local_address(address: addresses.Address) -> None:
    if _passes(str(address), NOTHING):
        local = (address.is_loopback, address.is_link_local, address.is_multicast, address.is_unspecified)
        assert not any(local)


def _passes(address: str, policy: guard.Policy) -> bool:
    try:
        guard.check_address(address, policy)
    except guard.UnsafeUrl:
        return False
    return True


@each_row(
    ("url", "why"),
    [
        ("", "visible ASCII"),
        ("ftp://example.com/", "Only http"),
        ("file:///etc/passwd", "Only http"),
        ("//example.com/", "Only http"),
        ("example.com/path", "Only http"),
        ("http:///path", "host and port"),
        ("http://", "host and port"),
        ("http://user@example.com/", "before the @"),
        ("http://user:hush@example.com/", "before the @"),
        ("http://@example.com/", "before the @"),
        ("http://example.com:80@127.0.0.1/", "before the @"),
        ("http://example.com\\@127.0.0.1/", "visible ASCII"),
        ("http://exa mple.com/", "visible ASCII"),
        ("http://example.com/\r\nX: y", "visible ASCII"),
        (" http://example.com/", "visible ASCII"),
        ("http://bücher.example/", "xn--"),
        ("http://127。0。0。1/", "visible ASCII"),
        ("http://１２７.0.0.1/", "visible ASCII"),
        ("http://2130706433/", "four decimal numbers"),
        ("http://017700000001/", "four decimal numbers"),
        ("http://0x7f000001/", "four decimal numbers"),
        ("http://0177.0.0.1/", "four decimal numbers"),
        ("http://0x7f.0.0.1/", "four decimal numbers"),
        ("http://127.1/", "four decimal numbers"),
        ("http://127.0.0.1.1/", "four decimal numbers"),
        ("http://1.2.3.256/", "four decimal numbers"),
        ("http://example.123/", "four decimal numbers"),
        ("http://127.0.0.1../", "not a host"),
        ("http://exa..mple.com/", "not a host"),
        ("http://-example.com/", "not a host"),
        ("http://%31%32%37.0.0.1/", "not a host"),
        ("http://example.com,127.0.0.1/", "not a host"),
        ("http://" + "a" * 64 + ".com/", "not a host"),
        ("http://" + "a." * 130 + "com/", "not a host"),
        ("http://[127.0.0.1]/", "not a host|cannot be read"),
        ("http://[example.com]/", "not a host|cannot be read"),
        ("http://[::1/", "cannot be read"),
        ("http://[::1].example.com/", "cannot be read"),
        ("http://::1/", "cannot be read"),
        ("http://[fe80::1%25eth0]/", "never called|cannot be read"),
        ("http://[fe80::1%eth0]/", "never called|cannot be read"),
        ("http://example.com:0/", "1 to 65535"),
        ("http://example.com:65536/", "1 to 65535"),
        ("http://example.com:/", "1 to 65535"),
        ("http://example.com:-1/", "cannot be read"),
        ("http://example.com:80:80/", "cannot be read"),
        ("http://example.com:8a/", "cannot be read"),
        ("http://example.com/" + "x" * 2048, "longer than 2048"),
    ],
)
def test_an_odd_url_is_refused_with_the_reason(url: str, why: str) -> None:
    with pytest.raises(guard.UnsafeUrl, match=why) as caught:
        guard.check_url(url, EVERYTHING)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        *("http://127.0.0.1/", "http://127.0.0.1./", "http://[::1]/", "http://[::ffff:127.0.0.1]/"),
        *(
            "http://localhost/",
            "http://LOCALHOST./",
            "http://a.localhost/",
            "https://[0:0:0:0:0:0:0:1]:8443/",
        ),
    ],
)
def test_every_way_to_write_this_machine_needs_loopback(url: str) -> None:
    guard.check_url(url, LOOPBACK)
    with pytest.raises(guard.UnsafeUrl, match="a loopback address"):
        guard.check_url(url, NOTHING)


@pytest.mark.parametrize(
    ("url", "sent_as", "host", "port"),
    [
        ("http://Example.COM", "http://example.com/", "example.com", 80),
        ("HTTPS://example.com:443/a?b=c%2Fd#frag", "https://example.com/a?b=c%2Fd", "example.com", 443),
        ("http://example.com.:8080/a/../b", "http://example.com:8080/a/../b", "example.com", 8080),
        ("http://xn--bcher-kva.example/", "http://xn--bcher-kva.example/", "xn--bcher-kva.example", 80),
        ("http://my_service:65535/x@y", "http://my_service:65535/x@y", "my_service", 65535),
        ("http://[2A00:1450:0::1]:81/", "http://[2a00:1450::1]:81/", "2a00:1450::1", 81),
        ("https://8.8.8.8./", "https://8.8.8.8/", "8.8.8.8", 443),
        ("http://0x7f.example/", "http://0x7f.example/", "0x7f.example", 80),
    ],
)
def test_a_sound_url_keeps_its_path_and_gets_one_form(url: str, sent_as: str, host: str, port: int) -> None:
    checked = guard.check_url(url, NOTHING)
    assert (checked.url, checked.host, checked.port) == (sent_as, host, port)


_URLISH = st.text(alphabet="htps:/@[]%.#?\\127x0fa-_ \t\ne&=～。", max_size=40)


@given(_URLISH.map(lambda rest: "http://" + rest) | _URLISH | st.text(max_size=60))
def test_no_text_makes_the_guard_fail_or_two_readers_of_its_url_disagree(text: str) -> None:
    try:
        checked = guard.check_url(text, EVERYTHING)
    except guard.UnsafeUrl:
        return
    assert urlsplit(checked.url).hostname == yarl.URL(checked.url, encoded=True).host == checked.host
    assert yarl.URL(checked.url, encoded=True).port == checked.port
    assert guard.check_url(checked.url, EVERYTHING) == checked


class Answers:
    """A resolver with one answer per question, the last one for ever."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = list(answers)
        self.questions: list[tuple[str, int]] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.questions.append((host, port))
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


async def test_a_name_is_resolved_once_and_pinned_to_all_its_addresses() -> None:
    resolver = Answers(["8.8.8.8", "2606:4700::1111", "8.8.8.8"])
    target = await guard.resolve_and_check("https://agent.example:8443/a2a", NOTHING, resolver)
    assert target == guard.CheckedTarget(
        host="agent.example",
        port=8443,
        addresses=("8.8.8.8", "2606:4700::1111"),
        tls_name="agent.example",
        url="https://agent.example:8443/a2a",
    )
    assert resolver.questions == [("agent.example", 8443)]


@pytest.mark.parametrize("bad", ["10.0.0.1", "169.254.169.254", "::1", "fe80::1%2", "nonsense"])
async def test_one_bad_address_among_good_ones_refuses_the_name(bad: str) -> None:
    with pytest.raises(guard.UnsafeUrl):
        await guard.resolve_and_check("http://agent.example/", NOTHING, Answers(["8.8.8.8", bad]))


async def test_an_address_is_not_resolved() -> None:
    resolver = Answers(["8.8.8.8"])
    target = await guard.resolve_and_check("http://1.1.1.1/", NOTHING, resolver)
    assert (target.addresses, target.tls_name, resolver.questions) == (("1.1.1.1",), None, [])


async def test_a_name_without_an_address_is_not_called_unsafe() -> None:
    async def fails(host: str, port: int) -> Sequence[str]:
        raise OSError("no such name")

    for resolver in (fails, Answers([])):
        with pytest.raises(guard.UnresolvedHost, match=r"agent\.example has no address"):
            await guard.resolve_and_check("http://agent.example/", NOTHING, resolver)


async def test_the_system_resolves_this_machine() -> None:
    target = await guard.resolve_and_check("http://localhost:9/", LOOPBACK)
    assert set(target.addresses) <= {"127.0.0.1", "::1"}
