"""What memory finds of our own questions (`tests/data/recall`), beside plain BM25 and plain cosines of the same run.

    python tests/benchmarks/bench_memory_set.py

One row a method: of each kind of question the share that is answered among the first ten. `narrow` is an embedder with
the same cosines drawn together around 0.82. MINILM names all-MiniLM-L6-v2, or a folder of it, to be measured besides.
"""

import os
from collections import Counter

from fit_recall import embedder_named
from recall_set import LANGUAGES, Answers, RecallSet, by_bm25, by_cosine, recall_set, recalled, with_narrow_cosines

OTHER = "openai:some-model"  # no weights were fitted for it


def show(name: str, asked: RecallSet, answers: Answers) -> None:
    """Prints one row."""
    hits, of = asked.hits_by_kind(answers), Counter(each.kind for each in asked.questions)
    by_kind = " ".join(f"{100 * hits[kind] / of[kind]:10.0f}" for kind in of)
    print(f"{name:36} {100 * hits.total() / of.total():6.1f} {by_kind}", flush=True)


def main() -> None:
    """Prints all rows."""
    names = {"wordllama": "wordllama"}
    if model := os.environ.get("MINILM"):
        names["all-MiniLM-L6-v2"] = f"sentence-transformers:{model}"
    embedders = {name: embedder_named(setting) for name, setting in names.items()}
    for language in LANGUAGES:
        asked = recall_set(language)
        kinds = " ".join(f"{kind:>10}" for kind in dict.fromkeys(each.kind for each in asked.questions))
        print(f"{f'{language}: {len(asked.units)} units, {len(asked.questions)} questions':36}  hit@10 {kinds}"[:130])
        show("plain BM25", asked, by_bm25(asked))
        show("lexical", asked, recalled(asked, "", None))
        for name, embedder in embedders.items():
            narrow = with_narrow_cosines(embedder.embed)
            show(f"plain cosines, {name}", asked, by_cosine(asked, embedder.embed, indexed=False))
            show(f"plain cosines of its vectors, {name}", asked, by_cosine(asked, embedder.embed, indexed=True))
            for strategy in ("dense", "hybrid"):
                show(f"{strategy}, {name}", asked, recalled(asked, name, embedder.embed, strategy))
            show(f"hybrid, {name}, as any other", asked, recalled(asked, OTHER, embedder.embed))
            show(f"hybrid, {name} narrow", asked, recalled(asked, OTHER, narrow))


if __name__ == "__main__":
    main()
