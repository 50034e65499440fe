"""The settings of plugins: where they come from, how large they are, and who must sign them."""

from molecule_platform.settings import parsers
from molecule_platform.settings.setting import Setting

_MEBIBYTE = 1024 * 1024
_PIN_POLICIES = {"lock": "lock", "deny": "deny", "float": "float"}
_SIGNATURE_POLICIES = {"if-present": "if-present", "require": "require"}
_bytes = parsers.whole(1024, 1024 * _MEBIBYTE)

SETTINGS: tuple[Setting, ...] = (
    Setting(
        "PLUGINS_DIR",
        "plugins_dir",
        parsers.folder,
        None,
        "Folder of the plugins that the platform offers; without it, plugins in the data folder.",
    ),
    Setting(
        "PLUGIN_UNPINNED_POLICY",
        "plugin_unpinned_policy",
        parsers.choice(_PIN_POLICIES),
        None,
        "What a plugin source that names no commit stands for: lock, the default, resolves it once per "
        "organisation; deny refuses it; float resolves it each time.",
    ),
    Setting(
        "PLUGIN_ALLOW_UNPINNED",
        "plugin_allow_unpinned",
        parsers.flag,
        None,
        "The older form of PLUGIN_UNPINNED_POLICY, read when that is not set: true is float, false is deny.",
    ),
    Setting(
        "MOLECULE_PLUGIN_SIGNATURES",
        "plugin_signatures",
        parsers.choice(_SIGNATURE_POLICIES),
        "if-present",
        "Whether plugins must be signed by a trusted key: if-present checks what is signed, require refuses "
        "the rest.",
    ),
    Setting(
        "GITHUB_TOKEN",
        "github_token",
        parsers.header_token,
        None,
        "Credential for plugins on GitHub: private repositories, and more requests per hour.",
        secret=True,
    ),
    Setting(
        "MOLECULE_GITHUB_API_URL",
        "github_api_url",
        parsers.source_url,
        "https://api.github.com",
        "Base URL of the GitHub API from which plugins are fetched.",
    ),
    Setting(
        "PLUGIN_INSTALL_BODY_MAX_BYTES",
        "plugin_install_body_max_bytes",
        _bytes,
        str(64 * 1024),
        "Largest body of a request that installs a plugin.",
    ),
    Setting(
        "PLUGIN_INSTALL_FETCH_TIMEOUT",
        "plugin_install_fetch_timeout",
        parsers.duration(1, 3600),
        "5m",
        "How long a plugin may take to be fetched: 300, 300s or 5m.",
    ),
    Setting(
        "PLUGIN_INSTALL_MAX_DIR_BYTES",
        "plugin_install_max_dir_bytes",
        _bytes,
        str(100 * _MEBIBYTE),
        "Largest plugin, packed and unpacked.",
    ),
)
