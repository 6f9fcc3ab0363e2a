"""How wrong the predictors are: errors by row and group, ranges that cover, what simple estimates score, and shipped scores."""

from mlsysim.evidence.scoring.report import (
    GroupScore,
    Report,
    ScoredRow,
    Summary,
    fit,
    predict,
    score,
    score_with,
    summarise,
)

__all__ = ["GroupScore", "Report", "ScoredRow", "Summary", "fit", "predict", "score", "score_with", "summarise"]
