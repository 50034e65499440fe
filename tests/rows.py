"""Tests over a table: one test, every row, and all that fail are named."""

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., Any])

_FAILURES = (Exception, pytest.fail.Exception)


def each_row(names: str | Sequence[str], rows: Iterable[Any]) -> Callable[[Test], Test]:
    """Run the test for every row, as `parametrize` would, but as one test.

    The fixtures are made once. A row that fails does not stop the others; the failure names each of them.
    """
    wanted = (names,) if isinstance(names, str) else tuple(names)
    table = [dict(zip(wanted, (row,) if isinstance(names, str) else row, strict=True)) for row in rows]
    assert table, "a table without rows proves nothing"

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            failed = list[str]()
            for row in table:
                try:
                    test(**fixtures, **row)
                except _FAILURES as problem:
                    failed.append(_told(row, problem))
            _fail(failed, len(table))

        @functools.wraps(test)
        async def run_async(**fixtures: Any) -> None:
            failed = list[str]()
            for row in table:
                try:
                    await test(**fixtures, **row)
                except _FAILURES as problem:
                    failed.append(_told(row, problem))
            _fail(failed, len(table))

        made: Any = run_async if inspect.iscoroutinefunction(test) else run
        signature = inspect.signature(test)
        kept = [one for name, one in signature.parameters.items() if name not in wanted]
        assert len(kept) == len(signature.parameters) - len(wanted), f"{test} does not take {wanted}"
        made.__signature__ = signature.replace(parameters=kept)
        return made

    return decorate


def _told(row: dict[str, Any], problem: BaseException) -> str:
    named = ", ".join(f"{name}={str(value)[:200]}" for name, value in row.items())
    return f"{named}\n    {type(problem).__name__}: {problem}".rstrip()


def _fail(failed: list[str], rows: int) -> None:
    if failed:
        pytest.fail("\n".join([f"{len(failed)} of {rows} rows fail:", *failed]), pytrace=False)
