"""Text that several statements share is in one file, and is included when a statement is read."""

from __future__ import annotations

import pytest

from scheduled_actions.database import statements
from scheduled_actions.database.statements import Statements


@pytest.fixture
def feature(monkeypatch, tmp_path):
    """Return a function that writes files of a feature `shop`; its statements are those of `Statements(module)`."""
    monkeypatch.setattr(statements, "_PACKAGE", tmp_path)
    (tmp_path / "shop" / "sql").mkdir(parents=True)

    def write(**texts):
        for name, text in texts.items():
            (tmp_path / "shop" / "sql" / f"{name}.sql").write_text(text, encoding="utf-8")
        return Statements(str(tmp_path / "shop" / "store.py"))

    return write


def test_an_include_line_is_replaced_with_the_included_text(feature):
    sql = feature(
        **{
            "item_columns.inc": "-- The columns of an item `i`.\ni.id, i.name,\ni.price\n",
            "get_item": "-- One item.\nselect\n  -- include: shop/item_columns\nfrom items i\n",
            "count_item": "-- One item.\nselect\n    -- include: shop/item_columns,\n    count(*)\nfrom items i\n",
        }
    )

    assert sql.text("get_item") == "-- One item.\nselect\n  i.id, i.name,\n  i.price\nfrom items i\n"
    assert sql.text("count_item") == (
        "-- One item.\nselect\n    i.id, i.name,\n    i.price,\n    count(*)\nfrom items i\n"
    )


def test_an_include_can_use_the_parameters_of_the_statement(feature, connection):
    sql = feature(
        **{
            "filters.inc": "-- The filters.\nand i.price < %(most)s\nand i.name like 'a%%'\n",
            "count_items": (
                "-- The number of items.\nselect count(*)\n"
                "from (values ('ab', 1), ('ac', 9), ('b', 1)) i (name, price)\nwhere true\n  -- include: shop/filters\n"
            ),
        }
    )

    assert sql.run(connection, "count_items", {"most": 5}).fetchone() == (1,)


def test_other_comments_are_unchanged(feature):
    text = "-- What it is.\nselect 1 -- include: shop/item_columns\n-- includes: nothing\n"

    assert feature(one=text).text("one") == text


def test_a_missing_include_is_an_error(feature):
    sql = feature(get_item="-- One item.\nselect\n  -- include: shop/item_columns\nfrom items i\n")

    with pytest.raises(FileNotFoundError, match="item_columns"):
        sql.text("get_item")


def test_the_columns_of_an_action_can_be_included(connection):
    text = statements.expand("select\n  -- include: actions/action_columns,\n  1 as one\nfrom scheduled_actions a")

    names = [column.name for column in connection.execute(text).description]

    assert (names[:3], names[-1]) == (["id", "action_type", "status"], "one")
