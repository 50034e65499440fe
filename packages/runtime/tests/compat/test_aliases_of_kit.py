"""The original import paths are the same modules, not copies."""

import importlib

from tests.rows import each_row


@each_row(
    ("path", "ours", "names"),
    [
        (
            "lib.pre_stop",
            "kit.state.snapshot",
            ["build_snapshot", "write_snapshot", "read_snapshot", "delete_snapshot", "MAX_TRANSCRIPT_LINES"],
        ),
        (
            "lib.snapshot_scrub",
            "domain.snapshot_redaction",
            ["scrub_content", "is_sandbox_content", "scrub_memory_entry", "scrub_snapshot"],
        ),
        ("transcript_auth", "kit.state.transcript_auth", ["transcript_authorized"]),
    ],
)
def test_what_is_patched_through_one_path_is_seen_through_the_other(
    path: str, ours: str, names: list[str]
) -> None:
    alias = importlib.import_module(f"molecule_runtime.{path}")
    assert alias is importlib.import_module(f"molecule_runtime.{ours}")
    assert all(hasattr(alias, name) for name in names)


def test_an_alias_is_also_the_attribute_of_its_package() -> None:
    from molecule_runtime.kit.state import snapshot
    from molecule_runtime.lib import pre_stop

    assert pre_stop is snapshot


def test_memories_are_redacted_through_the_original_path() -> None:
    from molecule_runtime.builtin_tools.security import _redact_secrets

    assert _redact_secrets(f"use glpat-{'a1' * 10} now") == "use [REDACTED] now"
