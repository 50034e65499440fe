"""What comes from outside is bounded and checked before it is decoded: always a 4xx, never a 5xx."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from molecule_skill.serve import asgi
from packages.skills.tests.serve.served import Served, serving

BODIES = {
    "deep": b'{"arguments":' + b"[" * 10_000 + b"]" * 10_000 + b"}",
    "twice": b'{"arguments":{"text":"a","text":"b"}}',
    "surrogate": b'{"arguments":{"text":"\\ud800"}}',
    "latin": b'{"arguments":{"text":"\xff"}}',
    "nan": b'{"arguments":{"text":NaN}}',
    "infinite": b'{"arguments":{"text":1e999}}',
    "digits": b'{"arguments":{"text":' + b"9" * 5000 + b"}}",
    "cut": b'{"arguments":{"te',
    "array": b"[]",
    "text": b'"x"',
    "null": b"null",
    "two": b"{}{}",
}


@pytest.fixture(scope="module")
async def served() -> AsyncIterator[Served]:
    async with serving() as one:
        yield one


@pytest.mark.parametrize("name", BODIES)
@pytest.mark.parametrize("path", ["/invoke/shout", "/answers/q_x", "/input-requests/ir_x"])
async def test_a_body_that_is_no_proper_json_is_a_400(served: Served, name: str, path: str) -> None:
    answer = await served.http.post(path, content=BODIES[name], headers={"content-type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["code"] in ("invalid-json", "invalid-request")
    assert answer.json()["error"]


async def test_a_body_of_20_mib_is_413_and_names_the_limit(served: Served) -> None:
    body = b'{"arguments":{"text":"' + b"x" * (20 * 1024 * 1024) + b'"}}'
    answer = await served.http.post("/invoke/shout", content=body)
    assert (answer.status_code, answer.json()["code"]) == (413, "payload-too-large")
    assert answer.json()["limit_bytes"] == 16 * 1024 * 1024

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b"x" * (1024 * 1024)

    chunked = await served.http.post("/invoke/shout", content=pieces())
    assert chunked.status_code == 413
    rpc = await served.http.post("/", content=pieces(), headers={"content-type": "application/json"})
    assert rpc.status_code == 413


async def test_another_media_type_is_415(served: Served) -> None:
    answer = await served.http.post(
        "/invoke/shout", content=b"text=a", headers={"content-type": "text/plain"}
    )
    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported-media-type")


@pytest.mark.parametrize("key", ["", "x" * 256, "a\x7f"])
async def test_a_key_that_cannot_be_kept_is_refused(served: Served, key: str) -> None:
    answer = await served.http.post("/invoke/nothing", headers={"idempotency-key": key})
    assert answer.status_code == 400


@pytest.mark.parametrize(
    "path",
    [
        "/invoke/%00",
        "/invoke/..%2f..%2fetc",
        "/runs/%ff%fe",
        "/runs/x/artifacts/..%2f..%2fpasswd",
        "/invoke/" + "a" * 5000,
        "/invoke/a/b",
    ],
)
async def test_odd_paths_are_404(served: Served, path: str) -> None:
    answer = await served.http.request("GET" if "runs" in path else "POST", path)
    assert answer.status_code == 404


async def test_after_all_of_it_the_server_serves(served: Served) -> None:
    assert (await served.invoke("shout", text="still here")).json()["result"] == "STILL HERE"


async def test_a_body_that_does_not_come_is_given_up(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asgi, "MAX_BODY_SECONDS", 0.05)
    reader, writer = await asyncio.open_connection("127.0.0.1", int(served.url.rpartition(":")[2]))
    writer.write(b"POST /invoke/shout HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10\r\n\r\n{")
    async with asyncio.timeout(10):
        head = await reader.readuntil(b"\r\n\r\n")
    writer.close()
    assert head.startswith(b"HTTP/1.1 400")
