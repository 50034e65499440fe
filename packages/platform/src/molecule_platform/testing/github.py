"""A server that speaks the part of the GitHub API that plugins are fetched by."""

import contextlib
import gzip
import hashlib
import io
import tarfile
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote

from molecule_platform.testing.serving import Receive, Scope, Send, answer, serving

PLAIN = (b"content-type", b"text/plain")
GZIP = (b"content-type", b"application/gzip")


@dataclass
class Repository:
    """The commits of a repository by their ids, and what its branches and tags point at."""

    commits: dict[str, bytes] = field(default_factory=dict[str, bytes])
    branches: dict[str, str] = field(default_factory=dict[str, str])
    tags: dict[str, str] = field(default_factory=dict[str, str])

    def commit(self, ref: str) -> str | None:
        """What a ref points at, as the API resolves it: `tags/…` and `heads/…`, a bare name, or a commit."""
        kind, _, name = ref.partition("/")
        if kind == "tags":
            return self.tags.get(name)
        if ref == "HEAD":
            return self.branches.get("main")
        return self.branches.get(ref) or self.tags.get(ref) or (ref if ref in self.commits else None)


@dataclass
class GitHubRequest:
    """A request that came in."""

    path: str
    authorization: str


@dataclass
class GitHub:
    """What the server knows, what it was asked, and how it misbehaves if it is told to."""

    url: str = ""
    repositories: dict[str, Repository] = field(default_factory=dict[str, Repository])
    asked: list[GitHubRequest] = field(default_factory=list[GitHubRequest])
    # Where archives are said to lie, instead of here.
    archives_at: str | None = None
    # Answered to everything, if it is set.
    status: int | None = None

    def push(self, name: str, files: Mapping[str, bytes], branch: str = "main") -> str:
        """A new commit of `owner/repo`, to which the branch then points."""
        return self.push_archive(name, packed(files, f"{name.replace('/', '-')}-abc1234"), branch)

    def push_archive(self, name: str, archive: bytes, branch: str = "main") -> str:
        """The same with the bytes of its archive."""
        repository = self.repositories.setdefault(name, Repository())
        commit = hashlib.sha1(f"{len(repository.commits)}{name}".encode(), usedforsecurity=False).hexdigest()
        repository.commits[commit] = archive
        repository.branches[branch] = commit
        return commit

    def paths(self) -> list[str]:
        """What was asked for, in order."""
        return [asked.path for asked in self.asked]

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        headers = {name.decode().lower(): value.decode() for name, value in scope["headers"]}
        path = unquote(scope["path"])
        self.asked.append(GitHubRequest(path, headers.get("authorization", "")))
        if self.status is not None:
            await answer(send, self.status, b"{}")
            return
        match path.split("/", 5)[1:]:
            case ["repos", owner, repo, "commits", ref]:
                await self._commit(send, f"{owner}/{repo}", ref)
            case ["repos", owner, repo, "tarball", commit]:
                place = f"{self.archives_at or self.url}/archives/{owner}/{repo}/{commit}"
                await answer(send, 302, b"", (b"location", place.encode()))
            case ["archives", owner, repo, commit]:
                await self._archive(send, f"{owner}/{repo}", commit)
            case _:
                await answer(send, 404, b"{}")

    async def _commit(self, send: Send, name: str, ref: str) -> None:
        repository = self.repositories.get(name)
        commit = None if repository is None else repository.commit(ref)
        if commit is None:
            await answer(send, 404 if repository is None else 422, b'{"message":"No commit found"}')
        else:
            await answer(send, 200, commit.encode(), PLAIN)

    async def _archive(self, send: Send, name: str, commit: str) -> None:
        repository = self.repositories.get(name)
        archive = None if repository is None else repository.commits.get(commit)
        if archive is None:
            await answer(send, 404, b"")
        else:
            await answer(send, 200, archive, GZIP)


@contextlib.contextmanager
def github() -> Generator[GitHub]:
    """A GitHub of one's own; its `url` goes into `MOLECULE_GITHUB_API_URL`."""
    server = GitHub()
    with serving(server.serve) as url:
        server.url = url
        yield server


def packed(files: Mapping[str, bytes], folder: str, links: Mapping[str, str] | None = None) -> bytes:
    """The archive of a commit as GitHub makes it: one folder that holds everything."""
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path, content in files.items():
            member = tarfile.TarInfo(f"{folder}/{path}")
            member.size = len(content)
            member.mode = 0o755 if path.endswith(".sh") else 0o644
            tar.addfile(member, io.BytesIO(content))
        for path, target in (links or {}).items():
            member = tarfile.TarInfo(f"{folder}/{path}")
            member.type, member.linkname = tarfile.SYMTYPE, target
            tar.addfile(member)
    return gzip.compress(plain.getvalue(), mtime=0)
