"""Frames of event streams."""

from molecule_wire import JSON
from molecule_wire.a2a import sse


def test_a_frame_is_its_number_its_data_and_a_blank_line() -> None:
    artifact: JSON = {"artifactId": "a1", "parts": [{"text": "hi"}]}
    update: JSON = {
        "taskId": "t1",
        "contextId": "c1",
        "artifact": artifact,
        "append": True,
        "lastChunk": True,
    }
    assert sse.frame(3, {"artifactUpdate": update}) == (
        b'id: 3\ndata: {"artifactUpdate":{"taskId":"t1","contextId":"c1","artifact":{"artifactId":"a1",'
        b'"parts":[{"text":"hi"}]},"append":true,"lastChunk":true}}\n\n'
    )


def test_an_error_frame_has_no_number() -> None:
    assert sse.frame(None, {"error": {"code": -32603}}) == b'data: {"error":{"code":-32603}}\n\n'


def test_a_keep_alive_is_a_comment() -> None:
    assert sse.KEEP_ALIVE == b": keep-alive\n\n"


def test_a_frame_is_one_line_for_readers_that_split_at_unicode_breaks() -> None:
    framed = sse.frame(1, {"text": "a\nb\x85c\u2028d\u2029e"})
    assert framed.decode().splitlines() == ["id: 1", r'data: {"text":"a\nb\u0085c\u2028d\u2029e"}', ""]


def test_a_text_that_is_written_over_several_lines_becomes_one() -> None:
    framed = sse.frame_of(2, b'{\r\n "text":\n"a"}')
    assert framed == b'id: 2\ndata: {   "text": "a"}\n\n'
