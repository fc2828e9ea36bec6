"""Parts that find text: embedders, retrievers, rerankers and rankings."""
