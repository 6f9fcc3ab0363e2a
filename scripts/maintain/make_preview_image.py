"""The picture that a link to the book shows (``book/assets/preview.png``, 1200 by 630): python scripts/maintain/make_preview_image.py"""

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from mlsysim.course import pictures

OUT = Path(__file__).resolve().parents[2] / "book" / "assets" / "preview.png"


def main() -> None:
    figure = plt.figure(figsize=(12, 6.3), dpi=100, facecolor="#ffffff")
    left, right = figure.subfigures(1, 2, width_ratios=(5, 7))
    left.text(0.1, 0.66, "mlsysim", size=44, weight="bold", family="serif")
    left.text(0.1, 0.54, "a textbook that runs", size=24, family="serif")
    left.text(0.1, 0.3, "How fast, how big, how costly and how carbon-intensive\na machine-learning system will be,\nbefore anyone buys one", size=15, linespacing=1.5)  # fmt: skip
    pictures.journey().paint(right)
    figure.savefig(OUT, metadata={"Software": None})


if __name__ == "__main__":
    main()
