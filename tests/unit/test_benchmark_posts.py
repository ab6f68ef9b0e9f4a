"""The reports of the posts' experiments go to the docs, and so do their tables."""

from pathlib import Path

import pytest

from benchmarks import posts

OLD = "# A suite\n\n| variant | loss |\n| --- | --- |\n| a | 1 |\n\nSome words.\n\n| b | 2 |\n"
NEW = OLD.replace("| a | 1 |", "| a | 3 |\n| c | 4 |").replace("| b | 2 |", "| b | 5 |")


def write_report(folder: Path, text: str) -> Path:
    (folder / "plots").mkdir(parents=True)
    (folder / "plots" / "losses.png").write_bytes(text.encode())
    (folder / "report.json").write_text("{}", "utf-8")
    (folder / "report.md").write_text(text, "utf-8")
    return folder


def test_a_new_report_renews_its_tables_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "ABLATIONS.md"
    monkeypatch.setattr(posts, "PAGE", page)
    first, second = "| variant | loss |\n| --- | --- |\n| a | 1 |", "| b | 2 |"
    text = "Before.\n\n{}\n\nBetween.\n\n{}\n\n| a | 1 | other |\n"
    page.write_text(text.format(second, first), "utf-8")
    target = write_report(tmp_path / "docs", OLD)
    posts.publish(write_report(tmp_path / "run", NEW), target)
    renewed = "| variant | loss |\n| --- | --- |\n| a | 3 |\n| c | 4 |"
    assert page.read_text("utf-8") == text.format("| b | 5 |", renewed)
    assert (target / "report.md").read_text("utf-8") == NEW
    assert (target / "plots" / "losses.png").read_text("utf-8") == NEW


@pytest.mark.parametrize(
    "new", [NEW + "\n| one | more |\n", "No table."], ids=["more tables", "fewer tables"]
)
def test_a_report_with_other_tables_is_refused(new: str) -> None:
    with pytest.raises(ValueError, match="argument"):
        posts.replace_tables(OLD, OLD, new)


def test_a_table_that_the_page_lacks_is_named() -> None:
    with pytest.raises(ValueError, match=r"lacks the table that begins '\| variant"):
        posts.replace_tables("# Nothing", OLD, NEW)


def test_the_tables_of_the_docs_can_be_renewed() -> None:
    for suite in posts.SUITES:
        report = (posts.DOCS / "results" / "ablations" / suite / "report.md").read_text("utf-8")
        assert posts.tables(report)
        assert posts.replace_tables(posts.PAGE.read_text("utf-8"), report, report)
