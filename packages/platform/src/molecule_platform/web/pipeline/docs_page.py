"""The route table as a page to read: plain HTML, nothing loaded from anywhere."""

from collections.abc import Sequence
from html import escape
from typing import Any

from molecule_platform.web.pipeline import openapi
from molecule_platform.web.pipeline.route import Route

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
:root { color-scheme: light dark; }
code { font: 13px ui-monospace, monospace; }
details { border-top: 1px solid #8884; padding: .4rem 0; }
summary { cursor: pointer; display: flex; gap: .8rem; align-items: baseline; flex-wrap: wrap; }
.method { font-weight: 600; min-width: 4rem; }
.who { opacity: .7; font-size: 13px; margin-left: auto; }
table { border-collapse: collapse; margin: .5rem 0 .5rem 4.8rem; }
td { padding: .1rem 1rem .1rem 0; vertical-align: top; }
p { margin: .3rem 0 .3rem 4.8rem; }
"""


def page(table: Sequence[Route], document: dict[str, Any]) -> str:
    """The whole page."""
    nouns: dict[str, list[Route]] = {}
    for route in table:
        nouns.setdefault(route.name.split(".")[0], []).append(route)
    parts = [f"<h2 id={noun}>{noun}</h2>{_routes(rows, document)}" for noun, rows in nouns.items()]
    links = " · ".join(f'<a href="#{noun}">{noun}</a>' for noun in nouns)
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>Molecule API</title>"
        f"<meta name=viewport content='width=device-width'><style>{_STYLE}</style>"
        f"<h1>Molecule API {escape(document['info']['version'])}</h1>"
        f"<p style='margin-left:0'>For machines: <a href=/openapi.json>/openapi.json</a>. {links}</p>"
        f"{''.join(parts)}"
    )


def _routes(rows: Sequence[Route], document: dict[str, Any]) -> str:
    return "".join(_route(route, document) for route in rows)


def _route(route: Route, document: dict[str, Any]) -> str:
    schemas = document["components"]["schemas"]
    return (
        f"<details><summary><span class=method>{route.method}</span><code>{escape(route.path)}</code>"
        f"<span>{escape(route.summary)}</span>"
        f"<span class=who>{escape(openapi.who_may(route))}</span></summary>"
        f"{_fields('query', _schema(route.query, schemas))}{_fields('body', _schema(route.body, schemas))}"
        f"{_fields('answer', _schema(_inner(route.reply), schemas))}"
        f"<p>Answers {', '.join(map(str, route.status))}; refuses with "
        f"{', '.join(f'<code>{code}</code>' for code in openapi.codes_of(route))}.</p></details>"
    )


def _inner(reply: Any) -> Any:
    """The row of a list, else the reply itself."""
    inner = getattr(reply, "__args__", None)
    return inner[0] if inner and getattr(reply, "__origin__", None) is list else reply


def _schema(shape: Any, schemas: dict[str, Any]) -> dict[str, Any]:
    return schemas.get(getattr(shape, "__name__", ""), {})


def _fields(title: str, schema: dict[str, Any]) -> str:
    rows = [
        f"<tr><td>{title}</td><td><code>{escape(name)}</code></td><td>{escape(_kind(field))}</td>"
        f"<td>{'' if name in schema.get('required', []) else 'optional'}</td></tr>"
        for name, field in schema.get("properties", {}).items()
    ]
    return f"<table>{''.join(rows)}</table>" if rows else ""


def _kind(field: dict[str, Any]) -> str:
    if "anyOf" in field:
        return " or ".join(_kind(one) for one in field["anyOf"])
    if "$ref" in field:
        return str(field["$ref"]).rsplit("/", 1)[-1]
    if field.get("type") == "array":
        return f"list of {_kind(field.get('items', {}))}"
    return str(field.get("type", "anything"))
