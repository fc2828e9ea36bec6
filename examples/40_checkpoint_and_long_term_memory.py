"""Checkpoint and long-term memory together: the one knows where the agent is, the other what it knows.

Needs the extra ``mem0``. Nothing is sent anywhere: the memories lie in a Chroma folder, found by a local embedder.
"""

import asyncio

from py_trees.common import Status
from py_trees.composites import Sequence
from pydantic import BaseModel

from jianmu import ReactiveRunner, StateManager
from jianmu.behaviours import AsyncBehaviour
from jianmu.memory import FileCheckpointer, Mem0LongTermMemory, MemoryService, keyless_mem0_config
from jianmu.memory.tools import create_memory_tools


class Session(BaseModel):
    stored: str = ""
    found: str = ""


class CallTool(AsyncBehaviour):
    """Calls one tool and keeps its answer in a field of the state."""

    def __init__(self, name, tool, arguments, field):
        super().__init__(name)
        self._tool, self._arguments, self._field = tool, arguments, field

    async def run(self):
        answer = await self.effect(self.name, self._tool.invoke, self._arguments, idempotent=True)
        self.state.update({self._field: answer})
        return Status.SUCCESS


async def main():
    # Checkpoint: the state can be resumed
    checkpointer = FileCheckpointer(".outputs/jianmu/checkpoints")

    # Long-term memory: knowledge across sessions
    ltm = Mem0LongTermMemory(config=keyless_mem0_config(".outputs/jianmu/mem0"), infer=False)
    memory_service = MemoryService(ltm, namespace=("my_agent",))
    memory_tools = memory_service.as_tools()
    assert [tool.name for tool in create_memory_tools(namespace=("my_agent",), long_term_memory=ltm)] == [
        tool.name for tool in memory_tools
    ]

    search, add = memory_tools
    my_tree = Sequence(
        "remember and recall",
        memory=True,
        children=[
            CallTool("remember", add, {"content": "The user prefers Python", "key": "pref1"}, "stored"),
            CallTool("recall", search, {"query": "Which language does the user like?"}, "found"),
        ],
    )
    state_mgr = StateManager(Session)

    # The runner uses both
    runner = ReactiveRunner(root=my_tree, state_manager=state_mgr)
    result = await runner.run(
        checkpointer=checkpointer,
        thread_id="session-42",
        checkpoint_interval=1,
    )
    print(result.status.name, "after step", result.step)
    print(state_mgr.get("stored"))
    print(state_mgr.get("found"))


if __name__ == "__main__":
    asyncio.run(main())
