"""Every sample that a page calls runnable runs, against the platform that `make up` starts."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts import live_platform, repository, samples

PAGES = [path for path in repository.files() if path.suffix == ".md" and path.parts[0] != "canvas"]


def samples_of(page: Path) -> list[samples.Sample]:
    return list(samples.find(page.as_posix(), (repository.ROOT / page).read_text()))


RUNNABLE_PAGES = [page for page in PAGES if any(sample.runnable for sample in samples_of(page))]


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[live_platform.LivePlatform]:
    with live_platform.running(tmp_path_factory.mktemp("house") / "data", "--demo") as platform:
        yield platform


@pytest.fixture
def reader(platform: live_platform.LivePlatform, tmp_path: Path) -> dict[str, str]:
    """The environment of a reader in whose folder `make up` is running."""
    (tmp_path / ".venv").symlink_to(repository.ROOT / ".venv")
    (tmp_path / ".data").symlink_to(platform.data_dir)
    return live_platform.clean_environment() | {
        "HOME": str(tmp_path),
        "PORT": str(platform.port),
        "MOLECULE_PLATFORM_URL": platform.url,
        "MOLECULE_ADMIN_TOKEN": platform.admin_token(),
    }


@pytest.mark.e2e
@pytest.mark.timeout(300)
@pytest.mark.parametrize("page", RUNNABLE_PAGES, ids=str)
def test_every_runnable_sample_of_a_page_runs(page: Path, reader: dict[str, str], tmp_path: Path) -> None:
    for sample in samples_of(page):
        if sample.runnable:
            samples.run(sample, tmp_path, reader)


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_every_python_sample_of_a_page_is_python(page: Path) -> None:
    for sample in samples_of(page):
        if sample.language == "python":
            compile(sample.text, sample.place, "exec")


def console(text: str) -> samples.Sample:
    return samples.Sample("page.md", 1, "console", runnable=True, text=text)


def test_blocks_are_found_with_their_place_language_and_mark() -> None:
    text = "# Page\n```python runnable\nx = 1\n```\n\n````text\n```python\n````\n```\nplain\n```\n"
    assert list(samples.find("page.md", text)) == [
        samples.Sample("page.md", 3, "python", runnable=True, text="x = 1\n"),
        samples.Sample("page.md", 7, "text", runnable=False, text="```python\n"),
        samples.Sample("page.md", 10, "", runnable=False, text="plain\n"),
    ]


def test_a_console_sample_is_commands_with_their_output() -> None:
    assert samples.commands(console("$ echo a\na\n$ true\n")) == [
        samples.Command("echo a", "a"),
        samples.Command("true", ""),
    ]


def test_output_is_compared_and_dots_stand_for_anything(tmp_path: Path) -> None:
    samples.run(console("$ echo one two three\none ... three\n"), tmp_path, os.environ)
    with pytest.raises(samples.SampleFailed, match="page.md:1: 'echo one' said"):
        samples.run(console("$ echo one\ntwo\n"), tmp_path, os.environ)


def test_a_failing_sample_is_named_with_what_it_said(tmp_path: Path) -> None:
    failing = samples.Sample("page.md", 4, "python", runnable=True, text="raise SystemExit('no luck')\n")
    with pytest.raises(samples.SampleFailed, match=r"page.md:4: exit code 1 from(?s:.)*no luck"):
        samples.run(failing, tmp_path, os.environ)


def test_only_python_and_console_can_be_runnable(tmp_path: Path) -> None:
    with pytest.raises(samples.SampleFailed, match="only python and console"):
        samples.run(samples.Sample("page.md", 1, "json", runnable=True, text="{}\n"), tmp_path, os.environ)
