"""Headers of a download, whatever a manifest says, and lists that say what they are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

if TYPE_CHECKING:
    from packages.platform.tests.conftest import Visitor


@pytest.fixture
def offered(visit: Visitor) -> Path:
    """The folder of a plugin that the house of `visit` offers; no other test has one of its name."""
    place = visit.platform._resources.settings.data_dir / "plugins" / f"plugin-{uuid4()}"
    place.mkdir(parents=True)
    return place


@pytest.fixture
async def agent(visit: Visitor) -> tuple[str, str]:
    return await visit.workspace()


@pytest.mark.parametrize(
    ("version", "header"),
    [
        ("1.0.0", "1.0.0"),
        ("1.0.0\r\nX-Evil: 1", "1.0.0??X-Evil: 1"),
        ('1"; x="2', '1"; x="2'),
        ("1.0.0-β", "1.0.0-?"),
        ("9" * 500, "9" * 200),
    ],
)
async def test_a_version_is_one_header_and_no_other(
    agent: tuple[str, str], offered: Path, visit: Visitor, version: str, header: str
) -> None:
    escaped = "".join(f"\\u{ord(sign):04x}" for sign in version)
    (offered / "plugin.yaml").write_text(f'name: {offered.name}\nversion: "{escaped}"\n')
    ada, token = agent
    got = await visit("GET", f"/workspaces/{ada}/plugins/{offered.name}/download", token=token)
    assert got.status == 200, got.raw
    assert got.headers["x-plugin-version"] == header
    assert "x-evil" not in got.headers
    disposition = got.headers["content-disposition"]
    assert disposition.startswith('attachment; filename="plugin-')
    assert disposition.count('"') == 2
    assert got.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("given", ["*", 'W/"{tag}"', '"other", "{tag}"', '"{tag}"'])
async def test_a_known_archive_is_told_in_headers_alone(
    agent: tuple[str, str], offered: Path, visit: Visitor, given: str
) -> None:
    (offered / "plugin.yaml").write_text(f"name: {offered.name}\n")
    ada, token = agent
    path = f"/workspaces/{ada}/plugins/{offered.name}/download"
    first = await visit("GET", path, token=token)
    known = given.format(tag=first.headers["x-plugin-archive-sha256"])
    again = await visit("GET", path, token=token, headers={"if-none-match": known})
    assert (again.status, again.raw) == (304, b"")
    assert again.headers["x-plugin-sha256"] == first.headers["x-plugin-sha256"]


async def test_nobody_downloads_for_another(agent: tuple[str, str], offered: Path, visit: Visitor) -> None:
    (offered / "plugin.yaml").write_text(f"name: {offered.name}\n")
    ada, _token = agent
    _bob, other = await visit.workspace("Bob")
    path = f"/workspaces/{ada}/plugins/{offered.name}/download"
    assert (await visit("GET", path, token=other)).status == 403
    assert (await visit("GET", path)).status == 403
    assert (await visit("GET", path, token=None)).status == 401


async def test_a_root_workspace_s_id_names_its_organisation_and_an_inner_one_s_does_not(
    visit: Visitor,
) -> None:
    root, _ = await visit.workspace("root")
    inner, _ = await visit.workspace("inner", parent_id=root)
    org_id = (await visit("GET", f"/orgs/{visit.org}")).json["id"]
    for named in (root, root.upper(), visit.org, org_id):
        answer = await visit("GET", f"/orgs/{named}/plugins/allowlist")
        assert answer.json == {"org_id": org_id, "plugins": [], "allow_all": True}
    assert (await visit("GET", f"/orgs/{inner}/plugins/allowlist")).status == 404


async def test_who_wrote_an_allowlist_is_known_from_the_credential(visit: Visitor) -> None:
    body = {"plugins": ["x"], "enabled_by": "somebody else"}
    assert (await visit("PUT", f"/orgs/{visit.org}/plugins/allowlist", body)).status == 200
    for bad in ({}, {"plugins": "x"}, {"plugins": [1]}, {"plugins": [""]}):
        assert (await visit("PUT", f"/orgs/{visit.org}/plugins/allowlist", bad)).status == 400
    assert (await visit("GET", f"/orgs/{visit.org}/plugins/allowlist")).json["plugins"] == ["x"]
