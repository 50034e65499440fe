"""`molecule-skill dev`: code is read again on save, waiting runs are kept, and the page is for one person."""

import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from packages.skills.tests.cli.commands import Dev, dev, project, run, write_agent

pytestmark = pytest.mark.slow  # each test starts a server


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return project(tmp_path)


@pytest.fixture
def served(root: Path) -> Iterator[Dev]:
    with dev(root) as one:
        yield one


def until(look: object, seconds: float = 10.0) -> float:
    began = time.monotonic()
    assert callable(look)
    while not look():
        assert time.monotonic() - began < seconds
        time.sleep(0.01)
    return time.monotonic() - began


def test_a_save_takes_effect_within_a_second(root: Path, served: Dev) -> None:
    assert served.invoke("greet", name="Ada")["result"] == "Hello, Ada!"
    write_agent(root, greeting="Servus")
    took = until(lambda: served.invoke("greet", name="Ada")["result"] == "Servus, Ada!")
    assert took < 1.0


def test_a_run_that_waits_survives_a_save(root: Path, served: Dev) -> None:
    waiting = served.invoke("ask", topic="tea")
    write_agent(root, greeting="Servus")
    until(lambda: served.invoke("greet", name="Ada")["result"] == "Servus, Ada!")
    run = httpx.get(f"{served.base}/runs/{waiting['run_id']}").json()
    assert run["state"] == "waiting"
    answered = httpx.post(f"{served.base}/answers/{waiting['interaction']['id']}", json={"answer": "green"})
    assert answered.json() == {"state": "answered"}
    took = until(lambda: httpx.get(f"{served.base}/runs/{waiting['run_id']}").json().get("result") == "GREEN")
    assert took < 1.5


def test_a_syntax_error_is_shown_with_its_line_and_the_old_code_goes_on(root: Path, served: Dev) -> None:
    (root / "agent.py").write_text("class Agent(:\n")
    served.wait_for_output("agent.py:1")
    assert "SyntaxError" in served.output()
    assert "molecule_skill/" not in served.output()
    assert "frozen" not in served.output()
    assert served.invoke("greet", name="Ada")["result"] == "Hello, Ada!"
    write_agent(root, greeting="Moin")
    until(lambda: served.invoke("greet", name="Ada")["result"] == "Moin, Ada!")


def test_an_agent_that_cannot_be_loaded_at_the_start_is_mended_by_a_save(root: Path) -> None:
    (root / "agent.py").write_text("import nothing_of_this_name\n")
    with dev(root) as served:
        assert "nothing_of_this_name" in served.output()
        assert served.invoke("greet", name="Ada")["code"] == "agent-busy"
        write_agent(root, greeting="Hello")
        until(lambda: served.invoke("greet", name="Ada").get("result") == "Hello, Ada!")


def test_an_error_of_a_skill_is_logged_with_the_authors_line_only(served: Dev) -> None:
    assert served.invoke("fail")["code"] == "skill-failed"
    served.wait_for_output("agent.py:31 in helper")
    assert "engine.py" not in served.output()


def test_past_runs_are_there_after_a_restart(root: Path) -> None:
    with dev(root) as served:
        run_id = served.invoke("greet", name="Ada")["run_id"]
    with dev(root) as served, httpx.Client(base_url=served.base, follow_redirects=True) as browser:
        assert browser.get(served.url).status_code == 200
        runs = browser.get("/_dev/api/runs").json()["runs"]
        assert [one["run_id"] for one in runs] == [run_id]
        assert browser.get(f"/runs/{run_id}").json()["result"] == "Hello, Ada!"


def test_the_address_works_once_and_the_page_has_a_strict_policy(served: Dev) -> None:
    with httpx.Client(base_url=served.base) as browser:
        assert browser.get("/_dev").status_code == 401
        assert browser.get("/_dev/api/runs").status_code == 401
        signed_in = browser.get(served.url)
        assert signed_in.status_code == 303
        assert "HttpOnly" in signed_in.headers["set-cookie"]
        assert "SameSite=Strict" in signed_in.headers["set-cookie"]
        page = browser.get("/_dev")
        assert page.status_code == 200
        assert "default-src 'none'" in page.headers["content-security-policy"]
        for name in ("dev.js", "dev.css"):
            assert browser.get(f"/_dev/{name}").status_code == 200
        assert browser.get("/_dev/..%2fdev.py").status_code == 404
        assert browser.post("/_dev").status_code == 403
        assert browser.get("/_dev", headers={"host": "evil.example"}).status_code == 403
    with httpx.Client(base_url=served.base) as stranger:
        assert stranger.get(served.url).status_code == 401


def test_a_port_in_use_is_said(served: Dev, root: Path) -> None:
    taken = run(root, "dev", "--port", served.base.rpartition(":")[2])
    assert taken.returncode == 1
    assert "cannot listen on 127.0.0.1" in taken.stderr
    assert "--port" in taken.stderr
