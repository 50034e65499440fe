"""A link between pages leads somewhere."""

import re
from pathlib import Path

from scripts import repository
from tests.rows import each_row

PAGES = [path for path in repository.files() if path.suffix == ".md"]
LINK = re.compile(r"\]\((?![a-z]+:)([^)#\s]+)")


@each_row("page", PAGES)
def test_every_link_of_a_page_to_a_file_leads_to_one(page: Path) -> None:
    text = (repository.ROOT / page).read_text()
    targets = [target for target in LINK.findall(text) if not target.startswith("/")]
    assert [target for target in targets if not (repository.ROOT / page.parent / target).exists()] == []
