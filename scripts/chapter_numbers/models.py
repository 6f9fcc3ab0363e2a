"""Numbers of the appendix on models."""

from typing import Any

from mlsysim import catalog


def numbers() -> dict[str, Any]:
    """How many models there are, and how many of the published counts are exact."""
    figures = [m.published["parameters"] for m in catalog.models().values()]
    exact = sum("rounded" not in f.transform for f in figures)
    return {"count": str(len(figures)), "exact": str(exact), "rounded": str(len(figures) - exact)}
