"""Train a linear classifier on the pixels of `shapes`; its accuracy should stay under 40 %.

    python benchmarks/shapes_linear.py

The classifier is multinomial logistic regression on standardised pixels, trained on the whole
training set. The last line is the best of all strengths on the *test* set, so it is rather too high
than too low. It takes one or two minutes on one core.
"""

from __future__ import annotations

import warnings

from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from nearsight.data.sets.catalog import load_dataset
from nearsight.data.sets.dataset import ImageSet
from nearsight.protocol.schema import DataSettings

STRENGTHS = (1e-6, 1e-5, 1e-4, 1e-3)  # sklearn's C: smaller is stronger


def main() -> None:
    dataset = load_dataset(DataSettings(name="shapes"))
    scaler = StandardScaler().fit(pixels(dataset.train))
    train, test = scaler.transform(pixels(dataset.train)), scaler.transform(pixels(dataset.test))
    accuracies = []
    for strength in STRENGTHS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = LogisticRegression(C=strength, max_iter=200).fit(train, dataset.train.labels)
        accuracies.append(model.score(test, dataset.test.labels))
        known = model.score(train, dataset.train.labels)
        print(f"C {strength:g}: test {accuracies[-1]:.1%}, train {known:.1%}", flush=True)
    print(f"best: {max(accuracies):.1%} (n = {len(test)}, chance {1 / len(dataset.classes):.1%})")


def pixels(part: ImageSet) -> object:
    return part.images.reshape(len(part), -1).astype("float32")


if __name__ == "__main__":
    main()
