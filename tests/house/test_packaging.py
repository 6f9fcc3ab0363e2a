"""What is published as a distribution: small, alone, quick to import, with its addresses and its citation in step."""

import json
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest
import stamp
import yaml
from made import wheel
from support import ROOT

import mlsysim

PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_wheel_is_small_and_answers_in_an_empty_environment(shared: Path, tmp_path: Path) -> None:
    file = wheel(shared)
    assert file.stat().st_size < 3_000_000
    venv.create(tmp_path, with_pip=False)
    python = tmp_path / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-index", str(file)]
    subprocess.run(install, check=True)
    asked = [tmp_path / "bin" / "mlsysim", "serve", "--model", "Llama-3.1-8B", "--device", "H100", "--rate", "20"]
    done = subprocess.run(asked, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "USD per million output tokens" in done.stdout


def test_an_import_takes_less_than_20_ms_of_processor_time() -> None:
    code = "import time; t = time.process_time(); import mlsysim; print(time.process_time() - t)"
    times = [float(subprocess.check_output([sys.executable, "-c", code], cwd=ROOT)) for _ in range(5)]
    assert min(times) < 0.020


def test_addresses_come_into_the_metadata_once() -> None:
    to = stamp.Addresses("owner/name")
    once = stamp.listed(PYPROJECT, to)
    urls = tomllib.loads(once)["project"]["urls"]
    assert urls["Homepage"] == "https://owner.github.io/name"
    assert stamp.listed(once, to) == once
    assert tomllib.loads(once)["project"]["scripts"] == {"mlsysim": "mlsysim.cli:main"}


def test_the_citation_the_deposit_and_the_metadata_agree() -> None:
    cite = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    deposit = json.loads((ROOT / ".zenodo.json").read_text(encoding="utf-8"))
    project = tomllib.loads(PYPROJECT)["project"]
    assert cite["version"] == mlsysim.__version__
    assert (deposit["title"], deposit["description"]) == (cite["title"], cite["abstract"])
    assert deposit["keywords"] == cite["keywords"] == project["keywords"][: len(cite["keywords"])]
    assert (
        [a["name"] for a in cite["authors"]]
        == [c["name"] for c in deposit["creators"]]
        == [a["name"] for a in project["authors"]]
    )


def test_the_page_for_packagers_names_what_is_there() -> None:
    page = (ROOT / "PACKAGING.md").read_text(encoding="utf-8")
    extras = tomllib.loads(PYPROJECT)["project"]["optional-dependencies"]
    row = next(line for line in page.splitlines() if line.startswith("| extras"))
    assert set(re.findall(r"`(\w+)`", row)) == set(extras)
    folders = re.search(r'"\s(tests/.*)$', page, re.M)
    assert folders and all((ROOT / folder).is_dir() for folder in folders[1].split())


def test_the_readme_s_answer_is_renewed_with_its_numbers() -> None:
    import fit_all

    before = "a\n<!-- answer -->\n```text\n$ mlsysim roofline --device H100 --flops 1e12 --bytes 1e9\nold\n```\n<!-- end of answer -->\nb\n"
    after = fit_all.readme(before)
    assert "old" not in after
    assert "\nH100-SXM5-80GB, bf16: " in after
    assert after.startswith("a\n<!-- answer -->") and after.endswith("```\n<!-- end of answer -->\nb\n")


def test_the_readme_answers_as_the_library_does() -> None:
    import fit_all

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for block, command in re.findall(r"(<!-- answer -->\n```text\n\$ mlsysim ([^\n]*)\n.*?<!-- end)", text, re.S):
        first, _, rest = fit_all._answer(command).partition("simulated:")  # plays are shorter in tests
        assert block.partition("\n$ mlsysim ")[2].partition("\n")[2].startswith(first)
        assert rest.partition("nearest")[2].strip() in block
