"""One call for sliders: live where a person is, a static view where a machine runs the notebook.

``MLSYSIM_STATIC=1`` (set by the notebook runner and by rendering) shows each view once, at its starting values: a
static page has no kernel, and live widgets can stall notebook runners.
"""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mlsysim.course.readings import Reading, written
from mlsysim.drawing.style import draw, moving
from mlsysim.errors import InputError

Value = float | int | str


class Control:
    """What all sliders share: words, positions, and the way from a value to its position."""

    value: Any
    label: str
    unit: str

    def values(self) -> tuple[Any, ...]:
        """Every value that the slider can take, in order; the notebook, the lab and the page share its positions."""
        raise NotImplementedError

    @property
    def span(self) -> str:
        """Its range, in a few words."""
        raise NotImplementedError

    def widget(self, name: str) -> Any:
        """The widget of a notebook."""
        raise NotImplementedError

    @property
    def position(self) -> int:
        """Where it starts."""
        return self.nearest(self.value)

    def nearest(self, value: Any) -> int:
        """The position of a value, or of the one next to it."""
        values = self.values()
        if value in values:
            return values.index(value)
        if isinstance(value, str) or isinstance(self, Choice):
            raise InputError(f"{type(self).__name__}: {value!r} is none of its values {list(values)[:20]}")
        if not values[0] <= value <= values[-1]:
            raise InputError(f"{type(self).__name__}: {value!r} lies outside [{values[0]:g}, {values[-1]:g}]")
        return min(range(len(values)), key=lambda i: abs(values[i] - value))

    def text(self, value: Any) -> str:
        """A value as a reader wants it."""
        return written(value, self.unit or "1")

    def words(self, name: str) -> str:
        """What the slider sets, in words."""
        return self.label or name.replace("_", " ")


def _whole(*values: float) -> bool:
    """Whether a slider counts: it was given integers, and gives integers."""
    return all(isinstance(v, int) for v in values)


@dataclass(frozen=True)
class Slider(Control):
    """A number between ``low`` and ``high``, moved in steps; given integers, it gives integers."""

    value: float
    low: float
    high: float
    step: float
    label: str = ""
    unit: str = ""

    def __post_init__(self) -> None:
        if not self.low <= self.value <= self.high or self.step <= 0:
            raise InputError(
                f"Slider: value = {self.value} must lie in [{self.low}, {self.high}] and step = {self.step} above 0"
            )
        steps = (self.value - self.low) / self.step
        if abs(steps - round(steps)) > 1e-6:
            raise InputError(
                f"Slider: value = {self.value} is no whole number of steps of {self.step} above {self.low}"
            )

    @property
    def span(self) -> str:
        return f"{self.low:g} to {self.high:g}"

    def values(self) -> tuple[float, ...]:
        n = math.floor((self.high - self.low) / self.step + 1e-9) + 1
        if _whole(self.value, self.low, self.high, self.step):
            return tuple(self.low + i * self.step for i in range(n))
        return tuple(float(f"{self.low + i * self.step:.12g}") for i in range(n))

    def widget(self, name: str) -> Any:
        import ipywidgets

        kind = ipywidgets.IntSlider if _whole(*self.values()) else ipywidgets.FloatSlider
        return kind(
            value=self.value, min=self.low, max=self.high, step=self.step, description=self.words(name), **_STYLE
        )


@dataclass(frozen=True)
class LogSlider(Control):
    """A number between ``low`` and ``high``, moved in equal ratios (``steps`` per factor of ten); given integers, it gives integers."""

    value: float
    low: float
    high: float
    steps: int = 10
    label: str = ""
    unit: str = ""

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.value <= self.high:
            raise InputError(f"LogSlider: value = {self.value} must lie in [{self.low}, {self.high}], and low above 0")

    @property
    def span(self) -> str:
        return f"{self.low:g} to {self.high:g}"

    def values(self) -> tuple[float, ...]:
        """The steps through the starting value, to three digits, and both ends."""
        below = math.floor((math.log10(self.value) - math.log10(self.low)) * self.steps + 1e-9)
        above = math.floor((math.log10(self.high) - math.log10(self.value)) * self.steps + 1e-9)
        grid = [float(f"{self.value * 10 ** (i / self.steps):.3g}") for i in range(-below, above + 1)]
        inner = [v for v in grid if self.low < v < self.high and v != self.value]
        if _whole(self.value, self.low, self.high):
            return tuple(sorted({self.low, self.value, self.high, *(round(v) for v in inner)}))
        return tuple(sorted({float(self.low), float(self.value), float(self.high), *inner}))

    def widget(self, name: str) -> Any:
        import ipywidgets

        options = [(self.text(v), v) for v in self.values()]
        return ipywidgets.SelectionSlider(value=self.value, options=options, description=self.words(name), **_STYLE)


@dataclass(frozen=True)
class Choice(Control):
    """One of several names."""

    value: Any
    options: Sequence[Any]
    label: str = ""
    unit: str = ""
    texts: Mapping[Any, str] | None = None

    def __post_init__(self) -> None:
        if self.value not in self.options:
            raise InputError(f"Choice: value = {self.value!r} must be one of {list(self.options)}")

    @property
    def span(self) -> str:
        return f"one of {len(self.options)}"

    def values(self) -> tuple[Any, ...]:
        return tuple(self.options)

    def text(self, value: Any) -> str:
        said = (self.texts or {}).get(value)
        return said if said is not None else written(value, self.unit or "1")

    def widget(self, name: str) -> Any:
        import ipywidgets

        options = [(self.text(v), v) for v in self.options]
        return ipywidgets.Dropdown(
            value=self.value, options=options, description=self.words(name), style=_STYLE["style"]
        )


_STYLE: dict[str, Any] = {"continuous_update": False, "style": {"description_width": "initial"}}


def is_static() -> bool:
    """Whether views are shown once instead of live."""
    return os.environ.get("MLSYSIM_STATIC", "") not in ("", "0")


def explore(
    view: Callable[..., Reading | None], presets: Mapping[str, Mapping[str, Any]] | None = None, **sliders: Control
) -> None:
    """Show ``view`` under sliders, or once at their starting values when static.

    Parameters
    ----------
    view : function
        Takes one argument per slider, calls the library and returns a :class:`~mlsysim.course.readings.Reading`.
        Values that a combination of sliders makes impossible (a precision the device lacks) are shown as the
        library's message.
    presets : mapping
        Positions worth trying: words, and the values of some sliders.
    sliders : Slider, LogSlider or Choice
        One per argument.
    """
    check_presets(presets or {}, sliders)
    if is_static():
        print("Sliders: " + "; ".join(f"{name} = {_plain(s)} ({s.span})" for name, s in sliders.items()))
        show(view(**{name: s.value for name, s in sliders.items()}))
        return
    import ipywidgets

    widgets = {name: s.widget(name) for name, s in sliders.items()}
    if presets:
        from mlsysim.drawing.style import display

        display(ipywidgets.HBox([_preset_button(text, chosen, sliders, widgets) for text, chosen in presets.items()]))
    ipywidgets.interact(as_shown(view, list(sliders)), **widgets)


def _plain(slider: Control) -> str:
    return str(slider.value) if isinstance(slider, Choice) else format(slider.value, "g")


def check_presets(presets: Mapping[str, Mapping[str, Any]], sliders: Mapping[str, Control]) -> None:
    """That every preset names sliders of the view, at values that they have."""
    for text, chosen in presets.items():
        for name, value in chosen.items():
            if name not in sliders:
                raise InputError(f"presets: {text!r} moves {name!r}, which is none of {', '.join(sliders)}")
            sliders[name].nearest(value)


def _preset_button(
    text: str, chosen: Mapping[str, Any], sliders: Mapping[str, Control], widgets: Mapping[str, Any]
) -> Any:
    import ipywidgets

    def move(_: Any) -> None:
        for name, widget in widgets.items():
            slider = sliders[name]
            widget.value = slider.values()[slider.nearest(chosen.get(name, slider.value))]

    button = ipywidgets.Button(description=text, layout={"width": "auto"})
    button.on_click(move)
    return button


def show(reading: Reading | None) -> None:
    """A reading as a notebook shows it: its drawing, then its numbers."""
    if reading is None:  # the view has printed and drawn for itself
        return
    if reading.drawing is not None:
        draw(reading.drawing)
    print(reading)


def as_shown(view: Callable[..., Reading | None], names: list[str]) -> Callable[..., None]:
    """The view as it follows the sliders: pictures at once, and what cannot be in a sentence."""

    def shown(**values: Any) -> None:
        try:
            with moving():
                show(view(**{n: values[n] for n in names}))
        except (ValueError, KeyError) as error:
            print(error)

    return shown
