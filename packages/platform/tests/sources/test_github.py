"""Plugins from GitHub: refs become commits, archives come through the guard, and only from where they may."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from molecule_platform.domain.errors import ApiError
from molecule_platform.egress import guard
from molecule_platform.egress.connector import Outbound
from molecule_platform.ports.plugin_sources import StagedPlugin
from molecule_platform.sources import cache as stocks
from molecule_platform.sources.github import GitHubSource
from molecule_platform.testing.github import GitHub, packed
from molecule_platform.testing.serving import Receive, Scope, Send, serving
from tests.rows import each_row

if TYPE_CHECKING:
    from packages.platform.tests.sources.conftest import Shelf

Demo = Callable[..., dict[str, bytes]]
NOWHERE = GitHubSource(Outbound(guard.agent_policy(())), "https://api.github.com", None)


async def staged(shelf: Shelf, source: str) -> StagedPlugin:
    stock = shelf.stock
    return await stock.staged(await stock.resolve(stock.parse(source)))


async def refused(shelf: Shelf, source: str, code: str) -> ApiError:
    with pytest.raises(ApiError) as refusal:
        await staged(shelf, source)
    assert refusal.value.code == code, refusal.value.sentence
    assert shelf.leftovers() == []
    return refusal.value


@pytest.mark.parametrize(
    ("source", "hint", "unpinned"),
    [
        ("github://acme/tools", "tools", True),
        ("github://acme/tools#v1", "tools", False),
        ("github://acme/tools/plugins/demo#feature/x", "demo", False),
        ("github://a-b/t_o.o-ls", "t_o.o-ls", True),
    ],
)
def test_a_source_is_read_into_its_one_spelling(source: str, hint: str, unpinned: bool) -> None:
    spec = NOWHERE.parse(source)
    assert (spec.text, spec.name_hint, spec.unpinned) == (source, hint, unpinned)


@each_row(
    "source",
    [
        "github://acme",
        "github://acme/",
        "github:///tools",
        "github://ac_me/tools",
        "github://acme/tools/",
        "github://acme/tools//x",
        "github://acme/../x",
        "github://acme/tools/../x",
        "github://acme/tools#",
        "github://acme/tools#-x",
        "github://acme/tools#a..b",
        "github://acme/tools#a b",
        "github://acme/tools#a\x7fb",
        "github://acme/tools#a#b",
        "github://acme/tools?x",
        "github://user@acme/tools",
        f"github://{'a' * 40}/tools",
        f"github://acme/{'a' * 101}",
    ],
)
def test_a_source_that_is_none_is_refused_before_anything_is_asked(source: str) -> None:
    with pytest.raises(ApiError) as refused:
        NOWHERE.parse(source)
    assert (refused.value.code, refused.value.extras["field"]) == ("invalid-request", "source")


@given(st.text(max_size=60))
def test_reading_any_source_gives_a_source_or_a_refusal(rest: str) -> None:
    try:
        spec = NOWHERE.parse(f"github://{rest}")
    except ApiError:
        return
    assert spec.text == f"github://{rest}"
    assert ".." not in spec.text.partition("#")[0].split("/")


async def test_a_branch_a_tag_and_a_commit_become_a_commit(shelf: Shelf, hub: GitHub, demo: Demo) -> None:
    first = hub.push("acme/demo", demo())
    hub.repositories["acme/demo"].tags["v1"] = first
    second = hub.push("acme/demo", demo(version="2.0.0"))
    stock = shelf.stock
    found = {
        source: await stock.resolve(stock.parse(f"github://acme/demo{source}"))
        for source in ("", "#main", "#v1", f"#{first}")
    }
    assert {source: (one.kind, one.pinned) for source, one in found.items()} == {
        "": ("branch", f"github://acme/demo#{second}"),
        "#main": ("branch", f"github://acme/demo#{second}"),
        "#v1": ("tag", f"github://acme/demo#{first}"),
        f"#{first}": ("commit", f"github://acme/demo#{first}"),
    }


async def test_a_commit_is_fetched_once_and_its_folder_is_the_plugin(
    shelf: Shelf, hub: GitHub, demo: Demo
) -> None:
    files = {f"plugins/demo/{path}": content for path, content in demo(**{"setup.sh": b"echo"}).items()}
    commit = hub.push("acme/many", {**files, "README.md": b"all of them"})
    source = f"github://acme/many/plugins/demo#{commit}"
    found = await asyncio.gather(*(staged(shelf, source) for _ in range(3)))
    assert {one.archive for one in found} == {found[0].archive}
    assert sorted(path.name for path in found[0].tree.iterdir()) == ["a.txt", "plugin.yaml", "setup.sh"]
    assert (found[0].source, found[0].resolved) == (source, source)
    assert hub.paths() == [f"/repos/acme/many/tarball/{commit}", f"/archives/acme/many/{commit}"]


async def test_our_token_goes_to_the_api_and_not_along_a_redirect(
    shelf: Shelf, hub: GitHub, demo: Demo
) -> None:
    hub.push("acme/demo", demo())
    await staged(shelf, "github://acme/demo")
    shown = [(asked.path.split("/")[1], bool(asked.authorization)) for asked in hub.asked]
    assert shown == [("repos", True), ("repos", True), ("archives", False)]


async def test_a_redirect_elsewhere_is_not_followed(shelf: Shelf, hub: GitHub, demo: Demo) -> None:
    hub.push("acme/demo", demo())
    with serving(hub.serve) as elsewhere:
        hub.archives_at = elsewhere
        refusal = await refused(shelf, "github://acme/demo", "fetch-failed")
    assert "redirected" in refusal.sentence
    assert not any(path.startswith("/archives") for path in hub.paths())


async def test_a_redirect_that_leads_in_circles_ends(shelf: Shelf, hub: GitHub, demo: Demo) -> None:
    hub.push("acme/demo", demo())
    hub.archives_at = f"{hub.url}/repos/acme/demo/tarball/x?"
    await refused(shelf, "github://acme/demo", "fetch-failed")


async def test_the_public_api_sends_to_its_download_host_alone() -> None:
    onward = NOWHERE._next  # pyright: ignore[reportPrivateUsage]
    place = "https://codeload.github.com/acme/demo/legacy.tar.gz/x"
    assert onward("https://api.github.com/repos/x", place) == place
    for elsewhere in ("http://codeload.github.com/x", "https://codeload.github.com.evil.example/x", "/x"):
        with pytest.raises(ApiError):
            onward("https://api.github.com/repos/x", elsewhere)


async def test_an_api_on_this_machine_is_called_only_where_that_is_allowed(
    hub: GitHub, tmp_path: Path
) -> None:
    outbound = Outbound(guard.agent_policy(()))
    source = GitHubSource(outbound, hub.url, None)
    with pytest.raises(ApiError) as refused:
        await source.resolve(source.parse("github://acme/demo"))
    assert refused.value.code == "fetch-failed"
    assert hub.asked == []
    await outbound.close()


@pytest.mark.parametrize(
    "source", ["github://acme/none", "github://acme/demo#none", "github://acme/demo/sub"]
)
async def test_what_is_not_there_is_not_found(shelf: Shelf, hub: GitHub, demo: Demo, source: str) -> None:
    hub.push("acme/demo", demo())
    await refused(shelf, source, "not-found")


async def test_a_commit_that_is_not_there_is_not_found(shelf: Shelf, hub: GitHub, demo: Demo) -> None:
    hub.push("acme/demo", demo())
    await refused(shelf, f"github://acme/demo#{'0' * 40}", "not-found")


@pytest.mark.parametrize("status", [401, 403, 429, 500, 503])
async def test_an_api_that_refuses_is_a_failed_fetch_without_our_token_in_it(
    shelf: Shelf, hub: GitHub, status: int
) -> None:
    hub.status = status
    refusal = await refused(shelf, "github://acme/demo", "fetch-failed")
    assert str(status) in refusal.sentence
    assert "ghp-a-token" not in refusal.sentence
    assert ("GITHUB_TOKEN" in refusal.sentence) is (status < 500)


@pytest.mark.parametrize(
    ("archive", "code"),
    [
        (b"no archive", "unsafe-archive"),
        (packed({"../../x": b"x"}, "top"), "unsafe-archive"),
        (packed({"a.txt": b"x"}, "top", {"link": "/etc/passwd"}), "unsafe-archive"),
        (packed({"big.bin": b"\0" * 150_000}, "top"), "payload-too-large"),
        (b"\0" * 200_001, "payload-too-large"),
        (packed({f"{n}": b"" for n in range(60)}, "top"), "unsafe-archive"),
        (packed({"../other/x": b"x", "a.txt": b"x"}, "top"), "unsafe-archive"),
    ],
)
async def test_a_hostile_archive_is_refused_and_leaves_nothing(
    shelf: Shelf, hub: GitHub, archive: bytes, code: str
) -> None:
    hub.push_archive("acme/demo", archive)
    await refused(shelf, "github://acme/demo", code)


async def test_a_link_beside_the_plugin_is_not_our_business(shelf: Shelf, hub: GitHub, demo: Demo) -> None:
    files = {f"demo/{path}": content for path, content in demo().items()}
    hub.push_archive("acme/many", packed(files, "top", {"link": "/etc/passwd", "demo2/link": "x"}))
    assert (await staged(shelf, "github://acme/many/demo")).name == "demo"


async def test_a_source_that_takes_too_long_is_given_up(shelf: Shelf, tmp_path: Path) -> None:
    async def silent(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    outbound = Outbound(guard.agent_policy(("loopback",)))
    with serving(silent) as url:
        source = GitHubSource(outbound, url, None)
        stock = stocks.PluginTreeCache(tmp_path / "slow", shelf.local, (source,), shelf.stock._limits, 0.2)  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(ApiError) as at_first:
            await stock.resolve(stock.parse("github://acme/demo"))
        exact = await stock.resolve(stock.parse(f"github://acme/demo#{'1' * 40}"))
        with pytest.raises(ApiError) as later:
            await stock.staged(exact)
        await outbound.close()
    assert {at_first.value.code, later.value.code} == {"deadline-exceeded"}
    assert [*(tmp_path / "slow").iterdir()] == []


async def test_the_stock_forgets_what_was_used_longest_ago(
    shelf: Shelf, demo: Demo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stocks, "MAX_KEPT", 2)
    for name in ("one", "two", "three"):
        shelf.put(name, demo(name))
        await staged(shelf, name)
    assert len([*shelf.kept.iterdir()]) == 2
    assert (await staged(shelf, "one")).name == "one"
