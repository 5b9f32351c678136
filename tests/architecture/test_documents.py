"""Tables of the documents name what there is."""

import re
from pathlib import Path

from onlooker.config.schema import DataTable

PAGE = Path(__file__).resolve().parents[2] / "docs/configuration.md"
ELSEWHERE = {
    "name",
    "clients",
    "partition",
    "alpha",
    "classes-per-client",
    "expected-records",
    "max-records",
    "weights",
}
"""Keys of [data] that are not of CSV files alone; the first table of the page has them."""


def test_every_key_of_csv_data_is_in_its_table_with_its_default() -> None:
    keys, own = PAGE.read_text(encoding="utf-8").split("## Your own tables")
    rows = dict(re.findall(r"^\| `data[.]([a-z-]+)` \| (.*?) ?\|", own, re.MULTILINE))
    fields = {field.alias: field.default for field in DataTable.model_fields.values()}
    assert set(rows) == set(fields) - ELSEWHERE
    assert all(re.search(rf"[`.]{key}\b", keys) for key in ELSEWHERE)
    written = {key: value.strip('`"') for key, value in rows.items() if value}
    assert written == {key: str(fields[key]) for key in written}
    assert all(not fields[key] for key in set(rows) - set(written))
