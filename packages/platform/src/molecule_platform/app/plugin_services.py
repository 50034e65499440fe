"""Who looks after plugins: the sources, the stock, and the services on them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from urllib.parse import urlsplit

from molecule_platform.app.resources import Resources, StartProblem
from molecule_platform.egress import guard
from molecule_platform.egress.connector import Outbound
from molecule_platform.ports.plugin_sources import PluginSource
from molecule_platform.ports.provisioner import Provisioner
from molecule_platform.services.plugins.plugin_policy import PluginRules
from molecule_platform.services.plugins.plugin_supply import PluginPolicy, PluginSupply
from molecule_platform.services.plugins.workspace_plugins import WorkspacePlugins
from molecule_platform.services.workspaces.restarts import Restarts
from molecule_platform.settings import Settings, parsers
from molecule_platform.sources.cache import PluginTreeCache
from molecule_platform.sources.github import GitHubSource
from molecule_platform.sources.local import LocalSource
from molecule_platform.sources.workspace_plugins import WorkspacePluginFolders
from molecule_plugin.limits import LIMITS, Limits
from molecule_plugin.trust import parse_policy

ENTRY_POINTS = "molecule.plugin_sources"


@dataclass(frozen=True)
class PluginServices:
    """Everyone who looks after plugins."""

    stock: PluginTreeCache
    supply: PluginSupply
    rules: PluginRules
    workspaces: WorkspacePlugins


def build_plugin_services(
    resources: Resources, to_sources: Outbound, restarts: Restarts, provisioner: Provisioner | None
) -> PluginServices:
    """Bring them together."""
    settings = resources.settings
    limits = _limits(settings)
    local = LocalSource(settings.plugins_dir or settings.data_dir / "plugins", limits)
    github = GitHubSource(to_sources, settings.github_api_url, settings.github_token)
    stock = PluginTreeCache(
        settings.data_dir / "plugin-stock",
        local,
        (*registered_sources(), github),
        limits,
        settings.plugin_install_fetch_timeout,
    )
    policy = PluginPolicy(settings.unpinned_policy, parse_policy(settings.plugin_signatures))
    supply = PluginSupply(resources.storage, resources.clock, stock, policy)
    homes = None if provisioner is None else WorkspacePluginFolders(provisioner.config_dir)
    workspaces = WorkspacePlugins(resources.storage, resources.clock, stock, supply, homes, restarts)
    return PluginServices(stock, supply, PluginRules(resources.storage, resources.clock), workspaces)


def source_policy(settings: Settings) -> guard.Policy:
    """Where plugins may be fetched from: public addresses, and this machine if the API itself is there."""
    parts = urlsplit(settings.github_api_url)
    is_here = parsers.is_loopback(parts.hostname or "") and "loopback" in settings.allow_private_urls
    return guard.agent_policy(("loopback",) if is_here else ())


def _limits(settings: Settings) -> Limits:
    most = settings.plugin_install_max_dir_bytes
    return replace(LIMITS, archive_bytes=most, tree_bytes=most)


def registered_sources() -> Sequence[PluginSource]:
    """Sources that other installed packages bring along."""
    found: list[PluginSource] = []
    for point in entry_points(group=ENTRY_POINTS):
        try:
            found.append(point.load()())
        except Exception as problem:
            raise StartProblem(
                f"the plugin source {point.name} of {point.value} cannot be loaded: {problem}"
            ) from problem
    return found
