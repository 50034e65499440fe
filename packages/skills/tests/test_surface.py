"""The public surface: exported names, the error table, and what an import needs and costs."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import molecule_skill
from benchmarks import import_skill
from molecule_skill import errors
from molecule_skill.errors import PUBLIC, report_of
from molecule_wire import errors as codes

NAMES = {
    "A2AAgent", "A2AClient", "A2AError", "APIKeyAuth", "AgentCard", "AgentEndpoint", "AgentEvent",
    "ArtifactRef", "AuthError", "Availability", "CallLimitExceeded", "CallResult", "CallTimeout",
    "CancelledByCaller", "CapabilityUnavailable", "Declined", "DiscoveredAgent", "DiscoveryClient",
    "EgressPolicy", "FileUpload", "GrantDelegationDenied", "GrantInvalid", "HostedRunContext",
    "InsufficientBudget", "InteractionTimeout", "Invocation", "JWTAuth", "Lifecycle",
    "LifecycleContext", "LocalRunContext", "MissingScopes", "NoAuth", "OverlayConflict", "PlatformAuth",
    "Pricing", "Resources", "RetryableError", "RunContext", "RunGate", "SandboxClient",
    "SandboxRuntimeError", "SandboxTimeout", "SandboxUnavailable", "ScopeDenied",
    "ScopeExpansionNotAllowed", "SkillInputError", "SkillInvocationError", "SkillNotFound",
    "SkillOutputError", "SkillSpec", "SkillTimeout", "SqliteRunStore", "State", "StateConflict",
    "UploadedFile", "WorkspaceAccess", "WorkspaceClient", "WorkspaceDenied", "WorkspaceMode", "skill",
    "tool",
}  # fmt: skip


def test_every_name_of_the_contract_is_exported_and_can_be_imported() -> None:
    assert NAMES - set(molecule_skill.__all__) == set()
    assert [name for name in molecule_skill.__all__ if getattr(molecule_skill, name, None) is None] == []
    assert set(molecule_skill.__all__) <= set(dir(molecule_skill))
    with pytest.raises(AttributeError):
        molecule_skill.nothing  # type: ignore[attr-defined]  # noqa: B018  # pyright: ignore


ROWS: list[tuple[Any, type[Exception], int, str]] = [
    (errors.SkillNotFound("x"), KeyError, 404, "skill-not-found"),
    (errors.SkillInputError("x"), ValueError, 400, "skill-input-invalid"),
    (errors.MissingScopes(["a"]), PermissionError, 403, "missing-scopes"),
    (errors.AuthError("x"), Exception, 401, "unauthenticated"),
    (errors.AuthError("x", 403), Exception, 403, "forbidden"),
    (errors.AuthError("x", 503), Exception, 503, "auth-unavailable"),
    (errors.GrantInvalid("grant-expired"), PermissionError, 403, "grant-expired"),
    (errors.GrantDelegationDenied("x"), PermissionError, 403, "grant-delegation-denied"),
    (errors.WorkspaceDenied("x"), PermissionError, 403, "workspace-denied"),
    (errors.ScopeDenied("x"), PermissionError, 403, "scope-denied"),
    (errors.ScopeExpansionNotAllowed("x"), PermissionError, 403, "scope-expansion-not-allowed"),
    (errors.Declined("x"), PermissionError, 403, "declined"),
    (errors.CapabilityUnavailable("ask"), PermissionError, 501, "not-implemented"),
    (errors.OverlayConflict(["a"]), RuntimeError, 409, "overlay-conflict"),
    (errors.StateConflict("x"), RuntimeError, 409, "state-conflict"),
    (errors.CancelledByCaller("t"), RuntimeError, 499, "cancelled"),
    (errors.SkillTimeout("x"), TimeoutError, 504, "skill-timeout"),
    (errors.InteractionTimeout("x"), TimeoutError, 504, "interaction-timeout"),
    (errors.CallTimeout("x"), TimeoutError, 504, "call-timeout"),
    (errors.SandboxUnavailable("x"), RuntimeError, 503, "sandbox-unavailable"),
    (errors.SandboxRuntimeError("exec"), RuntimeError, 502, "sandbox-error"),
    (errors.SandboxTimeout("exec"), TimeoutError, 504, "sandbox-timeout"),
    (errors.A2AError("x"), RuntimeError, 502, "peer-unreachable"),
    (errors.A2AError("x", status_code=429, code="rate-limited"), RuntimeError, 429, "rate-limited"),
    (errors.InsufficientBudget("x"), errors.A2AError, 402, "budget-exceeded"),
    (errors.CallLimitExceeded("x"), Exception, 409, "delegation-limit"),
    (errors.RetryableError("x"), RuntimeError, 500, "skill-failed"),
    (errors.SkillOutputError("x"), errors.SkillInvocationError, 500, "skill-output-invalid"),
    (errors.SkillOutputError("x", code="result-too-large"), RuntimeError, 500, "result-too-large"),
    (errors.SkillInvocationError("x"), RuntimeError, 500, "skill-failed"),
    (errors.RunRefused("replay-diverged", "x"), RuntimeError, 500, "replay-diverged"),
    (errors.RunRefused("agent-busy", "x", retry_after=1), RuntimeError, 503, "agent-busy"),
]


@pytest.mark.parametrize(("problem", "base", "status", "code"), ROWS)
def test_an_error_has_its_base_status_and_code(
    problem: Exception, base: type[Exception], status: int, code: str
) -> None:
    report = report_of(problem)
    assert isinstance(problem, base)
    assert (report.status, report.code) == (status, code)
    assert isinstance(problem, PUBLIC)


def test_errors_carry_their_extra_members() -> None:
    assert report_of(errors.MissingScopes(["b", "a"])).extras == {"missing": ["b", "a"]}
    assert report_of(errors.CapabilityUnavailable("ask")).extras == {"member": "ask"}
    assert report_of(errors.RetryableError("x")).extras == {"retryable": True}
    assert report_of(ValueError("hunter2")) == (500, "skill-failed", "ValueError", {})


def test_the_table_of_the_wire_names_the_class_of_every_code() -> None:
    for problem, _, _, code in ROWS:
        if code in codes.SKILL_CLASS_BY_CODE and not isinstance(problem, errors.RetryableError):
            assert codes.SKILL_CLASS_BY_CODE[code] == type(problem).__name__
    assert all(hasattr(errors, name) for name in codes.SKILL_CLASS_BY_CODE.values())
    assert all(codes.is_known(code) for code in codes.SKILL_CLASS_BY_CODE)


async def test_the_examples_of_the_readme_run() -> None:
    page = Path(__file__).parent.parent / "README.md"
    names: dict[str, Any] = {"__name__": "readme"}
    for sample in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL):
        exec(sample, names)
    await names["test_greeting"]()


OUTSIDE = """
import sys, molecule_skill
for name in molecule_skill.__all__:
    getattr(molecule_skill, name)
allowed = {"molecule_skill", "molecule_wire", "pydantic", "pydantic_core", "yaml", "_yaml",
           "annotated_types", "typing_extensions", "typing_inspection", "email_validator"}
found = {name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names) - allowed
print(sorted(name for name in found if not name.startswith("_")))
"""


def test_the_core_needs_pydantic_yaml_and_the_wire_and_nothing_else() -> None:
    done = subprocess.run([sys.executable, "-I", "-c", OUTSIDE], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_import_costs_little_beside_pydantic() -> None:
    # One measurement on a busy machine may err; the benchmark holds the figure itself.
    assert min(import_skill.measure(runs=3).value for _ in range(3)) <= 0.45
