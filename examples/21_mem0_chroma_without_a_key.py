"""Memory that finds by meaning: Mem0 with Chroma on disk and a local embedder. No key, no network.

Needs the extras ``mem0`` and ``local``.
"""

import logging
import tempfile
from pathlib import Path

from jianmu.memory import Mem0LongTermMemory, MemoryService
from jianmu.memory.long_term import keyless_mem0_config

logging.getLogger("mem0").setLevel(logging.ERROR)  # it warns of optional parts that this set-up does not use

with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
    # infer=False stores the text as it is; extracting facts from it (infer=True) takes a language model.
    ltm = Mem0LongTermMemory(config=keyless_mem0_config(Path(folder) / "mem0"), infer=False)
    memory = MemoryService(ltm, namespace=("my_agent",))

    memory.add("用户喜欢喝绿茶", key="drink", metadata={"type": "taste", "tags": ["hot", "green"]})
    memory.add("The user has a cat called Momo", key="pet")
    memory.add("The deployment runs every Friday at noon", key="deploy")

    for question in ("What does the user like to drink?", "宠物叫什么名字", "when do we release?"):
        print(question, "->", memory.search(question, limit=1)[0]["content"])

    # Another namespace knows nothing of it.
    print(MemoryService(ltm, namespace=("another_agent",)).search("green tea"))
    ltm.close()
