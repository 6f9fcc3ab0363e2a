"""One call for sliders: live where a person is, a static view where a machine runs the notebook.

``MLSYSIM_STATIC=1`` (set by the notebook runner and by rendering) shows each view once, at its starting values: a
static page has no kernel, and live widgets can stall notebook runners.
"""

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from mlsysim.drawing.style import moving
from mlsysim.errors import InputError


@dataclass(frozen=True)
class Slider:
    """A number between ``low`` and ``high``, moved in steps."""

    value: float
    low: float
    high: float
    step: float

    def __post_init__(self) -> None:
        if not self.low <= self.value <= self.high or self.step <= 0:
            raise InputError(
                f"Slider: value = {self.value} must lie in [{self.low}, {self.high}] and step = {self.step} above 0"
            )

    @property
    def span(self) -> str:
        return f"{self.low:g} to {self.high:g}"

    def widget(self, name: str) -> Any:
        import ipywidgets

        return ipywidgets.FloatSlider(
            value=self.value, min=self.low, max=self.high, step=self.step, description=name, **_STYLE
        )


@dataclass(frozen=True)
class LogSlider:
    """A number between ``low`` and ``high``, moved in equal ratios (``steps`` per factor of ten)."""

    value: float
    low: float
    high: float
    steps: int = 10

    def __post_init__(self) -> None:
        if not 0 < self.low <= self.value <= self.high:
            raise InputError(f"LogSlider: value = {self.value} must lie in [{self.low}, {self.high}], and low above 0")

    @property
    def span(self) -> str:
        return f"{self.low:g} to {self.high:g}"

    def _first_step(self) -> float:
        """The lowest exponent on the grid of steps through ``value``: a widget counts its steps from there."""
        steps_down = math.floor((math.log10(self.value) - math.log10(self.low)) * self.steps + 1e-9)
        return math.log10(self.value) - steps_down / self.steps

    def widget(self, name: str) -> Any:
        import ipywidgets

        return ipywidgets.FloatLogSlider(
            value=self.value,
            min=self._first_step(),
            max=math.log10(self.high),
            step=1 / self.steps,
            description=name,
            readout_format=".3g",
            **_STYLE,
        )


@dataclass(frozen=True)
class Choice:
    """One of several names."""

    value: str
    options: Sequence[str]

    def __post_init__(self) -> None:
        if self.value not in self.options:
            raise InputError(f"Choice: value = {self.value!r} must be one of {list(self.options)}")

    @property
    def span(self) -> str:
        return f"one of {len(self.options)}"

    def widget(self, name: str) -> Any:
        import ipywidgets

        return ipywidgets.Dropdown(
            value=self.value, options=list(self.options), description=name, style=_STYLE["style"]
        )


_STYLE: dict[str, Any] = {"continuous_update": False, "style": {"description_width": "initial"}}


def is_static() -> bool:
    """Whether views are shown once instead of live."""
    return os.environ.get("MLSYSIM_STATIC", "") not in ("", "0")


def explore(view: Callable[..., None], **sliders: Slider | LogSlider | Choice) -> None:
    """Show ``view`` under sliders, or once at their starting values when static.

    Parameters
    ----------
    view : function
        Takes one argument per slider, calls the library, prints the numbers and draws the chart. Values that a
        combination of sliders makes impossible (a precision the device lacks) are shown as the library's message.
    sliders : Slider, LogSlider or Choice
        One per argument.
    """
    if is_static():
        print(
            "Sliders: "
            + "; ".join(
                f"{name} = {s.value if isinstance(s, Choice) else format(s.value, 'g')} ({s.span})"
                for name, s in sliders.items()
            )
        )
        # A live slider gives a float even where its steps are whole numbers; so does this, or a notebook would break only live
        view(**{name: s.value if isinstance(s, Choice) else float(s.value) for name, s in sliders.items()})
        return
    import ipywidgets

    ipywidgets.interact(as_shown(view, list(sliders)), **{name: s.widget(name) for name, s in sliders.items()})


def as_shown(view: Callable[..., None], names: list[str]) -> Callable[..., None]:
    """The view as it follows the sliders: pictures at once, and what cannot be in a sentence."""

    def shown(**values: Any) -> None:
        try:
            with moving():
                view(**{n: values[n] for n in names})
        except (ValueError, KeyError) as error:
            print(error)

    return shown
