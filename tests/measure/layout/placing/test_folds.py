"""Images, windows and heads are told apart whichever way they are folded."""

import pytest
import torch

from nearsight.measure.layout.placing.folds import Fold, candidate_folds

IMAGES, WINDOWS, HEADS = 2, 3, 5


def numbered():
    """A tensor [image, window, head, token, width] whose entries say where they are."""
    return torch.arange(IMAGES * WINDOWS * HEADS * 7 * 11).view(IMAGES, WINDOWS, HEADS, 7, 11)


@pytest.mark.parametrize(
    ("folded", "dims"),
    [
        (numbered().flatten(0, 1), ((("image", 1), ("window", 3)), (("head", 5),))),
        (numbered().transpose(1, 2), ((("image", 1),), (("head", 5),), (("window", 3),))),
        (
            numbered().transpose(1, 2).flatten(0, 1),
            ((("image", 1), ("head", 5)), (("window", 3),)),
        ),
        (
            numbered().transpose(0, 1).flatten(0, 2)[:, None],
            ((("window", 3), ("image", 1), ("head", 5)), ()),
        ),
    ],
)
def test_every_fold_is_undone(folded, dims):
    fold = Fold(dims)
    assert torch.equal(fold.unfold(folded), numbered())
    assert fold.sizes(IMAGES) == tuple(folded.shape[:-2])
    assert (fold.num_windows, fold.num_heads) == (WINDOWS, HEADS)
    table = torch.randn(WINDOWS, 7, 11, generator=torch.Generator().manual_seed(3))
    added = torch.zeros(folded.shape) + fold.fold(table, fold.sizes(IMAGES))
    assert torch.equal(fold.unfold(added), table[:, None].expand(IMAGES, -1, HEADS, -1, -1))
    alike = fold.fold(table[:1], fold.sizes(IMAGES))
    assert alike.shape == (*[1] * len(dims), 7, 11)


def test_images_are_put_between_windows_and_heads_of_one_dimension():
    fold = Fold(((("window", 6), ("head", 5)),))
    assert fold.with_images(0, 1).dims == ((("image", 1), ("window", 6), ("head", 5)),)
    assert fold.with_images(0, 6).dims == ((("window", 6), ("image", 1), ("head", 5)),)
    assert fold.with_images(0, 2).dims == (
        (("window", 2), ("image", 1), ("window", 3), ("head", 5)),
    )


def test_all_splits_of_a_dimension_are_tried_most_heads_first():
    dims = [fold.dims[0] for fold in candidate_folds((6,))]
    assert dims[0] == (("head", 6),)
    assert dims[-1] == (("window", 6),)
    assert set(dims[1:-1]) == {
        (("window", 2), ("head", 3)),
        (("head", 2), ("window", 3)),
        (("window", 3), ("head", 2)),
        (("head", 3), ("window", 2)),
    }
