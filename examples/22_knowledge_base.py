"""A knowledge base: documents in, answers out; by words, or by meaning when it has an embedder."""

from jianmu.rag import CallableEmbedder, CallableReranker, Document, KnowledgeBase

documents = [
    Document("Green tea is brewed at 80 degrees for two minutes.", id="green"),
    Document("Black tea wants boiling water and four minutes.", id="black"),
    Document("绿茶产自杭州，最好用玻璃杯冲泡。", id="hangzhou"),
]

# By words (BM25): Chinese, too, without a dictionary.
base = KnowledgeBase()
base.add(documents)
print([hit.document.id for hit in base.search("how hot is boiling water?")])
print([hit.document.id for hit in base.search("杭州的绿茶")])
print(base.search("coffee"))


# By words and by meaning. Any function from texts to vectors will do; a real one comes from a model.
def embed(texts: list[str]) -> list[list[float]]:
    topics = [("green", "绿"), ("black", "红"), ("hot", "degrees", "boiling")]
    return [[float(any(word in text.lower() for word in topic)) for topic in topics] for text in texts]


base = KnowledgeBase(
    embedder=CallableEmbedder(embed, dimension=3),
    reranker=CallableReranker(lambda _query, text: -len(text)),  # of what was found, the shortest first
)
base.add(documents)
print([hit.document.id for hit in base.search("绿", limit=2)])
