#!/usr/bin/env python3
"""Read the tables of this folder with nothing but Python: typed as croissant.json says, checked, without the rows that were withdrawn.

    python read_rows.py                  tables, rows and columns
    python read_rows.py serving          the first row of a table

Copy the folder and import it, with pandas or without: ``pandas.DataFrame(read("serving"))``.
"""

import csv
import hashlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
TYPES: dict[str, Callable[[str], Any]] = {
    "sc:Float": float,
    "sc:Integer": int,
    "sc:Boolean": lambda text: text == "true",
    "sc:Text": str,
}


def metadata(folder: Path = HERE) -> dict[str, Any]:
    """What croissant.json says."""
    found: dict[str, Any] = json.loads((folder / "croissant.json").read_text(encoding="utf-8"))
    return found


def read(table: str, folder: Path = HERE, withdrawn: bool = False) -> list[dict[str, Any]]:
    """The rows of a table: an empty cell is None. ``withdrawn`` also gives those that are no longer to be used."""
    said = metadata(folder)
    file = next(f for f in said["distribution"] if f["@id"] == f"{table}.csv")
    content = (folder / file["contentUrl"]).read_bytes()
    if hashlib.sha256(content).hexdigest() != file["sha256"]:
        raise ValueError(f"{table}.csv is not that of version {said['version']}: its sha256 differs")
    fields = next(r for r in said["recordSet"] if r["@id"] == table)["field"]
    types: dict[str, Any] = {f["source"]["extract"]["column"]: TYPES[f["dataType"]] for f in fields}
    rows = csv.DictReader(content.decode("utf-8").splitlines())
    out = (
        set()
        if withdrawn or table == "withdrawn"
        else {r["id"] for r in read("withdrawn", folder) if r["table"] == table}
    )
    return [
        {name: types[name](cell) if cell else None for name, cell in row.items()}
        for row in rows
        if row.get("id") not in out
    ]


def main() -> None:
    said = metadata()
    if len(sys.argv) > 1:
        print(json.dumps(read(sys.argv[1])[0], indent=1))
        return
    print(said["name"], said["version"])
    for record in said["recordSet"]:
        print(f"{record['@id']:<18} {len(read(record['@id'])):>6} rows {len(record['field']):>3} columns")


if __name__ == "__main__":
    main()
