"""Takes a snapshot of a tree and puts it back."""

from jianmu.runtime.restore.apply import TreeRestorer
from jianmu.runtime.restore.codecs import NodeCodec, register_codec
from jianmu.runtime.restore.paths import node_paths, structure_digest
from jianmu.runtime.restore.policy import RestorePolicy
from jianmu.runtime.restore.report import RestoreProblem, RestoreReport
from jianmu.runtime.restore.snapshot import TreeRecorder, TreeSnapshot
from jianmu.runtime.restore.verify import verify_restorable

__all__ = [
    "NodeCodec",
    "RestorePolicy",
    "RestoreProblem",
    "RestoreReport",
    "TreeRecorder",
    "TreeRestorer",
    "TreeSnapshot",
    "node_paths",
    "register_codec",
    "structure_digest",
    "verify_restorable",
]
