"""Write the notebooks of every exercise set from its definitions: the otter master and what students open.

    python scripts/make_exercises.py            write exercises/NN-slug/{master,student}.ipynb
    python scripts/make_exercises.py --check    exit 1 when a file differs from its definition
    python scripts/make_exercises.py --graded 2026-12-01T23:59+01:00 [--attempts 6]
                                                write build/graded/NN-slug/student.ipynb, in which attempts count
    python scripts/make_exercises.py --otter    also run otter assign: build/exercises/NN-slug/ gets the autograder

A second run changes nothing: cell ids are counted, and no time is written down.
"""

import argparse
import json
import shutil
import sys
import zipfile
from pathlib import Path
from typing import Any

import stamp
from build_lab import build_wheel

import mlsysim
from mlsysim.course.exercises import OBJECTIVES, Desk, Exercise, assignment, capstones
from mlsysim.course.exercises.learning import modules, named

ROOT = Path(__file__).resolve().parent.parent
Cell = dict[str, Any]

# The first two cells of every notebook that we ship; a test compares them with the chapters' notebooks.
_INSTALL = """\
# The in-browser lab and Colab start without the library; everywhere else it is installed already.
import sys

if sys.platform == "emscripten":  # the in-browser lab, which brings its own wheel
    %pip install -q mlsysim-book ipywidgets
elif "google.colab" in sys.modules:
    %pip install -q mlsysim-book
    from importlib.util import find_spec

    if find_spec("mlsysim") is None:
        raise ModuleNotFoundError(
            "mlsysim-book is not on the package index yet: put a wheel of it (from `python -m build`, or from the site's "
            "lab/pypi/) into Colab's files, on the left, install that file with %pip, then run this cell again"
        )"""
_WHOSE = f"""\
import mlsysim

assert getattr(mlsysim, "DISTRIBUTION", "") == "mlsysim-book", "another project is called mlsysim too: uninstall it, install mlsysim-book"
assert mlsysim.__version__.startswith("{stamp.series(mlsysim.__version__)}."), f"this notebook is for mlsysim-book {stamp.series(mlsysim.__version__)}, not {{mlsysim.__version__}}\""""
_IMPORT = (
    _WHOSE
    + """

from mlsysim import MODULES
from mlsysim.course import Desk, check, inputs, question"""
)
_DESK = """\
desk = Desk(STUDENT)  # counts your attempts: desk.hint("01.1") gives a question back, then the relation, then the worked route
check = desk.check"""
_GRADED = 'Desk(STUDENT, graded=True, attempts={attempts}, due="{due}", log="attempts.jsonl")'
_CONFIG = """\
# ASSIGNMENT CONFIG
name: {slug}
init_cell: false
check_all_cell: false
export_cell: false
solutions_pdf: false
run_tests: true
generate: true
requirements:
  - mlsysim-book
files: []"""


def _cell(kind: str, text: str) -> Cell:
    cell: Cell = {"cell_type": kind, "metadata": {}, "source": text.splitlines(keepends=True)}
    return cell | {"execution_count": None, "outputs": []} if kind == "code" else cell


def _notebook(slug: str, cells: list[Cell]) -> str:
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number:02d}"
    document = {
        "cells": cells,
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
            "otter": {"assignment_name": slug},  # the autograder refuses a notebook of another assignment
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(document, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def answer_name(exercise: Exercise) -> str:
    """The variable that holds the answer: answer_1 for 01.1."""
    return f"answer_{exercise.id.partition('.')[2]}"


def _head(slug: str, desk: str = "Desk(STUDENT)") -> list[Cell]:
    lines = [f"- {sentence} (`{main}`)" for sentence, main in OBJECTIVES[slug]]
    text = f"# Exercises: {slug}\n\nWhat they grade:\n\n" + "\n".join(lines)
    identity = (
        "Write your student id, and give the file that name before you hand it in. It sets your numbers. "
        "An answer is a plain number in SI units, or text with a unit such as `'3.5 ms'`."
    )
    return [
        _cell("markdown", text),
        _cell("code", _INSTALL),
        _cell("code", _IMPORT.replace("MODULES", ", ".join(modules(slug)))),
        _cell("markdown", identity),
        _cell("code", 'STUDENT = "your-id"'),
        _cell("code", _DESK.replace("Desk(STUDENT)", desk)),
    ]


def _prompt(exercise: Exercise) -> list[Cell]:
    return [
        _cell("markdown", f"## {exercise.id}"),
        _cell("code", f'question("{exercise.id}", seed=STUDENT)'),
    ]


def inputs_name(exercise: Exercise) -> str:
    """The variable that holds the inputs: one of its own where a function uses it after later cells have run."""
    return f"g_{exercise.id.partition('.')[2]}" if exercise.form == "function" else "g"


def stub(exercise: Exercise) -> str:
    """What stands in a student's cell."""
    return (
        named(exercise.starter.strip("\n"), answer_name(exercise))
        if exercise.starter
        else f"{answer_name(exercise)} = ..."
    )


def student(slug: str, desk: str = "Desk(STUDENT)") -> str:
    """The notebook that students open: prompt, stub, check."""
    cells = _head(slug, desk)
    for e in assignment(slug):
        cells += _prompt(e)
        cells.append(_cell("code", f'{inputs_name(e)} = inputs("{e.id}", seed=STUDENT)\n{stub(e)}'))
        if e.rubric:
            cells.append(
                _cell(
                    "code", f'{answer_name(e).replace("answer", "reason")} = """Why? A few sentences, with numbers."""'
                )
            )
        cells.append(_cell("code", f'check("{e.id}", {answer_name(e)}, seed=STUDENT)'))
    return _notebook(slug, cells)


def _solution(exercise: Exercise) -> str:
    """All of a solution for the instructor; one line to fill in for the student."""
    name = answer_name(exercise)
    code = named(exercise.solution.replace("SEED", "STUDENT"), name)
    if inputs_name(exercise) != "g":
        code = named(code, inputs_name(exercise), "g")
    if exercise.rubric:
        code += "\n" + "\n".join(["# Rubric for the reason:", *(f"# {line}" for line in exercise.rubric)])
    asked = stub(exercise)
    return f'# BEGIN SOLUTION NO PROMPT\n{code}\n# END SOLUTION\n"""; # BEGIN PROMPT\n{asked}\n"""; # END PROMPT'


def _hidden_test(exercise: Exercise) -> str:
    hidden = ', cases="hidden"' if exercise.form == "function" else ""
    return (
        f'""" # BEGIN TEST CONFIG\nhidden: true\npoints: {exercise.points}\n""" # END TEST CONFIG\n'
        "from mlsysim.course import check\n"
        f'feedback = check("{exercise.id}", {answer_name(exercise)}, seed=STUDENT{hidden})\n'
        "assert feedback.correct, feedback.message"
    )


def master(slug: str) -> str:
    """The instructor's notebook, in otter's assignment format: solutions and hidden tests."""
    cells = [_cell("raw", _CONFIG.format(slug=slug)), *_head(slug)]
    for e in assignment(slug):
        cells += [
            *_prompt(e),
            _cell("raw", f"# BEGIN QUESTION\nname: {answer_name(e)}\npoints: {e.points}\ncheck_cell: false"),
            _cell("raw", "# BEGIN SOLUTION"),
            _cell("code", _solution(e)),
            _cell("raw", "# END SOLUTION"),
            _cell("raw", "# BEGIN TESTS"),
            _cell("code", _hidden_test(e)),
            _cell("raw", "# END TESTS"),
            _cell("raw", "# END QUESTION"),
        ]
        if e.rubric:  # a person reads the reason
            cells.append(
                _cell(
                    "code", f'{answer_name(e).replace("answer", "reason")} = """Why? A few sentences, with numbers."""'
                )
            )
    return _notebook(slug, cells)


CAPSTONES = ("training", "serving", "machine")


def capstone(name: str, solved: bool) -> str:
    """A capstone's notebook: brief, milestones, how it is graded, room to work, the check; solved it has an example of each grade."""
    text = capstones.texts(name)
    hours = sum(h for _, h in text["milestones"])
    miles = "\n".join(f"{at}. {what} ({h} h)" for at, (what, h) in enumerate(text["milestones"], 1))
    lines = "\n".join(f"- {n} point{'s' * (n > 1)}: {what}" for n, what in text["rubric"])
    shares = ", ".join(f"{g} from {least:.0%}" for g, least in capstones.GRADES.items() if least > 0)
    cells = [
        _cell(
            "markdown",
            f"# Capstone: {text['title']}\n\nA brief, a decision, and how sure you are. Hand in this notebook: figures in `report`, and one page of text.",
        ),
        _cell("code", _INSTALL),
        _cell("code", "import json\n\n" + _WHOSE + "\n\nfrom mlsysim import evidence\nfrom mlsysim.course.exercises import capstones"),
        _cell("code", 'STUDENT = "your-id"'),
        _cell("code", f'capstones.brief("{name}", seed=STUDENT)'),
        _cell("markdown", f"## Milestones\n\n{hours} hours in all.\n\n{miles}"),
        _cell(
            "markdown",
            f"## How it is graded\n\nThe check below looks at the figures. A person reads the page:\n\n{lines}\n\nOf all points together: {shares}.",
        ),
    ]  # fmt: skip
    check = f'found = capstones.check_report("{name}", report, seed=STUDENT)\nfound'
    if not solved:
        cells += [
            _cell("markdown", "## Your work"),
            _cell("code", text["stub"].strip()),
            _cell("code", check),
            _cell("markdown", "## Your page\n\nWrite here."),
        ]
    for grade in capstones.GRADES if solved else ():
        example = text[grade]
        cells += [
            _cell("markdown", f"## An example: {grade}"),
            _cell("code", f'report = capstones.sample("{name}", seed=STUDENT, grade="{grade}")\nreport'),
            _cell("code", check),
            _cell("markdown", f"The page:\n\n{example['page'].strip()}"),
            _cell("code", f"found.grade({example['marks']})  # marks of the page, line by line of the rubric"),
        ]
    return _notebook(f"capstone-{name}", cells)


def documents() -> dict[str, str]:
    """Every generated file by its path under exercises/."""
    made = {"master": master, "student": student}
    chapters = {f"{slug}/{name}.ipynb": write(slug) for slug in OBJECTIVES for name, write in made.items()}
    return chapters | {
        f"capstones/{name}/{who}.ipynb": capstone(name, who == "master") for name in CAPSTONES for who in made
    }


def stale(folder: Path) -> list[str]:
    """The files under a folder that are missing or differ from their definition."""

    def same(path: Path, text: str) -> bool:
        return path.is_file() and path.read_text(encoding="utf-8") == text

    return [name for name, text in documents().items() if not same(folder / name, text)]


def otter_assign(master_file: Path, result: Path) -> Path:
    """Run otter assign on a master, its own tests included, and return the autograder's zip file, with our wheel in it."""
    from otter.assign import main as assign  # only instructors need otter

    if result.exists():
        shutil.rmtree(result)
    result.mkdir(parents=True)
    assign(str(master_file), str(result))
    made = next((result / "autograder").glob("*.zip"))  # its name holds the time
    wheel, whole = build_wheel(), result / "autograder.zip"
    with zipfile.ZipFile(made) as given, zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as taken:
        for name in sorted(given.namelist()):
            data = given.read(name)
            if (
                name == "environment.yml"
            ):  # no index has our package yet: a container takes it from where the zip is unpacked
                asked, found = b"- mlsysim-book\n", f"- /autograder/source/{wheel.name}\n".encode()
                assert data.count(asked) == 1, data
                data = data.replace(asked, found)
            taken.writestr(given.getinfo(name), data)
        taken.writestr(zipfile.ZipInfo(wheel.name), wheel.read_bytes())
    made.unlink()
    return whole


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 when a file is stale")
    parser.add_argument("--otter", action="store_true", help="also build the autograder")
    parser.add_argument("--graded", metavar="DUE", help="student notebooks with a deadline, under build/graded")
    parser.add_argument("--attempts", type=int, default=6, help="wrong answers that count per question, when graded")
    args = parser.parse_args()
    folder = ROOT / "exercises"
    if args.graded:
        Desk(
            "somebody", graded=True, attempts=args.attempts, due=args.graded
        )  # a wrong date is told now, not to students
        desk = _GRADED.format(attempts=args.attempts, due=args.graded)
        for slug in OBJECTIVES:
            path = ROOT / "build" / "graded" / slug / "student.ipynb"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(student(slug, desk), encoding="utf-8")
        print(f"wrote {len(OBJECTIVES)} notebooks into build/graded, due {args.graded}")
        return 0
    old = stale(folder)
    if args.check:
        for name in old:
            print(f"exercises/{name} is stale; run 'make exercises'", file=sys.stderr)
        return 1 if old else 0
    for name, text in documents().items():
        if name in old:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
            print(f"wrote exercises/{name}")
    if args.otter:
        for slug in OBJECTIVES:
            print(otter_assign(folder / slug / "master.ipynb", ROOT / "build" / "exercises" / slug).relative_to(ROOT))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
