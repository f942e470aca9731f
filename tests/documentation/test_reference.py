"""The reference: what stands in the repository is what the code says."""

from docs.building.reference import pages, written


def test_the_pages_hold_the_generated_text():
    names = [page.stem for page in pages()]
    assert names == ["commands", "configuration", "json", "python", "report"]
    for page in pages():
        assert page.read_text() == written(page.read_text()), "write it again: python -m docs.building.reference"


def test_what_it_says_of_a_function_is_its_signature_and_its_docstring():
    text = written("<!-- reference: python hpo.load hpo/commands/search.py -->\nwritten by hand\n<!-- end -->\n")
    assert "### hpo.load\n\n```text\nload(name: str | Path) -> Study\n```\n\nReturn an existing study" in text
    assert "by hand" not in text
