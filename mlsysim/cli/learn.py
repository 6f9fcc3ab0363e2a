"""``mlsysim learn``: the exercises at a prompt; progress stays, and the notebook to hand in comes out."""

import argparse
from pathlib import Path

from mlsysim.cli.arguments import Commands
from mlsysim.course.exercises import exercise
from mlsysim.course.exercises.learning import Learner, chapter, starter
from mlsysim.errors import InputError
from mlsysim.files import check_writable


def _learn(args: argparse.Namespace) -> None:
    what, answers = args.what, (args.answer is not None) + (args.file is not None) + args.hint
    if answers > 1 or (answers and (what is None or "." not in what)):
        raise InputError("ANSWER, --file and --hint go one at a time with a question, as in: mlsysim learn 01.7 '41 s'")
    learner = Learner(args.student, args.log)
    if what is None or "." not in what:
        _chapter(learner, chapter(what) if what else "", args.notebook)
        return
    if args.notebook:
        raise InputError("--notebook goes with a chapter, as in: mlsysim learn 01 --notebook ada.ipynb")
    e = exercise(what)
    whose = f" --student {learner.student}" if args.student else ""
    if args.hint:
        print(learner.hint(e.id))
    elif args.answer is not None or args.file:
        feedback = (
            learner.answer(e.id, args.answer) if args.answer is not None else learner.answer_file(e.id, args.file)
        )
        print(feedback)
        if not feedback:
            print(f"hint: mlsysim learn {e.id} --hint{whose}")
    else:
        g = e.draw(learner.student)
        print(e.question(g), g, sep="\n\n", end="\n\n")
        if e.form in ("function", "data"):
            print(f"Begin a file with:\n\n{starter(e)}\n\nanswer: mlsysim learn {e.id} --file FILE.py{whose}")
        else:
            print(f"answer: mlsysim learn {e.id} 'YOUR ANSWER'{whose}")


def _chapter(learner: Learner, slug: str, notebook: str | None) -> None:
    if notebook and not slug:
        raise InputError("--notebook goes with a chapter, as in: mlsysim learn 01 --notebook ada.ipynb")
    if notebook:
        check_writable(Path(notebook), "notebook")
        Path(notebook).write_text(learner.notebook(slug), encoding="utf-8")
        print(f"{notebook}: {slug} of {learner.student}, to hand in")
        return
    print(f"{learner.student}, kept in {learner.log}", learner.progress(slug), sep="\n\n")


def add(commands: Commands) -> None:
    """Register the command of this module."""
    p = commands.add_parser("learn")
    p.add_argument(
        "what",
        nargs="?",
        metavar="WHAT",
        help="a chapter, as in 01, or a question, as in 01.7; none lists the chapters",
    )
    p.add_argument(
        "answer", nargs="?", metavar="ANSWER", help="your answer, with its unit, as in '41 s', or one of the words"
    )
    p.add_argument(
        "--file", metavar="FILE.py", help="a file of yours that assigns answer, where something made is asked for"
    )
    p.add_argument(
        "--hint", action="store_true", help="a question back, then the relation to use, then the worked route"
    )
    p.add_argument(
        "--notebook", metavar="FILE.ipynb", help="write the notebook of a chapter to hand in, with your answers"
    )
    p.add_argument("--student", metavar="ID", help="your id, which draws your numbers (default: who answered last)")
    p.add_argument("--log", metavar="FILE.jsonl", help="where your attempts are kept (default: in your home folder)")
    p.set_defaults(run=_learn)
