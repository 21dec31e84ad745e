"""How fast is evaluate? python benchmarks/evaluate.py [extraction|neighbours|logreg ...]

Questions, each answered by a ratio of two times in one run, in turns:

extraction  features of a batch against a plain forward of the same model (at most 1.05)
neighbours  exact search of 2,000 queries in 100,000 x 192 against faiss-cpu's flat index (at most
            1), and against its matrix products alone (at most 1.5); the neighbours must be equal
logreg      one value of C on 40,000 patches of 21 classes against scikit-learn's solver, with the
            share of equal predictions

Times are those of the processor on one thread (OMP_NUM_THREADS=1), so that other processes do not
count. About a minute in all.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import torch
from turns import best_times

SECONDS = 20.0


def extraction() -> None:
    """Compare reading a layer by hooks with a forward."""
    import timm

    from nearsight.evaluate.features import Tapped

    model = timm.create_model("vit_tiny_patch16_224").eval()
    tapped = Tapped(model, (224, 224))
    images = torch.randn(8, 3, 224, 224)

    def forward() -> None:
        with torch.no_grad():
            model(images)

    def features() -> None:
        tapped.features(images, [12], "block")

    best = best_times({"forward": forward, "features": features}, time.process_time, SECONDS)
    print(f"extraction / forward: {best['features'] / best['forward']:.3f}")


def neighbours() -> None:
    """Compare the exact search with faiss and with the products that it needs."""
    import faiss

    from nearsight.evaluate.solvers import nearest

    generator = torch.Generator().manual_seed(0)
    memory = torch.randn(100_000, 192, generator=generator)
    queries = torch.randn(2_000, 192, generator=generator)
    faiss.omp_set_num_threads(torch.get_num_threads())
    index = faiss.IndexFlatIP(192)
    index.add(memory.numpy())
    out = torch.empty(1024, 1000)

    def products() -> None:
        for asked in queries.T.split(1000, 1):
            for part in memory.split(1024):
                torch.mm(part, asked, out=out[: len(part)])

    timed = {
        "ours": lambda: nearest(memory, queries, 30),
        "faiss": lambda: index.search(queries.numpy(), 30),
        "products": products,
    }
    best = best_times({k: lambda f=f: (f(), None)[1] for k, f in timed.items()},
                      time.process_time, SECONDS)  # fmt: skip
    found, other = nearest(memory, queries, 30)[1].numpy(), index.search(queries.numpy(), 30)[1]
    same = np.mean([len(set(a) & set(b)) / 30 for a, b in zip(found, other)])
    print(f"neighbours / faiss: {best['ours'] / best['faiss']:.3f}, equal {100 * same:.3f} %")
    print(f"neighbours / products: {best['ours'] / best['products']:.3f}")


def logreg() -> None:
    """Compare the regression with scikit-learn's at the same C."""
    from scipy.sparse import csr_array
    from sklearn.linear_model import LogisticRegression

    from nearsight.evaluate.solvers import Examples, LogisticProblem

    random = np.random.RandomState(0)
    num, width, classes = 40_000, 192, 21
    centres = random.randn(classes, width) * 0.25
    labels = random.randint(0, classes, num)
    mixing = random.randn(width, width) / np.sqrt(width)
    features = ((centres[labels] + random.randn(num, width)) @ mixing).astype(np.float32)
    scaled = (features - features.mean(0)) / features.std(0)
    ones = np.ones(num, np.float32)
    targets = csr_array((ones, (np.arange(num), labels)), shape=(num, classes))
    began = time.process_time()
    ours = LogisticProblem(Examples(features, targets, np.arange(num))).fit(0.01)
    middle = time.process_time()
    theirs = LogisticRegression(C=0.01, max_iter=1000).fit(scaled, labels)
    ended = time.process_time()
    same = float((ours.logits(features).argmax(1).numpy() == theirs.predict(scaled)).mean())
    ratio = (middle - began) / (ended - middle)
    print(f"logreg / scikit-learn: {ratio:.3f}, equal predictions {100 * same:.2f} %")


def main() -> None:
    known = {"extraction": extraction, "neighbours": neighbours, "logreg": logreg}
    for name in sys.argv[1:] or known:
        known[name]()


if __name__ == "__main__":
    main()
