"""Every registered equation has its chapter, its source, its notebook cell and its exercise; comments do not count."""

import importlib
import re
from pathlib import Path

import pytest
from made import executed, run

from mlsysim import catalog
from mlsysim.classroom import exercises
from mlsysim.equations import REGISTRY, recording

# The chapter that owns each module's equations.
CHAPTER_OF = {
    "mlsysim.kernels": "01-iron-law",
    "mlsysim.roofline": "01-iron-law",
    "mlsysim.transformer": "02-counting",
    "mlsysim.flops.work": "02-counting",
    "mlsysim.flops.conventions": "02-counting",
    **dict.fromkeys((f"mlsysim.memory.{m}" for m in ("states", "activations", "cache", "fit", "formats")), "03-memory"),
    "mlsysim.collectives.messages": "04-communication",
    "mlsysim.collectives.rings": "04-communication",
    "mlsysim.collectives.trees": "04-communication",
    "mlsysim.collectives.switches": "04-communication",
    "mlsysim.collectives.spreading": "04-communication",
    "mlsysim.parallelism": "05-parallelism",
    "mlsysim.training.equations": "06-training-step",
    **dict.fromkeys(
        (f"mlsysim.capacity.{m}" for m in ("budget", "queues", "waiting", "batching", "pace")), "08-serving-capacity"
    ),
    **dict.fromkeys((f"mlsysim.inference.{m}" for m in ("equations", "techniques")), "07-prefill-decode"),
    **dict.fromkeys(
        (f"mlsysim.reliability.{m}" for m in ("failures", "intervals", "checkpoints", "goodput")), "11-reliability"
    ),
    **dict.fromkeys(("mlsysim.energy.power", "mlsysim.energy.footprint"), "09-energy-carbon"),
    **dict.fromkeys(("mlsysim.cost.ownership", "mlsysim.cost.choice"), "10-cost"),
    **dict.fromkeys(("mlsysim.validation.metrics", "mlsysim.efficiencies.kin"), "12-reality-checks"),
    "mlsysim.validation.scoring.comparing": "22-case-studies",
    "mlsysim.serving_steps.claims.comparisons": "15-hypotheses",
    **dict.fromkeys(
        (
            f"mlsysim.{m}"
            for m in ("sensitivity", "intervals", "validation.scoring.conformal", "validation.scoring.ranges")
        ),
        "13-exploring-designs",
    ),
    **dict.fromkeys(
        ("mlsysim.serving_steps.patterns", "mlsysim.serving_steps.calibrating.residuals"), "18-calibration"
    ),
    "mlsysim.serving_steps.equations": "14-step-model",
    "mlsysim.experts.equations": "16-mixture-of-experts",
    **dict.fromkeys(("mlsysim.serving.equations", "mlsysim.memory.server"), "17-request-simulation"),
    "mlsysim.hlo.losses": "23-limits",
    **dict.fromkeys(("mlsysim.serving.loops", "mlsysim.experts.popular"), "24-throughput-patience"),
    **dict.fromkeys(("mlsysim.memory.recurrent", "mlsysim.inference.context"), "25-forgetful-attention"),
    **dict.fromkeys(("mlsysim.energy.clocks", "mlsysim.energy.loads", "mlsysim.reliability.tiers"), "28-racks-watts"),
    "mlsysim.beyond.equations": "29-beyond-language",
    **dict.fromkeys(("mlsysim.memory.grids", "mlsysim.training.narrow"), "26-fewer-bits"),
    **dict.fromkeys((f"mlsysim.posttraining.{m}" for m in ("adapters", "rollouts", "feeding")), "27-after-pretraining"),
    "mlsysim.network.equations": "21-network",
    "mlsysim.hlo.work.equations": "19-stablehlo",
    "mlsysim.hlo.estimators.systolic": "20-estimators",
}
SLUGS = sorted(set(CHAPTER_OF.values()))
for module in CHAPTER_OF:  # importing registers
    importlib.import_module(module)


def labels_of(slug: str) -> set[str]:
    return {e.label for e in REGISTRY.values() if CHAPTER_OF[e.function.__module__] == slug}


def visible_prose(path: Path) -> str:
    """A chapter without comments and code."""
    text = re.sub(r"<!--.*?-->", "", path.read_text(encoding="utf-8"), flags=re.S)
    return re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)


def defined_in(text: str) -> list[str]:
    return re.findall(r"^\$\$.*?\$\$\s*\{#(eq-[\w-]+)\}", text, flags=re.S | re.M)


def missing_from_chapter(labels: set[str], text: str) -> set[str]:
    return labels - set(defined_in(text))


def test_every_module_with_equations_belongs_to_a_chapter() -> None:
    assert {e.function.__module__ for e in REGISTRY.values()} <= set(CHAPTER_OF)


def test_each_label_is_defined_once_in_its_chapter(root: Path) -> None:
    seen: list[str] = []
    for slug in SLUGS:
        text = visible_prose(root / "book" / f"{slug}.qmd")
        assert missing_from_chapter(labels_of(slug), text) == set()
        seen += defined_in(text)
    assert len(seen) == len(set(seen))
    assert set(seen) == set(REGISTRY)


def test_each_source_is_in_the_bibliography(root: Path) -> None:
    keys = set(re.findall(r"^@\w+\{([^,]+),", (root / "references.bib").read_text(encoding="utf-8"), re.M))
    assert {e.source for e in REGISTRY.values()} <= keys
    assert {s.source for d in catalog.devices().values() for s in d.fields.values()} <= keys


@pytest.mark.slow
@pytest.mark.parametrize("slug", SLUGS)
def test_the_notebook_calls_every_equation_of_its_chapter(slug: str, root: Path, shared: Path) -> None:
    called = executed(root / "notebooks" / f"{slug}.ipynb", shared).called
    assert labels_of(slug) - set().union(*called.values()) == set()


@pytest.mark.slow
@pytest.mark.parametrize("slug", SLUGS)
def test_the_slider_views_together_touch_every_equation(slug: str, root: Path, shared: Path) -> None:
    called = executed(root / "notebooks" / f"{slug}.ipynb", shared).called
    views = [labels for cell, labels in called.items() if cell.startswith("view-")]
    assert len(views) >= len(exercises.OBJECTIVES[slug]), "one slider view per objective"
    assert all(views), "every slider view calls the library"
    assert labels_of(slug) - set().union(*views) == set()


@pytest.mark.slow
@pytest.mark.parametrize("slug", SLUGS)
def test_the_exercises_together_touch_every_equation(slug: str) -> None:
    with recording() as called:
        for exercise in exercises.assignment(slug):
            exercises.check(exercise.id, 1.0)
    assert labels_of(slug) - called == set()


def test_a_label_in_a_comment_or_in_code_does_not_count(tmp_path: Path) -> None:
    page = tmp_path / "x.qmd"
    page.write_text("<!-- $$ x $$ {#eq-iron-law} -->\n```\n$$ x $$ {#eq-ridge-point}\n```\n$$ x $$ {#eq-dispatch}\n")
    assert missing_from_chapter({"eq-iron-law", "eq-ridge-point", "eq-dispatch"}, visible_prose(page)) == {
        "eq-iron-law",
        "eq-ridge-point",
    }


@pytest.mark.slow
def test_a_cell_that_only_mentions_an_equation_does_not_count(tmp_path: Path) -> None:
    cells = ["from mlsysim import roofline", "# eq-iron-law\nroofline.iron_law", "roofline.ridge_point(1.0, 1.0);", "1"]
    import nbformat

    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c, id=f"c{i}") for i, c in enumerate(cells)])
    nbformat.write(notebook, tmp_path / "n.ipynb")
    called = run(tmp_path / "n.ipynb", tmp_path / "run").called
    assert called == {"c0": set(), "c1": set(), "c2": {"eq-ridge-point"}, "c3": set()}
