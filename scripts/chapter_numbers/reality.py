"""Numbers of the appendix of reality checks."""

from typing import Any

from mlsysim.validation import reality
from mlsysim.validation.cases import CLASSES


def numbers() -> dict[str, Any]:
    rows = [row for name in CLASSES for row in reality.rows(name)]
    return {
        "rows": str(len(rows)),
        "end_to_end": str(sum(row.case_class in ("training_step", "inference") for row in rows)),
        "primary": str(sum(row.read == "primary" for row in rows)),
    }
