"""`github://owner/repo[/sub/dir][#ref]`: archives over the GitHub API, each hop through the guard."""

import asyncio
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urljoin, urlsplit

from molecule_platform.domain.errors import ApiError
from molecule_platform.domain.workspaces import invalid
from molecule_platform.egress import exchange, guard, streaming
from molecule_platform.egress.connector import Outbound
from molecule_platform.ports.plugin_sources import Resolved, SourceSpec
from molecule_platform.sources import archives
from molecule_plugin.limits import Limits

PREFIX = "github://"
PUBLIC_API = "https://api.github.com"
# The public API sends whoever wants an archive there; any other API sends nobody away from itself.
PUBLIC_DOWNLOADS = "https://codeload.github.com"
MAX_REDIRECTS = 3
ASKING_SECONDS = 30.0

_SOURCE = re.compile(
    r"github://(?P<owner>[A-Za-z0-9-]{1,39})/(?P<repo>[A-Za-z0-9._-]{1,100})"
    r"(?P<sub>(?:/[A-Za-z0-9._ -]{1,100}){0,16})(?:#(?P<ref>[^\s#]{1,200}))?"
)
_COMMIT = re.compile(r"[0-9a-f]{40}")
_UNSOUND_REF = re.compile(r"^-|\.\.|[\x00-\x20\x7f]")
_ABSENT = (404, 409, 422)
_REDIRECTED = (301, 302, 303, 307, 308)
_SHOWN = 120


@dataclass(frozen=True)
class _RepositoryPath:
    """The parts of a source."""

    owner: str
    repo: str
    sub: str
    ref: str | None

    def at(self, ref: str | None) -> str:
        """The source in its one spelling, at a ref."""
        return f"{PREFIX}{self.owner}/{self.repo}{self.sub}" + ("" if ref is None else f"#{ref}")


class GitHubSource:
    """See `ports.plugin_sources.PluginSource`."""

    scheme = "github"

    def __init__(self, outbound: Outbound, api_url: str, token: str | None) -> None:
        self._outbound = outbound
        self._api_url = api_url.rstrip("/")
        self._token = token
        self._downloads = PUBLIC_DOWNLOADS if self._api_url == PUBLIC_API else _origin(self._api_url)

    def parse(self, text: str) -> SourceSpec:
        """Owner, repository, folder in it and ref."""
        place = _place(text)
        hint = (place.sub or f"/{place.repo}").rsplit("/", 1)[1]
        return SourceSpec(self.scheme, place.at(place.ref), hint, place.ref is None)

    async def resolve(self, spec: SourceSpec) -> Resolved:
        """The commit that the source stands for now: itself, or that of its tag or branch."""
        place = _place(spec.text)
        commit, kind = await self._commit(place)
        pinned = place.at(commit)
        return Resolved(spec, pinned, spec.name_hint, kind, pinned)

    async def _commit(self, place: _RepositoryPath) -> tuple[str, str]:
        if place.ref is not None and _COMMIT.fullmatch(place.ref):
            return place.ref, "commit"
        if place.ref is None:
            commit = await self._asked(place, "HEAD")
            kind = "branch"
        else:
            commit, kind = await self._asked(place, f"tags/{place.ref}"), "tag"
            if commit is None:
                commit, kind = await self._asked(place, place.ref), "branch"
        if commit is None:
            raise ApiError("not-found", f"GitHub has no {place.at(place.ref)}, or does not show it to us")
        return commit, kind

    async def _asked(self, place: _RepositoryPath, ref: str) -> str | None:
        """The commit of a ref; None when there is no such ref."""
        url = f"{self._repository(place)}/commits/{quote(ref, safe='/')}"
        headers = {**self._headers(), "Accept": "application/vnd.github.sha"}
        try:
            answer = await exchange.exchange(
                self._outbound,
                "GET",
                url,
                headers=headers,
                data=None,
                seconds=ASKING_SECONDS,
                most_bytes=64 * 1024,
            )
        except (guard.UnsafeUrl, exchange.NoResponse, exchange.BodyTooLarge) as problem:
            raise _failed(str(problem)) from problem
        if answer.status in _ABSENT:
            return None
        commit = answer.body.decode("latin-1").strip()
        if answer.status != 200 or not _COMMIT.fullmatch(commit):
            raise _refused(answer.status)
        return commit

    async def fetch(self, resolved: Resolved, dest: Path, limits: Limits, deadline: float) -> None:
        """Download the archive of the commit, and unpack the part of it that is the plugin."""
        place = _place(resolved.pinned)
        packed = dest.with_name(f"{dest.name}.tar.gz")
        seconds = deadline - asyncio.get_running_loop().time()
        url, hops = f"{self._repository(place)}/tarball/{place.ref}", MAX_REDIRECTS
        headers = {**self._headers(), "Accept": "application/vnd.github+json"}
        while (onward := await self._download(url, headers, packed, limits, seconds)) is not None:
            url, headers, hops = self._next(url, onward), _ANONYMOUS, hops - 1
            if hops < 0:
                raise _failed("it was redirected too often")
        await asyncio.to_thread(archives.unpack, packed, dest, place.sub, limits)

    async def _download(
        self, url: str, headers: dict[str, str], packed: Path, limits: Limits, seconds: float
    ) -> str | None:
        """Write an archive to disk as it comes, or say where it is instead."""
        try:
            async with streaming.opened(
                self._outbound,
                url,
                headers=headers,
                data=None,
                seconds=seconds,
                most_bytes=limits.archive_bytes,
                method="GET",
                whom="GitHub",
            ) as answer:
                if answer.status in _REDIRECTED:
                    return answer.headers.get("location", "")
                if answer.status in _ABSENT:
                    raise ApiError("not-found", "GitHub has no such commit, or does not show it to us")
                if answer.status != 200:
                    raise _refused(answer.status)
                await _written(answer, packed, limits.archive_bytes)
                return None
        except (guard.UnsafeUrl, exchange.NoResponse, exchange.BodyTooLarge) as problem:
            raise _failed(str(problem)) from problem

    def _next(self, url: str, onward: str) -> str:
        """Where a redirect leads, if that is where archives are known to lie."""
        target = urljoin(url, onward)
        if _origin(target) != self._downloads:
            raise _failed(
                f"it was redirected to {_origin(target)[:_SHOWN]}, where no archive is known to lie"
            )
        return target

    def _repository(self, place: _RepositoryPath) -> str:
        return f"{self._api_url}/repos/{place.owner}/{place.repo}"

    def _headers(self) -> dict[str, str]:
        shown = {} if self._token is None else {"Authorization": f"Bearer {self._token}"}
        return {**_ANONYMOUS, **shown}


_ANONYMOUS = {"User-Agent": "molecule-platform"}


def _place(text: str) -> _RepositoryPath:
    match = _SOURCE.fullmatch(text)
    steps = [] if match is None else [match["repo"], *match["sub"].split("/")[1:]]
    if match is None or any(step in (".", "..") for step in steps):
        raise invalid("source", "a source on GitHub is github://owner/repo[/sub/dir][#tag, branch or commit]")
    if match["ref"] is not None and _UNSOUND_REF.search(match["ref"]):
        raise invalid("source", "a ref is a tag, a branch or a commit: no leading -, no .. and no spaces")
    return _RepositoryPath(match["owner"], match["repo"], match["sub"], match["ref"])


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()


async def _written(answer: streaming.StreamingResponse, packed: Path, most: int) -> None:
    size = 0
    with packed.open("xb") as file:
        while chunk := await answer.piece():
            size += len(chunk)
            if size > most:
                raise ApiError(
                    "payload-too-large", f"the archive is larger than {most} bytes", limit_bytes=most
                )
            await asyncio.to_thread(file.write, chunk)


def _refused(status: int) -> ApiError:
    if status in (401, 403, 429):
        return _failed(
            f"it answered HTTP {status}: wait, or give a GITHUB_TOKEN that may read the repository"
        )
    return _failed(f"it answered HTTP {status}")


def _failed(why: str) -> ApiError:
    return ApiError("fetch-failed", f"the plugin could not be fetched from GitHub: {why}")
