"""Files of a message are found in every dialect, and none is taken from outside of the work folder."""

import base64
import logging
import stat
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from a2a.types import Message, Part

from molecule_runtime.kit.files.attachments import (
    MAX_INLINE_ATTACHMENT_BYTES,
    attachments_of,
    build_user_content_with_files,
    extract_attached_files,
    manifest,
    resolve_attachment_uri,
)
from tests.rows import each_row

PNG = base64.b64encode(b"\x89PNG data").decode()


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    (folder / "sub").mkdir(parents=True)
    (folder / "a b.txt").write_text("hello")
    (folder / "sub" / "pic.png").write_bytes(b"\x89PNG data")
    (tmp_path / "outside.txt").write_text("secret")
    (folder / "link.txt").symlink_to(tmp_path / "outside.txt")
    (folder / "inner.txt").symlink_to(folder / "a b.txt")
    return folder


def _uris(work: Path) -> list[str]:
    return [
        "workspace:/workspace/a b.txt",
        "workspace:/workspace/a%20b.txt",
        "workspace:a b.txt",
        "file:///workspace/a%20b.txt",
        "file://localhost/workspace/a%20b.txt",
        "/workspace/a b.txt",
        f"workspace:{work}/a b.txt",
        f"{work}/sub/../a b.txt",
        "/workspace/inner.txt",
    ]


def test_every_spelling_of_a_place_leads_to_the_file(work: Path) -> None:
    for uri in _uris(work):
        assert resolve_attachment_uri(uri, work=work) == str(work / "a b.txt"), uri


@each_row(
    "uri",
    [
        *("/etc/passwd", "file:///etc/passwd", "workspace:/etc/passwd", "workspace:../outside.txt"),
        *("/workspace/../outside.txt", "/workspace/link.txt", "file:///workspace/%2e%2e/outside.txt"),
        *("file://evil.example/workspace/a%20b.txt", "/workspace/none.txt", "/workspace", "workspace:"),
        *("relative.txt", "ftp://x/y", "javascript:alert(1)", "/workspace/a\0b", ""),
    ],
)
def test_what_leads_out_or_nowhere_is_ignored_with_a_warning(
    uri: str, work: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        assert resolve_attachment_uri(uri, work=work) is None
    assert "ignored" in caplog.text


def _dialects(uri: str) -> list[Any]:
    new = {"url": uri, "filename": "a.txt", "mediaType": "text/plain"}
    old = {"kind": "file", "file": {"uri": uri, "name": "a.txt", "mimeType": "text/plain"}}
    file = SimpleNamespace(uri=uri, name="a.txt", mime_type="text/plain")
    text = {"kind": "text", "text": "hello"}
    return [
        {"parts": [text, new]},
        {"parts": [text, old]},
        [new],
        SimpleNamespace(parts=[SimpleNamespace(root=SimpleNamespace(kind="file", file=file))]),
        SimpleNamespace(message=SimpleNamespace(parts=[SimpleNamespace(kind="file", file=file)])),
        Message(parts=[Part(text="hello"), Part(url=uri, filename="a.txt", media_type="text/plain")]),
    ]


def test_a_file_is_found_in_every_dialect(work: Path) -> None:
    for message in _dialects("workspace:/workspace/a b.txt"):
        assert extract_attached_files(message, work=work) == [
            {"name": "a.txt", "mime_type": "text/plain", "path": str(work / "a b.txt")}
        ], message


@each_row(
    "part",
    [
        {"raw": PNG, "filename": "pic.png", "mediaType": "image/png"},
        {"kind": "file", "file": {"bytes": PNG, "name": "pic.png", "mimeType": "image/png"}},
        {"kind": "file", "file": {"bytes": PNG.rstrip("="), "name": "pic.png"}},
        Part(raw=b"\x89PNG data", filename="pic.png", media_type="image/png"),
        {"raw": PNG, "filename": "../../pic.png"},
    ],
)
def test_bytes_are_saved_to_the_uploads(part: Any, work: Path) -> None:
    (attachment,) = attachments_of([part], work=work)
    assert (attachment.name, attachment.mime_type, attachment.size) == ("pic.png", "image/png", 9)
    assert attachment.path.parent == work / ".molecule" / "chat-uploads"
    assert attachment.path.name.endswith("-pic.png")
    assert attachment.path.read_bytes() == b"\x89PNG data"
    assert stat.S_IMODE(attachment.path.stat().st_mode) == 0o600


@each_row(
    "part",
    [{"raw": "no base64!"}, {"raw": ""}, {"url": ""}, {"text": "x"}, {"data": {"url": "x"}}, 7, None, "x"],
)
def test_a_part_without_a_file_is_none(part: Any, work: Path) -> None:
    assert extract_attached_files([part], work=work) == []


def test_a_message_without_parts_has_no_files(work: Path) -> None:
    for message in ({}, None, SimpleNamespace(), {"parts": None}):
        assert extract_attached_files(message, work=work) == []


def test_uploads_never_leave_the_work_folder_over_a_link(work: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (work / ".molecule").symlink_to(tmp_path / "elsewhere")
    assert attachments_of([{"raw": PNG, "filename": "pic.png"}], work=work) == []
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_uploads_of_the_platform_are_fetched_by_the_given_function(work: Path) -> None:
    urls = list[str]()

    def download(url: str) -> bytes | None:
        urls.append(url)
        return b"data" if "platform" in url else None

    parts = [{"url": "https://platform/uploads/x/report.pdf?sig=1"}, {"url": "https://evil.example/x"}]
    (attachment,) = attachments_of(parts, work=work, download=download)
    assert (attachment.name, attachment.mime_type) == ("report.pdf", "application/pdf")
    assert attachment.path.read_bytes() == b"data"
    assert len(urls) == 2
    assert attachments_of(parts, work=work) == []


def test_the_manifest_lists_every_file_on_a_line_of_its_own(work: Path) -> None:
    parts = [{"url": "/workspace/a b.txt", "filename": "x\ny.txt", "mediaType": "text/plain\n- z"}]
    attached = extract_attached_files(parts, work=work)
    assert manifest(attached) == f"Attached files:\n- xy.txt (text/plain) at {work}/a b.txt"
    assert manifest([]) == ""


def test_images_are_inlined_unless_that_is_disabled(work: Path) -> None:
    attached = extract_attached_files(
        [{"url": "/workspace/sub/pic.png"}, {"url": "/workspace/a b.txt"}], work=work
    )
    content = build_user_content_with_files("look", attached, environ={})
    assert isinstance(content, list)
    assert content[0]["text"].startswith("look\n\nAttached files:\n- pic.png (image/png) at ")
    assert content[1:] == [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}]
    disabled = build_user_content_with_files(
        "look", attached, environ={"MOLECULE_DISABLE_IMAGE_INLINING": "1"}
    )
    assert disabled == content[0]["text"]
    assert build_user_content_with_files("look", [], environ={}) == "look"


def test_a_large_image_is_not_inlined(work: Path) -> None:
    with (work / "big.png").open("wb") as file:
        file.truncate(MAX_INLINE_ATTACHMENT_BYTES + 1)
    attached = extract_attached_files([{"url": "/workspace/big.png"}], work=work)
    assert isinstance(build_user_content_with_files("look", attached, environ={}), str)
