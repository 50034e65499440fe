"""What a request says of itself, and what of it is believed."""

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_platform.domain.errors import ApiError
from molecule_platform.web.exchange import HttpInput
from molecule_platform.web.pipeline import request
from molecule_platform.web.pipeline.allowed_hosts import AllowedHosts
from molecule_platform.web.pipeline.request import EdgeSettings

PROXY = EdgeSettings(trusted_proxies=(ipaddress.ip_network("10.0.0.0/8"),))
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def came(client: str = "192.0.2.7", scheme: str = "http", **headers: str) -> HttpInput:
    named = {"host": "platform", **{name.replace("_", "-"): value for name, value in headers.items()}}
    return HttpInput("GET", "/health", b"a=1&a=2&b=", named, scheme, client)


def test_a_forwarded_address_is_believed_only_from_a_trusted_proxy() -> None:
    said = {"x_forwarded_for": "203.0.113.9, 10.0.0.2"}
    assert request.Request(came("10.0.0.1", **said), PROXY).address == "203.0.113.9"
    assert request.Request(came("192.0.2.7", **said), PROXY).address == "192.0.2.7"
    assert request.Request(came("10.0.0.1", **said), EdgeSettings()).address == "10.0.0.1"


def test_an_address_that_a_client_put_in_front_is_not_believed() -> None:
    forged = came("10.0.0.1", x_forwarded_for="1.1.1.1, 203.0.113.9")
    assert request.Request(forged, PROXY).address == "203.0.113.9"


def test_the_base_url_is_the_setting_else_what_a_trusted_proxy_says_else_the_host() -> None:
    forwarded = {"x_forwarded_host": "molecule.example", "x_forwarded_proto": "https"}
    assert request.Request(came("10.0.0.1", **forwarded), PROXY).base_url == "https://molecule.example"
    assert request.Request(came(**forwarded), PROXY).base_url == "http://platform"
    told = EdgeSettings(external_url="https://agents.example")
    assert request.Request(came(**forwarded), told).base_url == "https://agents.example"


@pytest.mark.parametrize(("scheme", "base"), [("ws", "http://platform"), ("wss", "https://platform")])
def test_a_websocket_comes_from_the_same_origin_as_its_page(scheme: str, base: str) -> None:
    assert request.Request(came(scheme=scheme), EdgeSettings()).base_url == base


def test_a_trace_goes_on_with_a_step_of_our_own() -> None:
    given_trace = f"00-{TRACE}-00f067aa0ba902b7-01"
    read = request.Request(came(traceparent=given_trace), EdgeSettings())
    version, trace, span, flags = read.traceparent.split("-")
    assert (version, trace, flags, read.trace_id) == ("00", TRACE, "01", TRACE)
    assert span != "00f067aa0ba902b7"


@pytest.mark.parametrize(
    "broken",
    ["", "nonsense", f"00-{'0' * 32}-00f067aa0ba902b7-01", f"00-{TRACE}-{'0' * 16}-01", f"01-{TRACE}-x-01"],
)
def test_a_broken_trace_begins_anew(broken: str) -> None:
    read = request.Request(came(traceparent=broken), EdgeSettings())
    assert len(read.trace_id) == 32
    assert read.trace_id not in (TRACE, "0" * 32)


@given(st.text(max_size=200))
def test_a_request_id_is_taken_when_it_is_plain_and_made_when_it_is_not(given_id: str) -> None:
    made = came()
    made.headers = {**made.headers, "x-request-id": given_id.encode().decode("latin-1")}
    plain = 1 <= len(given_id) <= 128 and all(c.isascii() and (c.isalnum() or c in "._-") for c in given_id)
    read = request.Request(made, EdgeSettings())
    assert (read.request_id == given_id) is plain
    assert read.request_id


def test_the_session_is_found_among_other_cookies() -> None:
    read = request.Request(came(cookie='a=b; molecule_session="xyz"; c=d'), EdgeSettings())
    assert (read.session, read.bearer) == ("xyz", None)


def test_the_name_of_a_session_s_cookie_holds_the_port_because_browsers_do_not_tell_ports_apart() -> None:
    both = "molecule_session_8081=theirs; molecule_session_8080=ours; molecule_session=older"
    for host, scheme, name, session in (
        ("platform:8080", "http", "molecule_session_8080", "ours"),
        ("[::1]:8081", "http", "molecule_session_8081", "theirs"),
        ("platform", "http", "molecule_session_80", "older"),
        ("platform", "https", "molecule_session_443", "older"),
    ):
        read = request.Request(came(scheme=scheme, host=host, cookie=both), EdgeSettings())
        assert (read.session_name, read.session) == (name, session)


def test_a_listed_origin_counts_as_our_own_and_no_other_does() -> None:
    listing = EdgeSettings(cors_origins=frozenset({"https://console.example"}))
    for headers, own in (
        ({"origin": "https://console.example"}, True),
        ({"referer": "http://platform/page"}, True),
        ({"origin": "https://console.example.evil"}, False),
        ({"origin": "null"}, False),
        ({}, False),
    ):
        assert request.Request(came(**headers), listing).is_from_own_page is own


NAMES = AllowedHosts(["https://molecule.example", "http://agents.internal:8080"], ["molecule", "other:9000"])


@pytest.mark.parametrize(
    ("host", "known"),
    [
        *(
            (host, True)
            for host in ("localhost", "LOCALHOST:1", "127.0.0.1:9", "[::1]:8080", "a.localhost:3")
        ),
        *((host, True) for host in ("host.docker.internal:8080", "molecule.example", "molecule.example:443")),
        *((host, True) for host in ("molecule:8080", "molecule", "other:9000", "agents.internal:8080")),
        *((host, True) for host in ("192.0.2.1:8080", "molecule.example.")),
        *((host, False) for host in ("molecule.example:8443", "other:9001", "evil.example", "192.0.2.1:81")),
        *((host, False) for host in ("192.0.2.2:8080", "", "a b", "localhost.evil.example", "x@localhost")),
        *((host, False) for host in ("localhost/x", "127.0.0.1.evil.example", "[::1", "molecule:http")),
    ],
)
def test_only_names_of_the_platform_are_known(host: str, known: bool) -> None:
    assert NAMES.allows(host, "192.0.2.1:8080") is known


def test_a_proxy_speaks_for_the_name_only_if_it_is_trusted() -> None:
    known = EdgeSettings(hosts=NAMES, trusted_proxies=PROXY.trusted_proxies)
    named = EdgeSettings(
        hosts=NAMES, trusted_proxies=PROXY.trusted_proxies, external_url="https://molecule.example"
    )
    forwarded = {"host": "upstream", "x_forwarded_host": "molecule.example"}
    request.Request(came("10.0.0.1", **forwarded), known).check_host()
    request.Request(came("10.0.0.1", host="upstream"), named).check_host()
    for edge, peer, headers in (
        (known, "10.0.0.1", {"host": "molecule", "x_forwarded_host": "evil.example"}),
        (known, "192.0.2.7", forwarded),
        (named, "192.0.2.7", {"host": "upstream"}),
    ):
        with pytest.raises(ApiError) as refused:
            request.Request(came(peer, **headers), edge).check_host()
        assert (refused.value.code, refused.value.status) == ("misdirected-request", 421)
        assert "MOLECULE_ALLOWED_HOSTS" in refused.value.sentence
