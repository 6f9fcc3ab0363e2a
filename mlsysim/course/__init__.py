"""Teaching tools: sliders, charts and exercises. They show the library's numbers and compute none of their own."""

from mlsysim._lazy import lazily

_HOMES = {
    "Bars": "drawing",
    "Chart": "drawing",
    "Choice": "course.sliders",
    "Desk": "course.exercises",
    "Learner": "course.exercises.learning",
    "Line": "drawing",
    "LogSlider": "course.sliders",
    "Marks": "drawing",
    "PALETTE": "drawing",
    "Reading": "course.readings",
    "Slider": "course.sliders",
    "TornadoChart": "drawing",
    "check": "course.exercises",
    "draw": "drawing",
    "explore": "course.sliders",
    "inputs": "course.exercises",
    "question": "course.exercises",
    "log_space": "drawing",
    "roofline_chart": "course.views",
    "worked": "course.exercises",
}
__all__ = list(_HOMES)
__getattr__, __dir__ = lazily(__name__, _HOMES, "mlsysim")
