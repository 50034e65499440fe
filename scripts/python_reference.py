"""Pages about Python packages, made of what they export: signatures and docstrings as the source has them."""

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, TypeGuard

LONGEST_LINE = 90
OURS = ("molecule_agent", "molecule_plugin", "molecule_wire")


def page(module_name: str, note: str) -> str:
    """The page of a package: its classes, functions, errors, and what else it exports."""
    module = importlib.import_module(module_name)
    names = [name for name in module.__all__ if not name.startswith("__")]
    found: list[tuple[str, Any]] = [(name, getattr(module, name)) for name in names]
    kinds: tuple[tuple[str, Callable[[Any], bool], Callable[[str, Any], str]], ...] = (
        ("Classes", _is_plain_class, _class),
        ("Functions", inspect.isfunction, _function),
        ("Errors", _is_error, _error),
        ("Other names", _is_other, _other),
    )
    parts = [f"# {module_name}", note, inspect.getdoc(module) or ""]
    for title, wanted, told in kinds:
        rows = [told(name, value) for name, value in found if wanted(value)]
        parts += [f"## {title}", *rows] if rows else []
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _is_error(value: object) -> TypeGuard[type[Exception]]:
    return inspect.isclass(value) and issubclass(value, Exception)


def _is_plain_class(value: object) -> bool:
    return inspect.isclass(value) and not _is_error(value)


def _is_other(value: object) -> bool:
    return not (inspect.isclass(value) or inspect.isfunction(value) or isinstance(value, ModuleType))


def _class(name: str, kind: type) -> str:
    methods = (_function(member, found, level=4) for member, found in _methods(kind))
    heading = f"### `{name}`\n\n{inspect.getdoc(kind) or ''}".strip()
    return "\n\n".join([heading, *_made_by(name, kind), *methods])


def _made_by(name: str, kind: type) -> Iterator[str]:
    """How it is made: by its `__init__`, or by the fields of a dataclass."""
    own = vars(kind).get("__init__")
    if hasattr(kind, "__dataclass_fields__"):
        fields = [node for node in _body(kind) if isinstance(node, ast.AnnAssign)]
        yield _code("\n".join([f"{name}:", *(f"    {_field(node)}" for node in fields)]))
    elif inspect.isfunction(own) and not getattr(kind, "_is_protocol", False):
        yield _code(_signature(name, own))


def _field(node: ast.AnnAssign) -> str:
    value = node.value
    if isinstance(value, ast.Call) and ast.unparse(value.func) == "field":
        factory = next((word.value for word in value.keywords if word.arg == "default_factory"), None)
        value = None if factory is None else ast.Call(factory, [], [])
    default = "" if value is None else f" = {ast.unparse(value)}"
    return f"{ast.unparse(node.target)}: {_annotation(node.annotation)}{default}"


def _methods(kind: type) -> Iterator[tuple[str, Any]]:
    seen: set[str] = set()
    for owner in (owner for owner in kind.__mro__ if owner.__module__.startswith(OURS)):
        for name, value in vars(owner).items():
            found = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
            if not name.startswith("_") and name not in seen and inspect.isfunction(found):
                seen.add(name)
                yield name, value


def _function(name: str, value: Any, level: int = 3) -> str:
    heading = f"{'#' * level} `{name}`"
    if isinstance(value, property):
        assert value.fget is not None
        result = _signature(name, value.fget).rpartition(" -> ")[2]
        return f"{heading}\n\nProperty, `{result}`. {inspect.getdoc(value) or ''}"
    found = getattr(value, "__func__", value)
    return f"{heading}\n\n{_code(_signature(name, found))}\n\n{inspect.getdoc(found) or ''}"


def _signature(name: str, function: Callable[..., object]) -> str:
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    whole = node.args
    arguments = [*whole.posonlyargs, *whole.args, *whole.kwonlyargs, whole.vararg, whole.kwarg]
    for argument in arguments:
        if argument is not None and argument.annotation is not None:
            argument.annotation = ast.Name(_annotation(argument.annotation))
    whole.args = [argument for argument in whole.args if argument.arg not in ("self", "cls")]
    arrow = f" -> {_annotation(node.returns)}" if node.returns and name[:1].islower() else ""
    said = ast.unparse(whole)
    if len(said) > LONGEST_LINE:
        said = "\n    " + ",\n    ".join(_apart(said)) + ",\n"
    return f"{name}({said}){arrow}"


def _apart(arguments: str) -> list[str]:
    """The arguments one by one; a comma inside brackets does not part them."""
    parts, depth = [""], 0
    for sign in arguments:
        depth += (sign in "([{") - (sign in ")]}")
        if sign == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts]


def _annotation(node: ast.expr) -> str:
    """A type as a reader knows it: without quotes, and without the modules that it comes from."""
    text = node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ast.unparse(node)
    return re.sub(r"\b[a-z_]+\.(?=[A-Z])", "", text.replace("'", "") if "Literal" not in text else text)


def _body(kind: type) -> list[ast.stmt]:
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(node, ast.ClassDef)
    return node.body


def _error(name: str, kind: type[Exception]) -> str:
    bases = ", ".join(f"`{base.__name__}`" for base in kind.__bases__)
    return f"* `{name}` ({bases}): {' '.join((inspect.getdoc(kind) or '').split())}"


def _other(name: str, value: object) -> str:
    shown = f" = `{value!r}`" if isinstance(value, int | float | str) else ""
    return f"* `{name}`{shown}"


def _code(text: str) -> str:
    return f"```text\n{text}\n```"
