"""Which addresses plugins are fetched from, and sources that other packages bring along."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from molecule_platform import settings
from molecule_platform.app import plugin_services
from molecule_platform.app.resources import StartProblem
from molecule_platform.egress import guard

HERE = "http://127.0.0.1:9"


@pytest.mark.parametrize(
    ("environ", "allowed"),
    [
        ({}, False),
        ({"MOLECULE_GITHUB_API_URL": HERE}, True),
        ({"MOLECULE_GITHUB_API_URL": "http://localhost:9"}, True),
        ({"MOLECULE_GITHUB_API_URL": HERE, "MOLECULE_ALLOW_PRIVATE_URLS": "none"}, False),
        ({"MOLECULE_GITHUB_API_URL": HERE, "MOLECULE_ALLOW_PRIVATE_URLS": "private"}, False),
        ({"MOLECULE_GITHUB_API_URL": HERE, "MOLECULE_DEPLOY_MODE": "saas"}, False),
        (
            {"MOLECULE_GITHUB_API_URL": "https://git.example", "MOLECULE_ALLOW_PRIVATE_URLS": "loopback"},
            False,
        ),
    ],
)
def test_this_machine_is_a_source_only_if_the_api_is_here_and_that_is_allowed(
    environ: dict[str, str], allowed: bool
) -> None:
    policy = plugin_services.source_policy(settings.load({}, environ, {})[0])
    if allowed:
        guard.check_url(HERE, policy)
    else:
        with pytest.raises(guard.UnsafeUrl):
            guard.check_url(HERE, policy)
    with pytest.raises(guard.UnsafeUrl):
        guard.check_url("http://10.0.0.1/", policy)


class OtherSource:
    """What a package brings along."""

    scheme = "other"


def points(value: str) -> Callable[..., Any]:
    def found(group: str) -> list[EntryPoint]:
        return [EntryPoint("other", value, group)]

    return found


def test_a_source_of_another_package_is_served_beside_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin_services, "OtherSource", OtherSource, raising=False)
    monkeypatch.setattr(
        plugin_services, "entry_points", points("molecule_platform.app.plugin_services:OtherSource")
    )
    assert [one.scheme for one in plugin_services.registered_sources()] == ["other"]


def test_a_source_that_cannot_be_loaded_stops_the_start_and_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugin_services, "entry_points", points("no.such.module:Source"))
    with pytest.raises(StartProblem, match="other"):
        plugin_services.registered_sources()
