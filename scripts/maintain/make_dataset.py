#!/usr/bin/env python3
"""Write what others need to use the rows as a dataset: croissant.json, with every table's columns, types and checksum.

    scripts/maintain/make_dataset.py [--check]

Run it after a row changed. The version is set by hand below, by the rule in the data sheet.
"""

import argparse
import csv
import hashlib
import json
import re
import tomllib
from pathlib import Path
from typing import Any

from mlsysim.evidence import rows

VERSION, DATE = "3.1.0", "2026-11-24"
FOLDER = Path(rows.__file__).parent
OUTPUT = FOLDER / "croissant.json"
ROOT = Path(__file__).resolve().parents[2]
_OTHERS = ("sources", "shapes", "withdrawn")
_MEANINGS = {
    "id": "name of the row",
    "set": "first, second or third, by when it came",
    "source": "name in sources.csv",
    "where": "table, figure or file in the source",
    "read": "primary, secondary or derived",
    "group": "what has one vote in a score; empty: the source",
    "tolerance": "relative tolerance that the row deserves",
    "note": "what was assumed, and doubts",
    "since": "day of withdrawal",
    "why": "what was found wrong; the data sheet says what each word means",
}
_SUFFIXES = {
    "_s": "seconds",
    "_bytes": "bytes",
    "_len": "tokens",
    "bandwidth": "bytes per second",
    "flops": "FLOP per second",
}
_CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "equivalentProperty": "cr:equivalentProperty",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileObject": "cr:fileObject",
    "fileProperty": "cr:fileProperty",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "samplingRate": "cr:samplingRate",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}


def _type(cells: list[str]) -> str:
    """The narrowest type that all cells of a column have; text where there are none."""
    some = [c for c in cells if c]
    if some and all(c in ("true", "false") for c in some):
        return "sc:Boolean"
    for name, read in (("sc:Integer", int), ("sc:Float", float)):
        try:
            [read(c) for c in some]
        except ValueError:
            continue
        return name if some else "sc:Text"
    return "sc:Text"


def _meaning(column: str) -> str:
    if column in _MEANINGS:
        return _MEANINGS[column]
    unit = next((of for end, of in _SUFFIXES.items() if column.endswith(end)), "")
    said = "measured" if column.startswith("measured") else "as in the data sheet"
    return f"{column.replace('_', ' ')}, {said}" + (f", in {unit}" if unit else "")


def _table(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The file and the columns of a table."""
    content = (FOLDER / f"{name}.csv").read_bytes()
    header, *cells = csv.reader(content.decode("utf-8").splitlines())
    file = {
        "@type": "cr:FileObject",
        "@id": f"{name}.csv",
        "name": f"{name}.csv",
        "contentUrl": f"{name}.csv",
        "encodingFormat": "text/csv",
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    fields = [
        {
            "@type": "cr:Field",
            "@id": f"{name}/{column}",
            "name": column,
            "description": _meaning(column),
            "dataType": _type([row[i] for row in cells]),
            "source": {"fileObject": {"@id": f"{name}.csv"}, "extract": {"column": column}},
        }
        for i, column in enumerate(header)
    ]
    return file, {"@type": "cr:RecordSet", "@id": name, "name": name, "field": fields}


def croissant() -> str:
    """The metadata, as JSON-LD of Croissant 1.0."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    tables = [_table(n) for n in sorted({rows._FILES.get(n, n) for n in rows.TABLES}) + list(_OTHERS)]
    found = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "name": "mlsysim-measurements",
        "description": "Published measurements of machine-learning systems (training steps, inference, served points, kernels, collectives, "
        "memory, requests), each with its source and the place in it. README.md beside it is the data sheet.",
        "version": VERSION,
        "datePublished": DATE,
        "license": [f"https://spdx.org/licenses/{one}" for one in project["project"]["license"].split(" AND ")],
        "citeAs": "See CITATION.cff of the repository; each row's source stands in sources.csv.",
        "creator": {"@type": "Organization", "name": "The authors of mlsysim"},
        "isLiveDataset": False,
        "distribution": [file for file, _ in tables],
        "recordSet": [record for _, record in tables],
    }
    text = json.dumps(found, indent=1, ensure_ascii=False)
    for _ in range(3):  # a column on one line: an object within an object within an object
        text = re.sub(
            r"\{[^{}\[\]]*\n[^{}\[\]]*\}", lambda m: " ".join(m[0].split()).replace("{ ", "<").replace(" }", ">"), text
        )
    return text.replace("<", "{").replace(">", "}") + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the metadata of the rows as a dataset.")
    parser.add_argument("--check", action="store_true", help="fail if the file is not what the rows say")
    if parser.parse_args().check:
        return int(OUTPUT.read_text(encoding="utf-8") != croissant())
    OUTPUT.write_text(croissant(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
