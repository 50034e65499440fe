"""Errors of a callee, raised at the caller as the class that the callee meant.

Each is an `A2AError` with what the callee answered, and also of the class that its code names, so that a
handler may catch either.
"""

import functools
from collections.abc import Sequence
from typing import Any, cast

from molecule_skill import errors
from molecule_skill.errors import A2AError
from molecule_wire import JSONObject
from molecule_wire.errors import SKILL_CLASS_BY_CODE


def remote_error(url: str, status: int | None, body: JSONObject) -> A2AError:
    """The error that an answer stands for; `body` is in the platform's error shape, or empty."""
    code = _text(body.get("code"))
    detail = _text(body.get("error")) or _text(body.get("detail"))
    at = f" ({url})" if url else ""
    named = f"{status or ''} {code or ''}".strip() or "no answer"
    sentence = f"the callee answered {named}: {detail}{at}" if detail else f"the callee answered {named}{at}"
    made = _class_for(code)(sentence, url=url, status_code=status, code=code, detail=detail or "", body=body)
    for name, value in _members(made, body, detail).items():
        setattr(made, name, value)
    return made


def unreachable(url: str, problem: BaseException) -> A2AError:
    """The error of a callee that gave no answer."""
    return A2AError(f"the callee gave no answer: {problem}", url=url, detail=str(problem))


@functools.cache
def _class_for(code: str | None) -> type[A2AError]:
    named = getattr(errors, SKILL_CLASS_BY_CODE.get(code or "", "A2AError"))
    if issubclass(named, A2AError):
        return named
    return type(named.__name__, (A2AError, named), {"__module__": named.__module__})


def _members(made: A2AError, body: JSONObject, detail: str | None) -> dict[str, Any]:
    """What the constructor of the named class would have set."""
    members: dict[str, Any] = {}
    if isinstance(made, errors.MissingScopes):
        members["missing"] = tuple(_texts(body.get("missing")))
    if isinstance(made, errors.SkillInputError | errors.SkillOutputError):
        listed = body.get("errors")
        members["errors"] = listed if isinstance(listed, list) else []
    if isinstance(made, errors.ScopeDenied | errors.Declined):
        members["reason"] = detail or ""
    if isinstance(made, errors.CapabilityUnavailable):
        members["member"] = _text(body.get("member")) or ""
    if isinstance(made, errors.OverlayConflict):
        members["paths"] = tuple(_texts(body.get("paths")))
    return members


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _texts(value: Any) -> Sequence[str]:
    return (
        [one for one in cast("list[Any]", value) if isinstance(one, str)] if isinstance(value, list) else []
    )
