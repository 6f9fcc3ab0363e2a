"""The house rules: one-way imports, a light core, honest documents, no traces of the machine that built it."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from house import OUT, WINGS, circles, drawing, floors, imported, needs

import mlsysim

THIRD_PARTY_ALLOWED = {
    "_numeric.__init__": {"numpy"},
    "quantities": {"pint"},
    "evidence.measuring.rounds": {"numpy"},  # these three inside their measurements only
    "evidence.measuring.microbench": {"numpy"},
    "evidence.measuring.tiny": {"numpy"},
    "explore.fronts": {"numpy"},
    "explore.sweeping": {"tqdm", "dask"},
    "cli.mcp": {"mcp", "anyio"},  # of that command alone
    "cli.sweep": {"numpy"},  # of the sweep alone
    "api.playing": {"numpy"},  # repeated runs alone
    "serving.fleet.simulator": {"tqdm"},
    "hlo.profiler.xla_worker": {"jax", "jaxlib", "ml_dtypes", "numpy"},  # a process of its own
    "hlo.export.layout": {"jax"},  # the process that lowers imports these
    "hlo.export.llama": {"jax"},
    "hlo.export.lower": {"jax"},
    "hlo.export.mlp": {"jax"},
    "hlo.export.resnet": {"jax"},
    "hlo.export.training": {"jax"},
    "drawing.scenes": {"matplotlib"},  # where matplotlib draws them
    "hlo.reader.stablehlo": {"jaxlib"},
    "hlo.chakra.schema": {"google"},
    "evidence.predictors.fitting": {"numpy"},  # these seven inside their fits only
    "evidence.predictors.attention": {"numpy"},
    "evidence.predictors.gemm": {"numpy"},
    "evidence.predictors.inference": {"numpy"},
    "evidence.predictors.serving": {"numpy"},
    "evidence.predictors.training_step": {"numpy"},
    "evidence.predictors.training_structures": {"numpy"},
    "evidence.scoring.nested": {"numpy"},  # in the search alone
    "drawing.style": {"matplotlib", "IPython"},
    "results": {"pandas"},
    "course.sliders": {"ipywidgets"},
}


def modules(root: Path) -> list[tuple[str, Path]]:
    package = root / "mlsysim"
    return [(".".join(p.relative_to(package).with_suffix("").parts), p) for p in sorted(package.rglob("*.py"))]


def test_imports_point_downwards_only(root: Path) -> None:
    """Who answers a question imports neither who proves it nor who teaches it."""
    rooms = needs(root / "mlsysim")
    assert sum(map(len, floors(rooms))) > 30
    assert {room: below & set(WINGS) for room, below in rooms.items() if room not in WINGS and below & set(WINGS)} == {}


def test_the_check_of_imports_can_fail(tmp_path: Path) -> None:
    package = tmp_path / "mlsysim"
    package.mkdir()
    (package / "units.py").write_text("from mlsysim import roofline\n")
    (package / "roofline.py").write_text("def f():\n    from mlsysim.units import x\n")
    with pytest.raises(ValueError, match="a circle of imports among roofline, units"):
        floors(needs(package))
    assert circles(package) == [["mlsysim.roofline", "mlsysim.units"]]


def test_no_files_go_round_in_a_circle(root: Path) -> None:
    """None of them could be read, tested or moved without the others."""
    assert not circles(root / "mlsysim"), "move what these files share to a file that imports neither"


def test_third_parties_stay_where_they_are_allowed(root: Path) -> None:
    standard = sys.stdlib_module_names | {"mlsysim"}
    for name, path in modules(root):
        outside = {t.split(".")[0] for t in imported(path)} - standard
        allowed = THIRD_PARTY_ALLOWED.get(name, set())
        if name.startswith("course.grading"):
            continue  # an instructor's tool; it needs the extra `exercises`
        assert outside <= allowed, f"mlsysim/{name} imports {outside - allowed}"


@pytest.mark.parametrize(
    "code",
    [
        "import mlsysim",
        "from mlsysim import roofline; roofline.kernel_time('H100', 1e12, 1e9).explain()",
        "from mlsysim import catalog; catalog.devices()",
        "from mlsysim import cli; cli.main(['devices', '--json'])",
        "from mlsysim.course import check; check('01.1', 1.0)",
        "from mlsysim.explore import elasticities; elasticities(lambda x: x**2, {'x': 3.0})",
        "from mlsysim import intervals; intervals.interval('training_step', 10.0)",
    ],
)
def test_the_core_needs_neither_numpy_nor_matplotlib(code: str) -> None:
    script = f"{code}\nimport sys\nheavy = {{'numpy', 'matplotlib', 'pint', 'IPython', 'ipywidgets', 'yaml'}} & set(sys.modules)\nassert not heavy, heavy"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


def test_the_distribution_has_its_own_name_and_no_dependency(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    assert project["name"] == mlsysim.DISTRIBUTION == "mlsysim-book"
    assert project["dependencies"] == []
    assert set(project["optional-dependencies"]) >= {"plot", "widgets", "book", "exercises", "hlo", "scale", "dev"}
    for requirement in [r for extra in project["optional-dependencies"].values() for r in extra]:
        assert re.match(r"mlsysim-book\[|[\w.-]+(\[[\w,]+\])?>=", requirement), (
            f"{requirement}: extras have lower bounds"
        )


def tracked(root: Path) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True)
    if listed.returncode:
        pytest.skip("not a git checkout, so there is no list of tracked files")
    return [root / name for name in listed.stdout.split("\0") if name and (root / name).is_file()]


FORBIDDEN = {
    r"pip install( -q| --quiet)* +[\"']?mlsysim(?![\w-])(?!==0\.3\.0)": "fetches another project; ours is mlsysim-book",
    r"(?<![\w.-])/(?:work|farm|tmp|root)/[\w.-]+": "a path of somebody's machine",
    r"p" + r"ypi\.org|files\.python" + r"hosted|registry\.n" + r"pmjs|deb\.deb" + r"ian": "an index's host name",
}


def offences(files: list[Path]) -> list[str]:
    found = []
    for path in files:
        if path.name in ("LICENSE", "LICENSE-text") or path.suffix in (".png", ".ico"):
            continue
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            found += [f"{path.name}:{number}: {why}" for pattern, why in FORBIDDEN.items() if re.search(pattern, line)]
    return found


def test_no_tracked_file_carries_what_must_not_be_published(root: Path) -> None:
    exempt = {Path(__file__).name, "run"}  # the patterns stand here; .ci/run may name its own scratch folders
    assert offences([p for p in tracked(root) if p.name not in exempt]) == []


def test_the_check_of_documents_can_fail(tmp_path: Path) -> None:
    bad = tmp_path / "page.md"
    bad.write_text(
        "Run `pip "
        + "install mlsysim` in /"
        + "work/main.\nBut pip install mlsysim-book is fine, and mlsysim==0.3.0 too.\n"
    )
    assert len(offences([bad])) == 2


def test_the_licences_and_the_citation_are_stated(root: Path) -> None:
    assert "Apache License" in (root / "LICENSE").read_text()
    assert "Attribution 4.0 International" in (root / "LICENSE-text").read_text()
    citation = (root / "CITATION.cff").read_text()
    assert f"version: {mlsysim.__version__}" in citation
    assert f"## {mlsysim.__version__}" in (root / "CHANGELOG.md").read_text()


def test_constraints_pin_every_extra_and_name_no_index(root: Path) -> None:
    text = (root / "constraints.txt").read_text()
    pinned = {
        line.split("==")[0].lower() for line in text.splitlines() if "==" in line and not line.startswith((" ", "#"))
    }
    for name in ("numpy", "matplotlib", "ipywidgets", "otter-grader", "jax", "dask", "pytest", "nbval", "playwright"):
        assert name in pinned
    assert "://" not in text


def test_the_drawing_of_the_house_is_fresh() -> None:
    """`python scripts/house.py` renews it."""
    assert OUT.read_text(encoding="utf-8") == drawing()
