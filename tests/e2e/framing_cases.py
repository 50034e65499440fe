"""Framing cases of HTTP/1.1: requests as clients, proxies and attackers send them.

`{path}` stands for a path that answers 200, `{host}` for the server's own authority.
"""

from dataclasses import dataclass
from typing import Literal

SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: {host}\r\n\r\n"
CHUNKED = b"Transfer-Encoding: chunked"
UPGRADE = (
    b"Connection: Upgrade",
    b"Upgrade: websocket",
    b"Sec-WebSocket-Version: 13",
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)
Outcome = Literal["served", "refused", "either"]


@dataclass(frozen=True)
class Case:
    """Bytes to send, the number of requests in them, and what becomes of them.

    `served`: each request has a response, and the connection goes on. `refused`: the last response is an
    error and the connection closes; nothing behind the fault is taken for a request.
    """

    name: str
    payload: bytes
    outcome: Outcome
    requests: int = 1


def _head(
    *headers: bytes, line: bytes = b"GET {path} HTTP/1.1", host: bytes | None = b"Host: {host}"
) -> bytes:
    return b"\r\n".join([line, *([] if host is None else [host]), *headers, b"", b""])


def _post(*headers: bytes, body: bytes = b"") -> bytes:
    return _head(*headers, line=b"POST {path} HTTP/1.1") + body


def _lengths() -> list[Case]:
    valid = {b"3": "plain", b"003": "leading zeros", b"3 ": "trailing space", b"\t3": "tab"}
    wrong = [b"+3", b"-3", b"0x3", b"3,3", b"3, 3", b"3;", b"", b"1e1", b"3 3", b"\xb3", b"3\x00", b"3a"]
    wrong += [b"9" * 23, b"18446744073709551616", b"three"]
    cases = [
        Case(f"length {why}", _post(b"Content-Length: " + text, body=b"abc"), "served")
        for text, why in valid.items()
    ]
    cases += [
        Case(f"length {text!r}", _post(b"Content-Length: " + text, body=b"abc" + SMUGGLED), "refused")
        for text in wrong
    ]
    pairs = {
        "different lengths": (b"Content-Length: 3", b"Content-Length: 4"),
        "equal lengths": (b"Content-Length: 3", b"Content-Length: 3"),
        "length, then chunks": (b"Content-Length: 3", CHUNKED),
        "chunks, then length": (CHUNKED, b"Content-Length: 3"),
        "length with a space before its colon": (b"Content-Length : 3",),
        "length with a tab before its colon": (b"Content-Length\t: 3",),
        "length behind a fold": (b"X-A: b", b" Content-Length: 3"),
        "length behind a bare CR": (b"X-A: b\rContent-Length: 3",),
    }
    cases += [Case(why, _post(*headers, body=b"abc" + SMUGGLED), "refused") for why, headers in pairs.items()]
    cases.append(Case("a body on GET", _head(b"Content-Length: 3") + b"abc", "served"))
    cases.append(Case("no length on POST", _post(), "served"))
    cases.append(
        Case(
            "length on HTTP/1.0", _head(b"Content-Length: 3", line=b"POST {path} HTTP/1.0") + b"abc", "either"
        )
    )
    return cases


def _codings() -> list[Case]:
    chunks = b"3\r\nabc\r\n0\r\n\r\n"
    valid = [b"chunked", b"Chunked", b"CHUNKED", b"chunked ", b"\tchunked"]
    wrong = [b"gzip", b"gzip, chunked", b"chunked, gzip", b"chunked, chunked", b"identity", b"xchunked"]
    wrong += [
        b"chunked;q=1",
        b'"chunked"',
        b"chunk",
        b"",
        b"chunked\x0b",
        b"x,chunked",
        b"chunked,",
        b",chunked",
    ]
    cases = [
        Case(f"coding {text!r}", _post(b"Transfer-Encoding: " + text, body=chunks), "served")
        for text in valid
    ]
    cases += [
        Case(f"coding {text!r}", _post(b"Transfer-Encoding: " + text, body=chunks + SMUGGLED), "refused")
        for text in wrong
    ]
    pairs = {
        "two codings": (CHUNKED, CHUNKED),
        "chunked and identity": (CHUNKED, b"Transfer-Encoding: identity"),
        "identity and chunked": (b"Transfer-Encoding: identity", CHUNKED),
        "coding with a space before its colon": (b"Transfer-Encoding : chunked",),
        "coding behind a fold": (b"X-A: b", b"\tTransfer-Encoding: chunked"),
    }
    cases += [Case(why, _post(*headers, body=chunks + SMUGGLED), "refused") for why, headers in pairs.items()]
    old = _head(CHUNKED, line=b"POST {path} HTTP/1.0") + chunks + SMUGGLED
    cases.append(Case("chunks over HTTP/1.0", old, "refused"))
    # No header of framing: its chunks are read as another request.
    unknown = _post(b"Transfer_Encoding: chunked", body=chunks + SMUGGLED)
    cases.append(Case("coding with an underscore", unknown, "refused", 2))
    return cases


def _chunks() -> list[Case]:
    valid = {
        "one chunk": b"3\r\nabc\r\n0\r\n\r\n",
        "no chunk": b"0\r\n\r\n",
        "upper-case size": b"A\r\n0123456789\r\n0\r\n\r\n",
        "leading zeros": b"0003\r\nabc\r\n000\r\n\r\n",
        "extension": b"3;a=b\r\nabc\r\n0;c\r\n\r\n",
        "quoted extension": b'3;a="b;c"\r\nabc\r\n0\r\n\r\n',
        "trailer": b"3\r\nabc\r\n0\r\nX-A: b\r\n\r\n",
        "trailers that look like framing": b"3\r\nabc\r\n0\r\nX-A: 30\r\nAuthorization: a b\r\n\r\n",
        "a trailer Host": b"3\r\nabc\r\n0\r\nHost: evil\r\n\r\n",
    }
    wrong = {
        "hexadecimal prefix": b"0x3\r\nabc\r\n0\r\n\r\n",
        "sign": b"+3\r\nabc\r\n0\r\n\r\n",
        "negative": b"-3\r\nabc\r\n0\r\n\r\n",
        "leading space": b" 3\r\nabc\r\n0\r\n\r\n",
        "no number": b"g\r\nabc\r\n0\r\n\r\n",
        "empty size": b"\r\nabc\r\n0\r\n\r\n",
        "overflow": b"FFFFFFFFFFFFFFFFF\r\nabc\r\n0\r\n\r\n",
        "size too small": b"2\r\nabc\r\n0\r\n\r\n",
        "no end of data": b"3\r\nabcX\r\n0\r\n\r\n",
        "line feeds alone": b"3\nabc\n0\n\n",
        "carriage return alone": b"3\rabc\r0\r\r",
        "NUL in an extension": b"3;a=\x00\r\nabc\r\n0\r\n\r\n",
        "line feed in an extension": b"3;a\nabc\r\n0\r\n\r\n",
        "bad trailer name": b"3\r\nabc\r\n0\r\nX A: b\r\n\r\n",
        "folded trailer": b"3\r\nabc\r\n0\r\nX-A: b\r\n c\r\n\r\n",
    }
    cases = [Case(f"chunks: {why}", _post(CHUNKED, body=body), "served") for why, body in valid.items()]
    cases += [
        Case(f"chunks: {why}", _post(CHUNKED, body=body + SMUGGLED), "refused") for why, body in wrong.items()
    ]
    cases.append(
        Case("chunks: a space behind the size", _post(CHUNKED, body=b"3 \r\nabc\r\n0\r\n\r\n"), "either")
    )
    for trailer in (b"Content-Length: 50", CHUNKED):
        body = b"3\r\nabc\r\n0\r\n" + trailer + b"\r\n\r\n"
        cases.append(Case(f"chunks: trailer {trailer.decode()}", _post(CHUNKED, body=body), "either"))
    return cases


def _heads() -> list[Case]:
    wrong = {
        "folded header": b"X-A: b\r\n c",
        "NUL": b"X-A: b\0c",
        "control character": b"X-A: b\x01c",
        "DEL in a name": b"X-\x7f: b",
        "bare CR": b"X-A: b\rX-B: c",
        "no colon": b"X-A",
        "no name": b": b",
        "space in a name": b"X A: b",
        "space before the colon": b"X-A : b",
        "parenthesis in a name": b"X(A): b",
        "bytes above ASCII in a name": b"X-\xe9: b",
        "a second Host": b"Host: {host}",
        "another Host": b"Host: evil",
        "an upper-case second Host": b"HOST: evil",
        "second credential": b"Authorization: Bearer a\r\nAuthorization: Bearer b",
        "long header": b"X-A: " + b"b" * 70_000,
        "many headers": b"\r\n".join(b"X-%d: b" % number for number in range(200)),
    }
    cases = [Case(f"head: {why}", _head(text) + SMUGGLED, "refused") for why, text in wrong.items()]
    served = {
        "no value": b"X-A:",
        "value in Latin-1": b"X-A: \xe9",
        "tab in a value": b"X-A: b\tc",
        "repeated harmless header": b"Accept: a\r\nAccept: b",
        "token characters in a name": b"!#$%&'*+-.^_`|~: b",
        "long value": b"X-A: " + b"b" * 30_000,
    }
    cases += [Case(f"head: {why}", _head(text), "served") for why, text in served.items()]
    cases += [
        Case("head: no Host", _head(host=None) + SMUGGLED, "refused"),
        Case("head: a Host with a space", _head(host=b"Host: a b") + SMUGGLED, "either", 2),
        Case("head: empty Host", _head(host=b"Host:"), "either"),
        Case("head: Host behind a fold", _head(host=b"X-A: b\r\n Host: {host}") + SMUGGLED, "refused"),
        Case("head: line feeds alone", b"GET {path} HTTP/1.1\nHost: {host}\n\n", "refused"),
        Case("head: empty lines first", b"\r\n\r\n" + _head(), "served"),
        Case("head: space before the method", b" " + _head(), "refused"),
        Case("head: first header begins with a space", _head(host=b" Host: {host}") + SMUGGLED, "refused"),
        Case("head: never ends", b"GET {path} HTTP/1.1\r\nX-A: " + b"b" * 100_000, "refused"),
        Case("head: unfinished", b"GET {path} HTTP/1.1\r\nHost: {ho", "refused"),
        Case("head: nothing", b"", "served", 0),
        Case("head: TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", "refused"),
        Case("head: noise", bytes(range(256)), "refused"),
    ]
    return cases


def _targets() -> list[Case]:
    refused = [
        b"*",
        b"",
        b"\x7f",
        b"/\xe9",
        b"ftp://{host}/",
        b"evil:443",
        b"http://evil/",
        b"https://evil:1/",
    ]
    refused += [
        b"http://",
        b"http://evil@{host}/",
        b"/a b",
        b"/a\tb",
        b"#a",
        b"a",
        b"{path}\x00",
        b"/" + b"a" * 70_000,
    ]
    refused += [b"http://evil{path}", b"HTTP://EVIL/"]
    served = [b"{path}?a=b", b"{path}?a=%20&b", b"{path}?", b"http://{host}{path}", b"{path}?" + b"a" * 3000]
    either = [
        b"//",
        b"//evil/",
        b"/../",
        b"/%00",
        b"/%zz",
        b"/%2e%2e/",
        b"{path}#a",
        b"http://{host}",
        b"?a",
        b"/;a",
    ]
    cases: list[Case] = []
    outcomes: dict[Outcome, list[bytes]] = {"refused": refused, "served": served, "either": either}
    for outcome, targets in outcomes.items():
        for target in targets:
            head = _head(line=b"GET " + target + b" HTTP/1.1")
            cases.append(
                Case(f"target {target[:20]!r}", head + (SMUGGLED if outcome == "refused" else b""), outcome)
            )
    return cases


def _versions() -> list[Case]:
    wrong = [
        b"HTTP/0.9",
        b"HTTP/1.2",
        b"HTTP/2.0",
        b"HTTP/3.0",
        b"http/1.1",
        b"HTTP/1.",
        b"HTTP/11",
        b"HTTP/1.10",
    ]
    wrong += [b"HTTP/ 1.1", b"FTP/1.1", b"HTTP/-1.1", b"HTTP/1.1\x00", b"HTTP", b"HTTP/1,1", b"HTTP/01.1"]
    cases = [
        Case(f"version {text!r}", _head(line=b"GET {path} " + text) + SMUGGLED, "refused") for text in wrong
    ]
    cases.append(Case("version: none", b"GET {path}\r\n\r\n", "refused"))
    cases.append(Case("version: a space behind it", _head(line=b"GET {path} HTTP/1.1 "), "either"))
    cases.append(Case("version: 1.0", _head(line=b"GET {path} HTTP/1.0"), "either"))
    keep = _head(b"Connection: keep-alive", line=b"GET {path} HTTP/1.0")
    cases.append(Case("version: 1.0 that asks to go on", keep, "either"))
    return cases


def _methods() -> list[Case]:
    refused = [b"get", b"G ET", b"", b"FOO", b"PRI", b"GET\t", b"G" * 300, b"GET,"]
    cases = [
        Case(f"method {name[:10]!r}", _head(line=name + b" {path} HTTP/1.1") + SMUGGLED, "refused")
        for name in refused
    ]
    cases.append(Case("method CONNECT", b"CONNECT evil:443 HTTP/1.1\r\nHost: evil:443\r\n\r\n", "refused"))
    for name in (b"HEAD", b"OPTIONS", b"TRACE", b"DELETE", b"PUT", b"PATCH", b"M-SEARCH"):
        cases.append(Case(f"method {name.decode()}", _head(line=name + b" {path} HTTP/1.1"), "either"))
    return cases


def _pipelines() -> list[Case]:
    whole = _head()
    return [
        Case("pipeline: two", whole * 2, "served", 2),
        Case("pipeline: fifty", whole * 50, "served", 50),
        Case("pipeline: bodies between", (_post(b"Content-Length: 3", body=b"abc") + whole) * 3, "served", 6),
        Case(
            "pipeline: chunks between", (_post(CHUNKED, body=b"1\r\na\r\n0\r\n\r\n") + whole) * 3, "served", 6
        ),
        Case("pipeline: noise behind", whole + b"noise\r\n\r\n" + SMUGGLED, "refused", 2),
        Case("pipeline: a body behind no length", _post(body=b"abc") + SMUGGLED, "refused", 2),
        Case("pipeline: behind a close", _head(b"Connection: close") + SMUGGLED, "either"),
        Case("pipeline: behind HTTP/1.0", _head(line=b"GET {path} HTTP/1.0") + SMUGGLED, "either"),
        Case(
            "pipeline: an unfinished body", whole + _post(b"Content-Length: 1000", body=b"abc"), "refused", 2
        ),
    ]


def _expectations() -> list[Case]:
    expect = b"Expect: 100-continue"
    return [
        Case("expect: with its body", _post(expect, b"Content-Length: 3", body=b"abc"), "either"),
        Case("expect: chunks", _post(expect, CHUNKED, body=b"1\r\na\r\n0\r\n\r\n"), "either"),
        Case("expect: no body follows", _post(expect, b"Content-Length: 60", body=SMUGGLED), "either"),
        Case("expect: on GET", _head(expect), "either"),
        Case("expect: something else", _head(b"Expect: 200-maybe"), "either"),
        Case(
            "expect: upper case", _post(b"Expect: 100-CONTINUE", b"Content-Length: 3", body=b"abc"), "either"
        ),
        Case(
            "expect: over HTTP/1.0",
            _head(expect, b"Content-Length: 3", line=b"POST {path} HTTP/1.0") + b"abc",
            "either",
        ),
    ]


def _upgrades() -> list[Case]:
    h2c = (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABk")
    return [
        Case("upgrade: h2c", _head(*h2c) + SMUGGLED, "either"),
        Case("upgrade: h2c with a body", _post(*h2c, b"Content-Length: 3", body=b"abc") + SMUGGLED, "either"),
        Case("upgrade: h2c preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "refused"),
        Case("upgrade: unknown", _head(b"Connection: Upgrade", b"Upgrade: tls/1.0") + SMUGGLED, "either"),
        Case("upgrade: without Connection", _head(b"Upgrade: h2c"), "served"),
        Case("upgrade: Connection alone", _head(b"Connection: Upgrade"), "served"),
        Case(
            "upgrade: twice", _head(b"Connection: Upgrade", b"Upgrade: h2c", b"Upgrade: websocket"), "refused"
        ),
        Case("websocket: without a credential", _head(*UPGRADE, line=b"GET /ws HTTP/1.1"), "refused"),
        Case("websocket: another path", _head(*UPGRADE), "either"),
        Case("websocket: bytes behind the head", _head(*UPGRADE) + b"x" + SMUGGLED, "either"),
        Case(
            "websocket: with a body", _post(*UPGRADE, b"Content-Length: 3", body=b"abc") + SMUGGLED, "either"
        ),
        Case("websocket: no key", _head(*UPGRADE[:3], line=b"GET /ws HTTP/1.1"), "refused"),
        Case(
            "websocket: old version",
            _head(*UPGRADE[:2], b"Sec-WebSocket-Version: 8", line=b"GET /ws HTTP/1.1"),
            "refused",
        ),
        Case(
            "websocket: long target",
            _head(*UPGRADE, line=b"GET /ws?" + b"a" * 9000 + b" HTTP/1.1"),
            "refused",
        ),
        Case(
            "websocket: long header",
            _head(*UPGRADE, b"X-A: " + b"b" * 9000, line=b"GET /ws HTTP/1.1"),
            "refused",
        ),
        Case("websocket: over HTTP/1.0", _head(*UPGRADE, line=b"GET /ws HTTP/1.0"), "refused"),
        Case(
            "websocket: behind a request", _head() + _head(*UPGRADE, line=b"GET /ws HTTP/1.1"), "refused", 2
        ),
    ]


CASES = [
    *_lengths(),
    *_codings(),
    *_chunks(),
    *_heads(),
    *_targets(),
    *_versions(),
    *_methods(),
    *_pipelines(),
    *_expectations(),
    *_upgrades(),
]
