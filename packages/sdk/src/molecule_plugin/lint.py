"""Everything worth saying about a plugin: what is wrong, and what its author probably did not mean."""

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from molecule_plugin import findings as found
from molecule_plugin import lint_files, plugin_layout, plugin_manifest, yaml_reader
from molecule_plugin.findings import Finding, warning
from molecule_plugin.manifest_rules import known_runtimes
from molecule_plugin.names import is_name
from molecule_plugin.plugin_manifest import MANIFEST
from molecule_plugin.plugin_tree import plugin_findings
from molecule_plugin.values import mapping, named, text, texts
from molecule_plugin.yaml_reader import Document, Step

_VERSION = re.compile(
    r"\d+(\.\d+)*|\d+\.\d+\.\d+(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?",
    re.ASCII,
)
_REQUIREMENT = re.compile(r"(?P<name>[^@\s]+)(@\s*(>=|<=|==|>|<)?\s*\d[0-9A-Za-z.+-]*)?")


def lint_plugin(plugin_dir: Path | str) -> list[Finding]:
    """What is wrong with a plugin and what looks wrong; empty for one that is ready to be published."""
    root = Path(plugin_dir)
    if not root.is_dir():
        return [Finding(str(root), "not a directory" if root.exists() else "does not exist")]
    root = root.resolve()
    return sorted(
        [*plugin_findings(root), *_manifest_findings(root), *lint_files.findings(root)],
        key=lambda one: (one.severity, one.file, one.line or 0),
    )


def _manifest_findings(root: Path) -> list[Finding]:
    document = yaml_reader.read_manifest_yaml(root / MANIFEST)
    if mapping(document.value) is None:
        return []
    return [
        *_name(document, root),
        *_version(document),
        *_adaptors(document, root),
        *_adapter_paths(document, root),
        *_listed(document, root),
        *_needs(document, root),
    ]


def _doubt(document: Document, message: str, code: str, *steps: Step) -> Finding:
    return warning(MANIFEST, message, code, document.line(*steps))


def _name(document: Document, root: Path) -> Iterator[Finding]:
    name = text(named(document.value).get("name"))
    if name.strip() and not is_name(name):
        message = f"`name` '{name[:80]}' may have only a-z, 0-9, '.', '_' and '-', at most 128 of them"
        yield Finding(MANIFEST, message, code="name-format", line=document.line("name"))
    elif name and name != root.name:
        message = (
            f"`name` is '{name}' but the directory is '{root.name[:80]}'; they must agree once installed"
        )
        yield _doubt(document, message, "name-mismatch", "name")


def _version(document: Document) -> Iterator[Finding]:
    version, problems = plugin_manifest.version_of(document)
    for problem in problems:
        yield _doubt(document, problem, "version-format", "version")
    if not _VERSION.fullmatch(version):
        message = f"`version` '{version[:40]}' is neither SemVer nor digits and dots"
        yield _doubt(document, message, "version-format", "version")


def _adaptors(document: Document, root: Path) -> Iterator[Finding]:
    fields = named(document.value)
    mapped, files = plugin_manifest.adapters_of(fields), plugin_layout.adapter_files(root)
    declared = plugin_manifest.runtimes_of(fields)
    for number, runtime in enumerate(declared or ()):
        if runtime not in mapped and runtime not in files:
            message = (
                f"runtime '{runtime}' has no adaptor; write adapters/{runtime}.py, or files are only dropped"
            )
            yield _doubt(document, message, "runtime-without-adaptor", "runtimes", number)
    runtimes = known_runtimes() if declared is None else frozenset(declared)
    for runtime in sorted(files.keys() - runtimes):
        file = f"{plugin_layout.ADAPTERS_SUBDIR}/{runtime}.py"
        yield warning(file, f"`runtimes` does not name '{runtime}'", "adaptor-without-runtime")


def _adapter_paths(document: Document, root: Path) -> Iterator[Finding]:
    for runtime, path in named(named(document.value).get("adapters")).items():
        place = PurePosixPath(text(path))
        if not text(path) or place.is_absolute() or ".." in place.parts or "\\" in text(path):
            message = f"`adapters` must map '{runtime[:80]}' to a path inside the plugin"
            yield Finding(MANIFEST, message, code="adapter-path", line=document.line("adapters", runtime))
        elif not (root / place).is_file():
            message = f"`adapters` names a file that does not exist: {place}"
            yield _doubt(document, message, "listed-missing", "adapters", runtime)


def _listed(document: Document, root: Path) -> Iterator[Finding]:
    fields = named(document.value)
    places = {
        "skills": plugin_layout.SKILLS_SUBDIR,
        "rules": plugin_layout.RULES_SUBDIR,
        "prompt_fragments": ".",
        "hooks": plugin_layout.HOOKS_SUBDIR,
    }
    for key, folder in places.items():
        for number, item in enumerate(texts(fields.get(key))):
            if not _exists(root, folder, item):
                message = f"`{key}` lists '{item[:80]}', which does not exist"
                yield _doubt(document, message, "listed-missing", key, number)


def _exists(root: Path, folder: str, item: str) -> bool:
    """Whether a listed item is there, named by its path, its file name or its stem."""
    if not item or "\0" in item or ".." in item:
        return False
    named_files = (root / item, root / folder / item)
    stems = (root / folder).glob("*") if (root / folder).is_dir() else ()
    return any(path.exists() for path in named_files) or any(path.stem == item for path in stems)


def _needs(document: Document, root: Path) -> Iterator[Finding]:
    fields = named(document.value)
    permissions = fields.get("permissions")
    if permissions is not None and mapping(permissions) is None:
        yield _doubt(document, "`permissions` must be a mapping", "permissions-format", "permissions")
    if (root / plugin_layout.SETUP_SCRIPT).is_file() and named(permissions).get("setup") is not True:
        message = "setup.sh runs at install; declare it with `permissions: {setup: true}`"
        yield _doubt(document, message, "setup-undeclared", "permissions")
    for number, requirement in enumerate(texts(fields.get("requires"))):
        match = _REQUIREMENT.fullmatch(requirement)
        if match is None or not is_name(match["name"]):
            message = f"`requires` has '{requirement[:80]}'; write a name, or name@>=1.2"
            yield _doubt(document, message, "requires-format", "requires", number)


def errors_of(plugin_dir: Path | str) -> list[Finding]:
    """The findings that keep a plugin from being signed or packed."""
    return found.errors(lint_plugin(plugin_dir))
