"""Long-term memory in one JSON file, and the two tools by which a model uses it."""

import asyncio
import tempfile
from pathlib import Path

from jianmu.memory import MemoryService, SimpleStore


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        service = MemoryService(
            long_term_memory=SimpleStore(db_path=Path(folder) / "memory.json"),
            namespace=("session",),
        )

        # Your code records and looks up ...
        service.add("用户喜欢 Python", key="pref1", metadata={"type": "language"})
        results = service.search("Python", limit=3)
        print(service.format_retrieved(results))

        # ... and so does the model, through its tools. This is what it would call.
        search, add = service.as_tools()
        print(await add.invoke({"content": "The user works best in the morning", "key": "hours"}))
        print(await search.invoke({"query": "When does the user work?"}))

        # A namespace that the model chooses lies below its own: it can neither look nor write beside it.
        print(await search.invoke({"query": "Python", "namespace": ["..", "another session"]}))


asyncio.run(main())
