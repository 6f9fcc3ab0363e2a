"""The short way to the time of a step: what depends on counts of rows alone is kept, and attention is proportional to what it reads."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from mlsysim._numeric import Num
from mlsysim.inference import Deployment
from mlsysim.inference.work import Work
from mlsysim.serving_steps.batches import Batch

_INFINITE = float("inf")
_KEPT = 1 << 16  # counts of rows of which the times are kept
# Seconds of a step: of answers by the tokens that they attend to, over all keys and in a window; with prompts, by their batch as well.
Seconds = Callable[..., float]


@dataclass(frozen=True)
class ShortCut:
    """Times of steps by counts of prompt tokens, of prompts and of answers: a look-up and three maxima for counts that were met before.

    Attributes
    ----------
    work : Work
        Of the deployment: which share of its layers looks at all keys, and which at a window.
    prompts, answers : sequence of float
        Seconds of a pair of query and key, of a token that is read, and of the start, over all layers.
    rest : function
        Of a batch without attention: seconds on the device, on the host beside launches, and of the launches, under which the device
        may hide.
    long : function
        The whole way, which also says what is wrong with a batch.
    parts : bool
        Whether less than one prompt, or sequence, takes its part of the time.
    """

    work: Work
    prompts: Sequence[float]
    answers: Sequence[float]
    rest: Callable[[Batch], tuple[float, float, float]]
    long: Callable[[Batch], Num]
    parts: bool
    _known: dict[tuple[Num, Num, Num], Seconds] = field(default_factory=dict, repr=False, compare=False)

    @staticmethod
    def bare(deployment: Deployment) -> Deployment:
        """The same without the keys that are met in any case: what the times of a unit and of the rest are taken from."""
        return replace(deployment, work=replace(deployment.work, always=0.0))

    @staticmethod
    def unit(work: Work) -> Batch:
        """A prompt and an answer of one pair and one token read in the mean layer."""
        pairs, read = (1.0 / (far + work.windowed) for far in work.far)
        return Batch(
            prefill_pairs=pairs, prefill_read=read, prefills=1.0, decodes=1.0, context=read,
            windowed_pairs=pairs, windowed_read=read, windowed_context=read,
        )  # fmt: skip

    def time(self, batch: Batch) -> Num:
        """Seconds of a step over the batch."""
        try:
            seconds = self.of(batch.prefill_tokens, batch.prefills, batch.decodes)
            return seconds(batch.context, batch.windowed_context, batch)
        except (TypeError, ValueError):  # arrays
            return self.long(batch)

    def of(self, tokens: Num, prompts: Num, answers: Num) -> Seconds:
        """Seconds of steps with these counts of new prompt tokens, of prompts and of answers."""
        key = (tokens, prompts, answers)
        if (known := self._known.get(key)) is None:
            known = self._of(Batch(prefill_tokens=tokens, prefills=prompts, decodes=answers))
            if len(self._known) < _KEPT:
                self._known[key] = known
        return known

    def _of(self, counts: Batch) -> Seconds:
        device, host, launches = self.rest(counts)
        (_, all_read), near, prompt_pairs = self.work.far, self.work.windowed, self.work.prompt_pairs
        (pair, token, begin_prompts), (one, other, begin) = self.prompts, self.answers
        always = self.work.always
        prompted = always * counts.prefill_tokens
        slope, prompts = one if one > other else other, counts.prefills
        some_prompts, some = (min(1.0, n) if self.parts else float(n > 0.0) for n in (prompts, counts.decodes))

        def seconds(context: float, windowed: float, batch: Batch | None = None) -> float:
            busy, fine = device, context >= 0.0 <= windowed
            if prompts and batch is not None:
                pairs = prompt_pairs(batch.prefill_pairs, batch.windowed_pairs) + prompted
                read = all_read * batch.prefill_read + near * batch.windowed_read + always * prompts
                fine = fine and pairs >= 0.0 <= read
                compute, memory = pairs * pair, read * token
                busy += some_prompts * (begin_prompts + (compute if compute > memory else memory))
            busy += some * (begin + (all_read * context + near * windowed + always * counts.decodes) * slope)
            if fine and 0.0 <= busy < _INFINITE:
                return host + (busy if busy > launches else launches)
            return float(self.long(batch or replace(counts, context=context, windowed_context=windowed)))

        return seconds
