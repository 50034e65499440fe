"""What a caller puts into a header stays one header."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_platform.egress import guard, heads
from molecule_platform.egress.errors import UnsafeHeader

POLICY = guard.agent_policy(("loopback", "private"))


def request(
    headers: dict[str, str], url: str = "http://agent.example/a2a", data: bytes | None = b""
) -> bytes:
    return heads.request(heads.way_to(guard.check_url(url, POLICY)), "POST", headers, data)


@pytest.mark.parametrize(
    ("url", "host", "target"),
    [
        ("http://agent.example", "agent.example", "/"),
        ("http://agent.example:80/x", "agent.example", "/x"),
        ("https://agent.example:443/x", "agent.example", "/x"),
        ("https://agent.example:80/x", "agent.example:80", "/x"),
        ("http://Agent.Example.:8080/x?y=/z#w", "agent.example:8080", "/x?y=/z"),
        ("http://[::1]:9000/x", "[::1]:9000", "/x"),
        ("http://[::1]?q=1", "[::1]", "/?q=1"),
    ],
)
def test_the_host_and_the_target_are_those_of_the_checked_url(url: str, host: str, target: str) -> None:
    lines = request({}, url).split(b"\r\n")
    assert lines[0].decode() == f"POST {target} HTTP/1.1"
    assert lines[1].decode() == f"Host: {host}"


@given(
    st.dictionaries(st.from_regex(r"X-[A-Za-z0-9-]{1,8}", fullmatch=True), st.text(max_size=20), max_size=4)
)
def test_whatever_the_values_are_the_request_has_exactly_the_named_headers(headers: dict[str, str]) -> None:
    try:
        raw = request(headers, data=b"body")
    except UnsafeHeader:
        assert any(not value.isprintable() for value in headers.values())
        return
    head, _, body = raw.partition(b"\r\n\r\n")
    names = [line.split(b":")[0].decode() for line in head.split(b"\r\n")[1:]]
    assert names == ["Host", "Accept-Encoding", *headers, "Content-Length"]
    assert body == b"body"


@pytest.mark.parametrize(
    "value", ["a\r\nEvil: b", "a\nEvil: b", "a\rb", "\r\n", "a\0b", "\x7f", "\x1b[0m", "\udcff"]
)
def test_a_value_that_could_begin_another_line_is_refused(value: str) -> None:
    with pytest.raises(UnsafeHeader):
        request({"X-Request-Id": value})


@pytest.mark.parametrize("value", ["", "a\tb", "café", "a, b"])
def test_a_value_of_plain_text_is_sent_as_it_is(value: str) -> None:
    assert f"X-Tag: {value}\r\n".encode() in request({"X-Tag": value})


@pytest.mark.parametrize("name", ["X-%s", "X-%", "%%d"])
def test_a_name_is_sent_as_it_is(name: str) -> None:
    assert f"{name}: %s%%\r\n".encode() in request({name: "%s%%"})


@pytest.mark.parametrize("name", ["", "a b", "a:", "a\r\nb", "é"])
def test_a_name_that_is_no_token_is_refused(name: str) -> None:
    with pytest.raises(UnsafeHeader):
        request({name: "x"})


@pytest.mark.parametrize("name", ["Host", "content-length", "Transfer-Encoding", "Connection", "Expect"])
def test_what_frames_a_request_is_not_the_caller_s_to_say(name: str) -> None:
    with pytest.raises(UnsafeHeader, match="leave it out"):
        request({name: "x"})


def test_a_request_without_a_body_or_headers_is_whole() -> None:
    raw = request({}, data=None)
    assert raw == b"POST /a2a HTTP/1.1\r\nHost: agent.example\r\nAccept-Encoding: identity\r\n\r\n"
