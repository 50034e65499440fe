"""Where the parts of a plugin are in its directory."""

from collections.abc import Callable
from pathlib import Path

from molecule_plugin import safe_paths

SKILLS_SUBDIR = "skills"
RULES_SUBDIR = "rules"
ADAPTERS_SUBDIR = "adapters"
HOOKS_SUBDIR = "hooks"
COMMANDS_SUBDIR = "commands"
SETTINGS_FRAGMENT = "settings-fragment.json"
SETUP_SCRIPT = "setup.sh"
SKIP_ROOT_MD = frozenset({"readme.md", "changelog.md", "license.md", "contributing.md"})
"""Files at the root that are for people, in lower case; every other `*.md` there is a prompt fragment."""


def rule_files(plugin_dir: Path) -> list[Path]:
    """The always-on rules, in the order of their names."""
    return [
        path for path in _listed(plugin_dir / RULES_SUBDIR, safe_paths.is_plain_file) if path.suffix == ".md"
    ]


def fragment_files(plugin_dir: Path) -> list[Path]:
    """The prompt fragments, in the order of their names."""
    found = (path for path in _listed(plugin_dir, safe_paths.is_plain_file) if path.suffix == ".md")
    return [path for path in found if path.name.lower() not in SKIP_ROOT_MD]


def skill_dirs(plugin_dir: Path) -> list[Path]:
    """The directories of the skills, in the order of their names; hidden ones are none."""
    found = _listed(plugin_dir / SKILLS_SUBDIR, safe_paths.is_plain_folder)
    return [path for path in found if not path.name.startswith(".")]


def adapter_files(plugin_dir: Path) -> dict[str, Path]:
    """Runtime, as the file names it, → its adaptor."""
    found = _listed(plugin_dir / ADAPTERS_SUBDIR, safe_paths.is_plain_file)
    return {path.stem: path for path in found if path.suffix == ".py" and not path.name.startswith("_")}


def _listed(folder: Path, is_listed: Callable[[Path], bool]) -> list[Path]:
    if not safe_paths.is_plain_folder(folder):
        return []
    try:
        return sorted(path for path in folder.iterdir() if is_listed(path))
    except OSError:
        return []
