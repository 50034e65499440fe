"""The `@skill` decorator: checks a handler when it is defined, and makes its specification."""

import contextlib
import inspect
import re
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, TypeVar, cast, get_origin, overload

from pydantic import Field, TypeAdapter
from pydantic.errors import PydanticSchemaGenerationError, PydanticUndefinedAnnotation, PydanticUserError
from pydantic.fields import FieldInfo

from molecule_skill import paths
from molecule_skill.arguments import Arguments, Parameter
from molecule_skill.context import RunContext
from molecule_skill.results import UNANNOTATED, ResultType
from molecule_skill.spec import Handler, SkillOptions, SkillSpec
from molecule_skill.workspace import WorkspaceMode

SPEC_ATTRIBUTE = "__molecule_skill__"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
_RESERVED = frozenset({"self", "ctx", "context"})
_VARIADIC = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
F = TypeVar("F", bound=Callable[..., Any])


@overload
def skill(function: F, /) -> F: ...


@overload
def skill(
    *,
    name: str | None = None,
    description: str | None = None,
    tags: Sequence[str] = (),
    scopes: Sequence[str] = (),
    stream: bool = False,
    input_schema: dict[str, Any] | None = None,
    timeout_seconds: float | None = None,
    idempotent: bool = False,
    max_retries: int = 0,
    durable: bool = False,
    concurrency: int | None = None,
    allow_scope_expansion: bool = False,
    cost_class: str = "standard",
    grant_mode: str | None = None,
    grant_read: Sequence[str] | None = None,
    grant_deny: Sequence[str] | None = None,
    grant_write: Sequence[str] | None = None,
    grant_ttl_seconds: int | None = None,
) -> Callable[[F], F]: ...


def skill(function: Any = None, /, **keywords: Any) -> Any:
    """Make an async method a skill of its agent.

    Raises TypeError at once, naming function and parameter, for a handler that could not be called or
    described: the mistake is found when the module is imported, not when the first caller comes.
    """
    options = SkillOptions(**keywords)
    names = _names_around(sys._getframe(1))

    def decorate(handler: Any) -> Any:
        setattr(handler, SPEC_ATTRIBUTE, build_spec(handler, options, names))
        return handler

    return decorate if function is None else decorate(function)


tool = skill


def spec_of(value: object) -> SkillSpec | None:
    """The specification of a decorated handler; None for anything else."""
    found = getattr(value, SPEC_ATTRIBUTE, None) if inspect.isfunction(value) else None
    return found if isinstance(found, SkillSpec) else None


def build_spec(handler: Any, options: SkillOptions, names: Mapping[str, Any] | None = None) -> SkillSpec:
    """Check a handler and make its specification. Raises TypeError."""
    label = getattr(handler, "__qualname__", repr(handler))
    _check_async(handler, label)
    skill_name = options.name or handler.__name__
    _check_options(label, skill_name, options)
    context, *rest = _parameters(handler, label)
    hints = _Annotations(handler, names or {}, label)
    if not hints.is_context(context.name):
        raise TypeError(
            f"{label}: parameter {context.name!r} must be annotated RunContext or RunContext[...]"
        )
    parameters = {one.name: _parameter(label, one, hints) for one in rest}
    arguments = Arguments(skill_name, parameters)
    try:
        result_type = ResultType(skill_name, hints.of("return") if hints.has("return") else UNANNOTATED)
        input_schema, output_schema = arguments.schema(), result_type.schema()
    except (PydanticUserError, PydanticSchemaGenerationError, PydanticUndefinedAnnotation) as problem:
        raise TypeError(
            f"{label}: no schema for its parameters or its return annotation: {problem}"
        ) from problem
    return SkillSpec(
        name=skill_name,
        description=_first_paragraph(handler) if options.description is None else options.description,
        tags=tuple(options.tags),
        scopes=tuple(options.scopes),
        stream=options.stream,
        timeout_seconds=options.timeout_seconds,
        idempotent=options.idempotent,
        max_retries=options.max_retries,
        durable=options.durable,
        concurrency=options.concurrency,
        allow_scope_expansion=options.allow_scope_expansion,
        cost_class=options.cost_class,
        grant_mode=options.grant_mode,
        grant_read=_checked_patterns(label, "grant_read", options.grant_read),
        grant_deny=_checked_patterns(label, "grant_deny", options.grant_deny),
        grant_write=_checked_patterns(label, "grant_write", options.grant_write),
        grant_ttl_seconds=options.grant_ttl_seconds,
        input_schema=options.input_schema or input_schema,
        output_schema=output_schema,
        handler=handler,
        attribute=handler.__name__,
        context_parameter=context.name,
        arguments=arguments,
        result_type=result_type,
        options=options,
    )


def _check_async(handler: Any, label: str) -> None:
    if inspect.isasyncgenfunction(handler):
        raise TypeError(
            f"{label}: an async generator cannot be a skill; use async def with return, and emit_text_delta"
        )
    if not inspect.isfunction(handler) or not inspect.iscoroutinefunction(handler):
        raise TypeError(f"{label}: a skill must be an async def function")


def _check_options(label: str, name: str, options: SkillOptions) -> None:
    if not _NAME.fullmatch(name):
        raise TypeError(f"{label}: skill name {name!r} must match [a-z][a-z0-9_]{{0,63}}")
    schema: Any = options.input_schema
    if schema is not None and not (isinstance(schema, dict) and schema.get("type") == "object"):  # pyright: ignore[reportUnknownMemberType]
        raise TypeError(f'{label}: input_schema must be a dict with "type": "object"')
    if options.max_retries < 0:
        raise TypeError(f"{label}: max_retries must be 0 or more, not {options.max_retries}")
    if options.max_retries > 0 and not options.idempotent:
        raise TypeError(
            f"{label}: max_retries needs idempotent=True: only such a skill can be repeated safely"
        )
    if options.timeout_seconds is not None and not options.timeout_seconds > 0:
        raise TypeError(f"{label}: timeout_seconds must be more than 0, not {options.timeout_seconds}")
    if options.concurrency is not None and options.concurrency < 1:
        raise TypeError(f"{label}: concurrency must be 1 or more, not {options.concurrency}")
    if options.grant_mode is not None and options.grant_mode not in list(WorkspaceMode):
        raise TypeError(f"{label}: grant_mode must be one of {', '.join(WorkspaceMode)}")


def _checked_patterns(label: str, option: str, patterns: Sequence[str] | None) -> tuple[str, ...] | None:
    if patterns is None:
        return None
    if isinstance(patterns, str):
        raise TypeError(f"{label}: {option} must be a list of patterns, not one text")
    try:
        return tuple(paths.check_pattern(one, deny=option == "grant_deny") for one in patterns)
    except ValueError as problem:
        raise TypeError(f"{label}: {option}: {problem}") from problem


def _parameters(handler: Handler, label: str) -> list[inspect.Parameter]:
    """The parameters after `self`, the context first."""
    found = list(inspect.signature(handler).parameters.values())[1:]
    for one in found:
        if one.kind in _VARIADIC:
            stars = _VARIADIC[one.kind]
            word = "args" if stars == "*" else "kwargs"
            raise TypeError(
                f"{label}: {stars}{one.name}: a skill cannot have {stars}{word}; name its parameters"
            )
        if one.kind is inspect.Parameter.POSITIONAL_ONLY:
            raise TypeError(f"{label}: parameter {one.name!r} must not be positional-only")
    if not found:
        raise TypeError(f"{label}: the first parameter after self must be the context: ctx: RunContext")
    for one in found[1:]:
        if one.name in _RESERVED:
            raise TypeError(f"{label}: parameter name {one.name!r} is reserved; choose another")
    return found


def _parameter(label: str, one: inspect.Parameter, hints: "_Annotations") -> Parameter:
    if not hints.has(one.name):
        raise TypeError(f"{label}: parameter {one.name!r} is missing a type annotation")
    annotation: Any = hints.of(one.name)
    default: Any = one.default
    if isinstance(default, FieldInfo):
        annotation = Annotated[annotation, default]  # type: ignore[valid-type]
    elif default is not inspect.Parameter.empty:
        annotation = Annotated[annotation, Field(default=default)]  # type: ignore[valid-type]
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(cast("type[Any]", annotation))
        adapter.json_schema()
    except (
        PydanticUserError,
        PydanticSchemaGenerationError,
        PydanticUndefinedAnnotation,
        TypeError,
    ) as problem:
        raise TypeError(
            f"{label}: parameter {one.name!r} has an annotation that pydantic cannot build: {problem}"
        ) from problem
    found = adapter.get_default_value()
    is_plain = found is not None and isinstance(default, str | int | float | bytes | None)
    return Parameter(one.name, adapter, found is None, (found.value,) if found and is_plain else ())


def _closure(handler: Any) -> dict[str, Any]:
    """The names that a handler takes from around it; its class, which `super()` needs, is not made yet."""
    closure: dict[str, Any] = {}
    for name, cell in zip(handler.__code__.co_freevars, handler.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):
            closure[name] = cell.cell_contents
    return closure


class _Annotations:
    """The annotations of a handler, those that are texts resolved one by one."""

    def __init__(self, handler: Any, names: Mapping[str, Any], label: str) -> None:
        self._raw: dict[str, Any] = handler.__annotations__
        self._globals: dict[str, Any] = handler.__globals__
        self._names = {**names, **_closure(handler)}
        self._label = label

    def has(self, name: str) -> bool:
        return name in self._raw

    def of(self, name: str) -> Any:
        holder = types.SimpleNamespace(__annotations__={name: self._raw[name]})
        try:
            return typing.get_type_hints(holder, self._globals, self._names, include_extras=True)[name]
        except Exception as problem:  # evaluating a text may raise anything
            where = "return annotation" if name == "return" else f"parameter {name!r}"
            raise TypeError(
                f"{self._label}: {where} has an annotation that cannot be resolved: {problem}"
            ) from problem

    def is_context(self, name: str) -> bool:
        raw = self._raw.get(name)
        try:
            found = self.of(name) if raw is not None else None
        except TypeError:
            # Imported for type checkers alone, the name is not there at run time; its text says enough.
            return isinstance(raw, str) and re.fullmatch(r"(\w+\.)*RunContext(\[.*\])?", raw) is not None
        return found is RunContext or get_origin(found) is RunContext


def _names_around(frame: types.FrameType | None) -> dict[str, Any]:
    """The names that a handler's annotations may use: those of its class body and of functions around it."""
    found: dict[str, Any] = {}
    module = frame.f_globals if frame is not None else {}
    while frame is not None and frame.f_globals is module and frame.f_locals is not module:
        found = {**frame.f_locals, **found}
        frame = frame.f_back
    return found


def _first_paragraph(handler: Handler) -> str:
    text = inspect.getdoc(handler) or ""
    return " ".join(text.split("\n\n")[0].split())
