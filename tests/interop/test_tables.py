"""The guide's tables are what the readers and writers say of themselves."""

from tests.interop.tables import PAGE, TABLES, renewed


def test_the_tables_of_the_guide_are_as_the_code_says() -> None:
    text = PAGE.read_text("utf-8")
    assert all(text.count(f"<!-- {name} -->") == 1 for name in TABLES)
    assert renewed(text) == text, "renew them: python -m tests.interop.tables"
