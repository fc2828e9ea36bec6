"""Opening Mem0: the library on this machine, the hosted platform, and a set-up that needs neither key nor network."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from jianmu._extras import extra
from jianmu.errors import ConfigurationError, LongTermMemoryError
from jianmu.rag.embedder import USEEmbedder

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from jianmu.rag.embedder import Embedder

_logger = logging.getLogger(__name__)

_NO_MODEL = "keyless"
_WAY_OUT = (
    "Set OPENAI_API_KEY, name another provider in the configuration, or use "
    "Mem0LongTermMemory(config=keyless_mem0_config(folder), infer=False), which needs no key"
)


def keyless_mem0_config(directory: str | os.PathLike[str], embedder: Embedder | None = None) -> dict[str, Any]:
    """Configure Mem0 to work without any key and without the network.

    Chroma keeps the vectors in the folder, a local embedder makes them, Mem0's own files go into the folder too. There
    is no language model in it, so it is used with ``infer=False``.

    Args:
        directory: the folder; created if missing.
        embedder: what turns text into vectors; `USEEmbedder` unless given. Each embedder has its own collection in the
            folder, since vectors of different embedders cannot be compared.

    Returns:
        A new Mem0 configuration, to be changed as you like.

    Raises:
        MissingExtraError: the extra ``mem0``, or ``local`` for the default embedder, is not installed.

    Example:
        >>> memory = Mem0LongTermMemory(config=keyless_mem0_config("memory"), infer=False)  # doctest: +SKIP
    """
    chosen = USEEmbedder() if embedder is None else embedder
    root = Path(directory)
    root.mkdir(parents=True, exist_ok=True)
    name = re.sub(r"[^a-zA-Z0-9]+", "-", f"jianmu-{chosen.name}-{chosen.dimension}")
    return {
        "vector_store": {"provider": "chroma", "config": {"collection_name": name, "path": str(root / "chroma")}},
        "embedder": {
            "provider": "langchain",
            "config": {"model": _langchain_embeddings(chosen), "embedding_dims": chosen.dimension},
        },
        "llm": {"provider": "openai", "config": {"api_key": _NO_MODEL}},
        "history_db_path": str(root / "history.db"),
    }


def open_local(config: Mapping[str, Any] | None, *, infer: bool) -> Any:
    """Open Mem0's library.

    Raises:
        ConfigurationError: a part of the configuration needs an OpenAI key and there is none.
        MissingExtraError: mem0ai is not installed.
    """
    prepared = _with_keys(config or {}, infer=infer)
    history = prepared.get("history_db_path")
    with extra("mem0"), _quiet_import(Path(history).parent if history else None):
        from mem0 import Memory
    return Memory.from_config(prepared) if prepared else Memory()


def open_hosted(api_key: str, host: str | None) -> Any:
    """Open a client of the hosted platform; this asks the platform whether the key is good.

    Raises:
        ConfigurationError: the platform refuses the key.
        LongTermMemoryError: the platform cannot be reached.
        MissingExtraError: mem0ai is not installed.
    """
    with extra("mem0"), _quiet_import(None):
        from mem0 import MemoryClient
    try:
        return MemoryClient(api_key=api_key, host=host)
    except ValueError as error:
        raise ConfigurationError(f"the Mem0 platform refused the api_key: {error}") from error
    except Exception as error:
        raise LongTermMemoryError(f"cannot reach the Mem0 platform: {error}") from error


def wait_for_event(client: Any, event_id: str, seconds: float) -> dict[str, Any] | None:
    """Wait until the hosted platform has finished a write.

    Returns:
        The finished event, or None when the time is over.

    Raises:
        LongTermMemoryError: the write failed.
    """
    deadline, pause = time.monotonic() + seconds, 0.05
    while True:
        event = _ask_for_event(client, event_id)
        status = str(event.get("status")).upper()
        if status == "SUCCEEDED":
            return event
        if status == "FAILED":
            raise LongTermMemoryError(f"the Mem0 platform could not store the memory (event {event_id}): {event}")
        if time.monotonic() + pause > deadline:
            return None
        time.sleep(pause)
        pause = min(pause * 1.5, 1.0)


def _ask_for_event(client: Any, event_id: str) -> dict[str, Any]:
    try:
        return client.client.get(f"/v1/event/{event_id}/").raise_for_status().json()
    except Exception:  # the write was accepted; that a question failed says nothing about it
        _logger.warning("cannot ask the Mem0 platform about event %s", event_id, exc_info=True)
        return {}


def require_model(client: Any) -> None:
    """Raise ConfigurationError if a Mem0 has no language model, before it sends text to one with a key that is none."""
    _require_model(getattr(getattr(getattr(client, "config", None), "llm", None), "config", None))


def _require_model(llm_config: Any) -> None:
    if isinstance(llm_config, dict) and cast("dict[str, Any]", llm_config).get("api_key") == _NO_MODEL:
        raise ConfigurationError(f"infer=True needs a language model and there is no key for one. {_WAY_OUT}")


def _with_keys(config: Mapping[str, Any], *, infer: bool) -> dict[str, Any]:
    """Copy a configuration, after making sure that Mem0 will find the keys it looks for."""
    prepared: dict[str, Any] = _copied(dict(config))
    if not _has_key(prepared.get("embedder") or {}):
        raise ConfigurationError(f"Mem0 would embed text with OpenAI and there is no key. {_WAY_OUT}")
    llm: dict[str, Any] = prepared.get("llm") or {}
    if not _has_key(llm):
        # Mem0 makes its model at once, used or not, and does not do so without any key.
        llm = {"provider": "openai", **llm, "config": {**(llm.get("config") or {}), "api_key": _NO_MODEL}}
        prepared["llm"] = llm
    if infer:
        _require_model(llm.get("config"))
    return prepared


def _copied(section: Any) -> Any:
    """Copy the dicts, which Mem0 changes, and no object in them."""
    if not isinstance(section, dict):
        return section
    return {name: _copied(value) for name, value in cast("dict[str, Any]", section).items()}


def _has_key(section: dict[str, Any]) -> bool:
    given: dict[str, Any] = section.get("config") or {}
    return section.get("provider", "openai") != "openai" or bool(
        given.get("api_key") or os.environ.get("OPENAI_API_KEY")
    )


@contextlib.contextmanager
def _quiet_import(directory: Path | None) -> Generator[None]:
    """Import Mem0, which reads these variables once, with telemetry off unless the user turned it on."""
    if "mem0" in sys.modules:
        if "MEM0_TELEMETRY" not in os.environ and getattr(
            sys.modules.get("mem0.memory.telemetry"), "MEM0_TELEMETRY", 0
        ):
            _logger.warning("mem0 was imported before Jianmu could turn its telemetry off; set MEM0_TELEMETRY=False")
        yield
        return
    ours = {"MEM0_TELEMETRY": "False"} | ({} if directory is None else {"MEM0_DIR": str(directory.resolve())})
    added = {name: value for name, value in ours.items() if name not in os.environ}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)


def _langchain_embeddings(embedder: Embedder) -> Any:
    with extra("mem0"):
        from langchain.embeddings.base import Embeddings  # where Mem0 takes it from, to check ours against it

    class EmbedderAsEmbeddings(Embeddings):
        def embed_documents(self, texts: list[str]) -> list[list[float]]:
            return [[float(number) for number in vector] for vector in embedder.embed_documents(texts)]

        def embed_query(self, text: str) -> list[float]:
            return [float(number) for number in embedder.embed_query(text)]

    return EmbedderAsEmbeddings()
