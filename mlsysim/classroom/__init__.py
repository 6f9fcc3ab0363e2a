"""Teaching tools: sliders, charts and exercises. They show the library's numbers and compute none of their own."""

from mlsysim._lazy import lazily

_HOMES = {
    "Bars": "drawing",
    "Chart": "drawing",
    "Choice": "classroom.sliders",
    "Desk": "classroom.exercises",
    "Line": "drawing",
    "LogSlider": "classroom.sliders",
    "Marks": "drawing",
    "PALETTE": "drawing",
    "Reading": "classroom.readings",
    "Slider": "classroom.sliders",
    "Swings": "drawing",
    "check": "classroom.exercises",
    "draw": "drawing",
    "draw_bars": "classroom.views",
    "draw_swings": "classroom.views",
    "explore": "classroom.sliders",
    "inputs": "classroom.exercises",
    "question": "classroom.exercises",
    "log_space": "drawing",
    "roofline_chart": "classroom.views",
    "worked": "classroom.exercises",
}
__all__ = list(_HOMES)
__getattr__ = lazily(__name__, _HOMES, "mlsysim")


def __dir__() -> list[str]:
    return __all__
