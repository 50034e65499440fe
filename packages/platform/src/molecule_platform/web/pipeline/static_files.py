"""The canvas: its files are read once and served from memory."""

import mimetypes
from pathlib import Path

from molecule_platform.web.pipeline.calls import Response

_CSP = (
    "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_KEPT_FOR_A_YEAR = "public, max-age=31536000, immutable"


class StaticFiles:
    """The built canvas. Assets carry their hash in their names, so browsers may keep them."""

    def __init__(self, folder: Path) -> None:
        self._files = {
            "/" + path.relative_to(folder).as_posix(): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        }

    def __call__(self, method: str, path: str) -> Response | None:
        """The page or asset at a path, None when there is none."""
        if method not in ("GET", "HEAD"):
            return None
        name = "/index.html" if path == "/" else path
        content = self._files.get(name)
        if content is None:
            return _not_built() if path == "/" else None
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        if kind.startswith("text/") or kind.endswith("javascript"):
            kind += "; charset=utf-8"
        keep = _KEPT_FOR_A_YEAR if name.startswith("/assets/") else "no-cache"
        headers = (("content-security-policy", _CSP), ("cache-control", keep))
        return Response(content, 200, headers, kind)


def _not_built() -> Response:
    text = b"Molecule is running. The canvas is not built: run `make up`, or use the `molecule` command.\n"
    return Response(text, 200, (), "text/plain; charset=utf-8")
