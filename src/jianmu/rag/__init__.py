"""Finding the right text: embedders, retrievers, rerankers and a knowledge base made of them."""

from jianmu.rag.document import Document, Hit
from jianmu.rag.embedder import CallableEmbedder, Embedder, USEEmbedder
from jianmu.rag.knowledge_base import KnowledgeBase
from jianmu.rag.ranking import BM25, cosine, fuse
from jianmu.rag.reranker import CallableReranker, Reranker
from jianmu.rag.retriever import HybridRetriever, KeywordRetriever, Retriever, VectorRetriever

__all__ = [
    "BM25",
    "CallableEmbedder",
    "CallableReranker",
    "Document",
    "Embedder",
    "Hit",
    "HybridRetriever",
    "KeywordRetriever",
    "KnowledgeBase",
    "Reranker",
    "Retriever",
    "USEEmbedder",
    "VectorRetriever",
    "cosine",
    "fuse",
]
