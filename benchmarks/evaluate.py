"""Compare the times of parts of evaluate with those of other implementations.

    python benchmarks/evaluate.py [extraction memory ...] [--weights FILE]

Each part is a ratio of two times in one run, measured in turns:

extraction  features of a batch against a plain forward of the same model (at most 1.05)
memory      peak memory of extracting 192 images against that of 48 (about 1)
neighbours  exact search of 2,000 queries in 100,000 x 192 against faiss-cpu's flat index (at most
            1), and against its matrix products alone; the neighbours must be equal
voc         searching, voting and scoring 20 images of 196 patches with a memory of 287,000 x 192,
            against the matrix products of the search alone (at most 1.5)
logreg      one value of C on 40,000 patches of 21 classes against scikit-learn's solver, with the
            share of equal predictions, and whether a second fit has the same bytes
head        20,000 steps of the locat head at its cached scale, from 40 of them (at most 30 minutes)
voc-logreg  with --weights FILE: one value of C on the patches of VOC 2012 (in NEARSIGHT_DATA) for a
            ViT-Ti (at most 3 minutes), its mIoU against that of scikit-learn's solver (within 0.05
            points); --images N takes N training and N val images instead of all

Times are CPU times of one thread (OMP_NUM_THREADS=1), which other processes hardly change. All
parts but voc-logreg take about three minutes together; voc-logreg runs only with --weights.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from turns import best_times

SECONDS = 20.0
VOC_MEMORY, VOC_IMAGES, VOC_CLASSES = 287_000, 20, 21


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


def memory() -> None:
    """Compare the peak memory of extracting few and many images."""
    few, many = (_in_a_process(_peak_of_extraction, num) for num in (48, 192))
    print(f"memory: {many:.0f} MB for 192 images, {few:.0f} MB for 48, {many / few:.3f}")


def _in_a_process(function: Callable[[int], float], number: int) -> float:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, (number,))


def _peak_of_extraction(num: int) -> float:
    import timm
    from PIL import Image

    from nearsight.data.input import Preprocessing
    from nearsight.evaluate.features import (
        FeatureCache,
        Need,
        Preparation,
        Split,
        extract_features,
        subject_of,
    )

    subject = subject_of(timm.create_model("vit_tiny_patch16_224"), "random")
    grey = Image.new("RGB", (224, 224), (90, 90, 90))
    names = tuple(map(str, range(num)))
    split = Split("grey", "train", f"grey {num}", names, ("a",), lambda number: grey)
    steps = Preparation(Preprocessing("benchmark", (224, 224), (224, 224)))
    with tempfile.TemporaryDirectory() as folder:
        need = Need(subject, split, steps, 12, "block")
        extract_features([need], FeatureCache(Path(folder)), batch_size=16)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


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


def voc() -> None:
    """Compare Hummingbird on VOC with the products of its search, for some of the images."""
    from scipy.sparse import csr_array

    from nearsight.evaluate.solvers import nearest

    generator = torch.Generator().manual_seed(0)
    memory = torch.randn(VOC_MEMORY, 192, generator=generator).half().numpy()
    queries = torch.randn(VOC_IMAGES * 196, 192, generator=generator).half().numpy()
    random = np.random.RandomState(0)
    ones = np.ones(VOC_MEMORY, np.float32)
    classes = random.randint(0, VOC_CLASSES, VOC_MEMORY)
    shares = csr_array((ones, (np.arange(VOC_MEMORY), classes)))
    masks = random.randint(0, VOC_CLASSES, (VOC_IMAGES, 224, 300)).astype(np.uint8)

    def score() -> None:
        from nearsight.evaluate.tasks.segmentation.segmentation_scores import (
            boundary_matrix,
            confusion_matrix,
            predicted_labels,
        )

        cosines, found = nearest(memory, queries, 30, by="cosine")
        weights = (cosines / 0.02).softmax(-1).numpy()
        for number, mask in enumerate(masks):
            rows = slice(number * 196, (number + 1) * 196)
            starts = np.arange(197) * 30
            parts = (weights[rows].ravel(), found[rows].numpy().ravel(), starts)
            votes = (csr_array(parts, shape=(196, VOC_MEMORY)) @ shares).toarray()
            maps = torch.from_numpy(votes).T.unflatten(1, (14, 14))
            predicted = predicted_labels(maps, mask.shape)
            confusion_matrix(mask, predicted, VOC_CLASSES)
            boundary_matrix(mask, predicted, VOC_CLASSES)

    floats = torch.from_numpy(memory).float()
    asked = [x.to_mkldnn() for x in torch.from_numpy(queries).float().split(1024)]

    def products() -> None:
        for weight in asked:
            for part in floats.split(1024):
                F.linear(part.to_mkldnn(), weight).to_dense()

    best = best_times({"score": score, "products": products}, time.process_time, SECONDS)
    whole = 1449 / VOC_IMAGES * best["score"] / 60
    print(f"voc / products: {best['score'] / best['products']:.3f}, {whole:.1f} minutes for all")


def logreg() -> None:
    """Compare the regression with scikit-learn's at the same C."""
    from scipy.sparse import csr_array
    from sklearn.linear_model import LogisticRegression

    from nearsight.evaluate.solvers import LabelledRows, LogisticProblem

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
    rows = LabelledRows(features, targets, np.arange(num))
    ours = LogisticProblem(rows).fit(0.01)
    middle = time.process_time()
    theirs = LogisticRegression(C=0.01, max_iter=1000).fit(scaled, labels)
    ended = time.process_time()
    same = float((ours.logits(features).argmax(1).numpy() == theirs.predict(scaled)).mean())
    ratio = (middle - began) / (ended - middle)
    again = LogisticProblem(rows).fit(0.01)
    equal = ours.weight.tobytes() == again.weight.tobytes()
    print(
        f"logreg / scikit-learn: {ratio:.3f}, equal predictions {100 * same:.2f} %, "
        f"{'the same' if equal else 'OTHER'} bytes when repeated"
    )


def head() -> None:
    """Time some steps of the locat head on cached features."""
    from nearsight.evaluate.solvers import train_head
    from nearsight.evaluate.tasks.segmentation.trained_heads import RECIPES

    recipe, steps = RECIPES["locat"], 40
    features = np.random.RandomState(0).randn(1464, 196, 192).astype(np.float16)
    labels = np.random.RandomState(1).randint(0, VOC_CLASSES, (1464, 28, 28)).astype(np.uint8)

    def batch(chosen: list[int], mirrored: bool, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        rows = torch.from_numpy(features[chosen].astype(np.float32))
        return (
            rows.unflatten(1, (14, 14)).permute(0, 3, 1, 2).contiguous(),
            torch.from_numpy(labels[chosen].astype(np.int64)),
        )

    began = time.process_time()
    train_head(recipe, batch, 1464, 192, VOC_CLASSES, steps=steps)
    minutes = (time.process_time() - began) / steps * recipe.steps / 60
    print(f"head: {minutes:.1f} minutes for {recipe.steps:,} steps of {recipe.batch} images")


def voc_logreg(weights: Path, num: int | None) -> None:
    """Compare the regression on VOC with scikit-learn's at the same C."""
    from sklearn.linear_model import LogisticRegression

    from nearsight.evaluate.benches import Settings, plan_benches
    from nearsight.evaluate.features import FeatureCache, cache_root, open_subject
    from nearsight.evaluate.solvers import LabelledRows, LogisticModel, LogisticProblem
    from nearsight.evaluate.tasks.segmentation.logreg import logit_maps
    from nearsight.evaluate.tasks.segmentation.segmentation_scores import score_images
    from nearsight.evaluate.tasks.segmentation.truth import patch_labels
    from nearsight.stats import miou

    subject = open_subject("vit_tiny_patch16_224", weights=weights)
    settings = Settings(data="voc2012", options={}, controls=False, num_train=num, num_val=num)
    ((_, bench),) = plan_benches(subject, settings, FeatureCache(cache_root()), None)
    train, val = bench.features(bench.train), bench.features(bench.val)
    labels = patch_labels(bench.train, train.grid, VOC_CLASSES)
    targets = labels.shares.multiply(labels.known[:, None]).tocsr()
    flat = train.patches.reshape(-1, train.width)
    began = time.process_time()
    ours = LogisticProblem(LabelledRows(flat, targets, labels.labelled)).fit(1.0)
    seconds = time.process_time() - began
    entries = targets[labels.labelled].tocoo()  # a row for every class of a patch, with its share
    scaled = ours.scale(torch.from_numpy(flat[labels.labelled].astype(np.float32))).numpy()
    began = time.process_time()
    solver = LogisticRegression(C=1.0, max_iter=1000)
    solver.fit(scaled[entries.row], entries.col, sample_weight=entries.data)
    theirs_seconds = time.process_time() - began
    theirs = LogisticModel(ours.scale, solver.coef_, solver.intercept_, 0, True)
    scores = [
        float(miou(score_images(bench.val, logit_maps(x, val), VOC_CLASSES).whole,
                   np.ones(len(bench.val))))
        for x in (ours, theirs)
    ]  # fmt: skip
    print(
        f"voc-logreg: {seconds:.0f} s, scikit-learn {theirs_seconds:.0f} s; mIoU "
        f"{100 * scores[0]:.2f} and {100 * scores[1]:.2f}, {len(bench.train):,} training and "
        f"{len(bench.val):,} val images"
    )


def main() -> None:
    known = {
        "extraction": extraction, "memory": memory, "neighbours": neighbours, "voc": voc,
        "logreg": logreg, "head": head,
    }  # fmt: skip
    parser = argparse.ArgumentParser(description="How fast is evaluate?")
    parser.add_argument("names", nargs="*", help=f"what to time: {', '.join(known)}")
    parser.add_argument("--weights", type=Path, help="weights of ViT-Ti, for voc-logreg")
    parser.add_argument("--images", type=int, help="images of VOC, for voc-logreg")
    given = parser.parse_args()
    if unknown := [name for name in given.names if name not in known]:
        parser.error(f"there is no {unknown[0]}; choose from {', '.join(known)}")
    for name in given.names or ([] if given.weights else known):
        known[name]()
    if given.weights:
        voc_logreg(given.weights, given.images)


if __name__ == "__main__":
    main()
