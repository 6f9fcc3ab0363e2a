"""What one step of a server works on, in the sums that its time depends on."""

from collections.abc import Iterable
from dataclasses import dataclass

from mlsysim._numeric import Num, minimum
from mlsysim.catalog.shapes import Model
from mlsysim.errors import InputError
from mlsysim.serving_steps.equations import chunk_pairs

_INFINITE = float("inf")


@dataclass(frozen=True)
class Batch:
    """The scheduled work of one step. Counts of tokens, floats or arrays; build one with :meth:`of` or by its sums.

    A prompt may be worked on in chunks: a chunk has ``new`` tokens, and ``cached_len`` tokens of its sequence are cached.
    A query attends to what precedes it and to itself. The ``windowed_`` sums are those of layers with a sliding window.
    """

    prefill_tokens: Num = 0.0  # new prompt tokens of all chunks
    prefill_pairs: Num = 0.0  # query-key pairs of all chunks
    prefill_read: Num = 0.0  # tokens whose keys and values the chunks read: cached_len + new
    prefills: Num = 0.0  # chunks
    decodes: Num = 0.0  # running sequences, one new token each
    context: Num = 0.0  # tokens that they attend to, summed, the new ones included
    windowed_pairs: Num = 0.0
    windowed_read: Num = 0.0
    windowed_context: Num = 0.0

    @property
    def tokens(self) -> Num:
        """Rows of the matrix products."""
        return self.prefill_tokens + self.decodes

    @property
    def sequences(self) -> Num:
        """Rows of the head: one per chunk and per running sequence."""
        return self.prefills + self.decodes

    @staticmethod
    def steady(concurrency: float, input_len: float, output_len: float) -> "Batch":
        """The mean step of a server that is full of equal requests at every stage, each followed by another's prompt.

        A request takes ``output_len - 1`` steps, since its first token comes from its prompt; in the mean step each running one
        attends to ``input_len + output_len / 2`` tokens, and ``concurrency / (output_len - 1)`` prompts are computed.

        Raises
        ------
        InputError
            No request, no prompt, or an answer of fewer than two tokens.

        Assumptions: no layer has a sliding window.

        >>> Batch.steady(concurrency=64, input_len=1000, output_len=201).prefill_tokens
        320.0
        """
        for name, value, least in (
            ("concurrency", concurrency, 1),
            ("input_len", input_len, 1),
            ("output_len", output_len, 2),
        ):
            if not least <= value < _INFINITE:
                raise InputError(f"Batch.steady: {name} = {value!r} is outside [{least}, inf)")
        begun = concurrency / (output_len - 1)
        pairs, context = begun * input_len * (input_len + 1) / 2, concurrency * (input_len + output_len / 2)
        return Batch(
            prefill_tokens=begun * input_len,
            prefill_pairs=pairs,
            prefill_read=begun * input_len,
            prefills=begun,
            decodes=float(concurrency),
            context=context,
            windowed_pairs=pairs,
            windowed_read=begun * input_len,
            windowed_context=context,
        )

    @staticmethod
    def of(model: Model, prefills: Iterable[tuple[float, float]] = (), decodes: Iterable[float] = ()) -> "Batch":
        """The sums of chunks ``(new, cached_len)`` and of running sequences' contexts (the new token included).

        Raises
        ------
        InputError
            A chunk without new tokens, a negative cached_len, or a context that does not hold the new token.

        >>> from mlsysim import catalog
        >>> b = Batch.of(catalog.model("Llama-2-7B"), prefills=[(100, 0)], decodes=[500, 300])
        >>> b.tokens, b.prefill_pairs, b.context
        (102, 5050.0, 800)
        """
        chunks, contexts = list(prefills), list(decodes)
        for new, cached_len in chunks:
            if not (0 < new < _INFINITE and 0 <= cached_len < _INFINITE):
                raise InputError(
                    f"Batch.of: prefills has the chunk ({new!r}, {cached_len!r}); give (new, cached_len) with new in (0, inf) and cached_len in "
                    "[0, inf), both in tokens"
                )
        for seen in contexts:
            if not 1 <= seen < _INFINITE:
                raise InputError(
                    f"Batch.of: decodes has the context {seen!r} outside [1, inf); count the new token as well"
                )
        window = model.reach or _INFINITE
        return Batch(
            prefill_tokens=sum(new for new, _ in chunks),
            prefill_pairs=sum(chunk_pairs(new, cached_len) for new, cached_len in chunks),
            prefill_read=sum(new + cached_len for new, cached_len in chunks),
            prefills=len(chunks),
            decodes=len(contexts),
            context=sum(contexts),
            windowed_pairs=sum(
                _seen(cached_len + new, window) - _seen(cached_len, window) for new, cached_len in chunks
            ),
            windowed_read=sum(new + minimum(cached_len, window) for new, cached_len in chunks),
            windowed_context=sum(minimum(c, window) for c in contexts),
        )


def _seen(tokens: Num, window: float) -> Num:
    """Query-key pairs of the first tokens of a sequence whose queries see at most ``window`` keys."""
    short = minimum(tokens, window)
    return chunk_pairs(short, 0.0) + ((tokens - short) * window if window < _INFINITE else 0.0)
