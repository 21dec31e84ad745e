"""DINO: learn without labels from views of an image (Caron et al. 2021, arXiv 2104.14294).

The student sees all views, the teacher the first two. For every pair of different views the student
predicts the teacher's output:

    loss = mean over pairs of -sum_k softmax((t - c) / T_t)_k log softmax(s / T_s)_k

The teacher is a moving average of the student, and c is a moving average of the teacher's mean
output. The teacher's model without its projection head is scored, measured and kept. The model's
own classifier is not trained. The score of an epoch is the accuracy of k-NN on the validation
images.

Where we differ from the published code: the learning rate warms up from 1/n of its peak instead of
0, and the teacher's model is in evaluation mode, which matters for models with batch norm only.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from nearsight.core import UserError
from nearsight.data import draws
from nearsight.data.draws import seeded_torch
from nearsight.data.sets import Images
from nearsight.evaluate import knn_hits
from nearsight.protocol import Protocol, cosine_between
from nearsight.train.objectives.collapse import collapse_signs
from nearsight.train.objectives.objective import FinalScores, Objective, StepLoss, Validation
from nearsight.train.objectives.projection import (
    Branch,
    MomentumTeacher,
    ProjectionHead,
    dino_loss,
    embed_images,
)
from nearsight.train.objectives.views import NUM_GLOBAL, ViewBatch, local_side, view_batches
from nearsight.train.state import Counters

BATCH = 512  # images whose features are computed at once
SIGN_IMAGES = 2048  # validation images on which to search for signs of a collapse
SETTLED = 5.0  # time constants of the centre; earlier, outputs do not show a collapse
OFF: dict[str, Any] = {  # settings that do not work with DINO, with the values they must have
    "resized_crop": None,
    "blur": None,
    "solarize": None,
    "cutmix": None,
    "mixup": None,
    "repeats": 1,
    "label_smoothing": 0.0,
    "ema_decay": None,
    "model.distilled": False,
}
WHY = {
    "resized_crop": "dino.first, dino.second and dino.local have crops of their own",
    "blur": "dino.first, dino.second and dino.local have a blur of their own",
    "solarize": "dino.first, dino.second and dino.local have a setting of their own",
    "ema_decay": "the teacher is a moving average already",
    "repeats": "every image is seen several times already",
}


class DinoObjective(Objective):
    """Learn without labels from views of an image."""

    any_size: ClassVar[bool] = True
    can_shard: ClassVar[bool] = False
    companion: MomentumTeacher

    @classmethod
    def check(cls, protocol: Protocol) -> None:
        """Check that the protocol has no setting that does not work with DINO.

        Raises:
            UserError: If it has one.
        """
        for path, value in OFF.items():
            part, _, last = path.rpartition(".")
            if getattr(getattr(protocol, part) if part else protocol, last) != value:
                text = "null" if value is None else str(value).lower()
                raise UserError(
                    f"{path} has no use with dino, because "
                    f"{WHY.get(path, 'it learns without labels')}; switch it off with --set "
                    f"{path}={text}"
                )

    def __post_init__(self) -> None:
        given = self.setting
        assert given.protocol.dino is not None
        self.settings = given.protocol.dino
        size = given.transform.image_size
        patch = _patch_side(self.model, size)
        self.local_size = self.settings.local_size or local_side(size[0], patch)
        for parameter in _classifier(self.model):
            parameter.requires_grad_(False)
        with seeded_torch("projection head", given.seed, device=given.world.device):
            head = ProjectionHead(self._width(), self.settings)
        student = Branch(self.model, head.to(given.world.device, given.transform.dtype)).train()
        self.trained: Branch = student
        self.companion = MomentumTeacher(student)
        self.called = self.spread(student)
        of_teacher = self.settings.kept == "teacher"
        self.kept = self.companion.branch.backbone if of_teacher else self.model

    def _width(self) -> int:
        """Return the width of the features, after trying images of every size.

        Raises:
            UserError: If the model does not take one of the sizes.
        """
        given = self.setting
        sizes = [given.transform.image_size]
        sizes += [(self.local_size, self.local_size)] * bool(self.settings.num_local)
        width = 0
        was_training = self.model.training
        self.model.eval()
        for rows, cols in sizes:
            images = torch.zeros(
                2, 3, rows, cols, dtype=given.transform.dtype, device=given.world.device
            )
            try:
                with torch.no_grad():
                    width = embed_images(self.model, images).shape[-1]
            except (AssertionError, AttributeError, RuntimeError, UserError) as error:
                raise UserError(
                    f"{given.protocol.model.name} does not take views of {rows}x{cols} pixels: "
                    f"{str(error).splitlines()[0]}; set another dino.local_size, set "
                    "dino.num_local=0, or choose another model (any ViT of nearsight or timm)"
                ) from error
        self.model.train(was_training)
        return width

    @property
    def watched(self) -> nn.Module:
        """Return the model that is kept: its attention is measured while the run trains."""
        return self.kept

    @property
    def num_scored(self) -> float:
        """Return how many images go through the model to score an epoch, on average."""
        memory = min(self.settings.knn_images, len(self.setting.train.indices))
        return (memory + len(self.setting.validation)) / self.settings.knn_every

    @property
    def notes(self) -> tuple[str, ...]:
        """Return a sentence about the views and the projection head."""
        rows, cols = self.setting.transform.image_size
        settings, head = self.settings, self.trained.head
        size = sum(parameter.numel() for parameter in head.parameters()) / 1e6
        local = f" and {settings.num_local} of {self.local_size}x{self.local_size}"
        return (
            f"DINO: {NUM_GLOBAL} views of {rows}x{cols} pixels{local * bool(settings.num_local)}; "
            f"projection to {settings.outputs:,} outputs ({size:.2f} M parameters more while "
            f"training); the weights of the {settings.kept} are kept",
        )

    def batches(self, epoch: int, first_step: int = 0) -> Iterator[ViewBatch]:
        """Return this process's batches of an epoch, from ``first_step`` on."""
        return view_batches(self.setting, self.settings, self.local_size, epoch, first_step)

    def losses(self, batch: ViewBatch, at: Counters) -> StepLoss:
        """Return the loss of every image, and move the centre of the teacher's outputs."""
        settings, teacher = self.settings, self.companion
        num = len(batch.whole) // NUM_GLOBAL
        with torch.no_grad():
            taught = teacher.branch(batch.whole)
        sizes = [batch.whole, batch.local] if settings.num_local else [batch.whole]
        answers = self.called(*sizes)
        losses = dino_loss(
            answers.view(NUM_GLOBAL + settings.num_local, num, settings.outputs),
            taught.view(NUM_GLOBAL, num, settings.outputs),
            teacher.centre,
            settings.student_temperature,
            self.teacher_temperature(at.epoch),
        )
        total = self.setting.world.sum_tensor(taught.double().sum(0))
        teacher.move_centre(total / (NUM_GLOBAL * batch.global_size), settings.centre_momentum)
        return StepLoss(losses)

    def teacher_temperature(self, epoch: int) -> float:
        """Return the temperature in an epoch, counted from 1; it warms up linearly by epoch."""
        settings = self.settings
        steps = settings.teacher_warmup_epochs - 1
        done = min(1.0, (epoch - 1) / steps) if steps > 0 else float(epoch > steps + 1)
        first = settings.first_teacher_temperature
        return first + (settings.teacher_temperature - first) * done

    def momentum(self, step: int) -> float:
        """Return the teacher's momentum after a step, counted from 0."""
        settings = self.settings
        done = step / (self.setting.protocol.epochs * self.setting.steps_per_epoch)
        return cosine_between(settings.teacher_momentum, settings.final_teacher_momentum, done)

    def before_update(self, at: Counters) -> None:
        """Leave the last layer as it is in the first epochs."""
        if at.epoch <= self.settings.frozen_epochs:
            self.trained.head.last.weight.grad = None

    def after_update(self, at: Counters) -> None:
        """Let the teacher follow the student."""
        self.companion.follow(self.trained, self.momentum(at.total_steps))

    def features(
        self, model: nn.Module, images: Images, indices: Tensor
    ) -> Float[Tensor, "image width"]:
        """Return the features of images without augmentation; every process must call this."""
        given = self.setting
        was_training = model.training
        model.eval()
        found = []
        autocast, device = given.autocast, given.world.device.type
        with torch.no_grad(), torch.autocast(device, autocast, enabled=autocast is not None):
            for rows in indices[given.world.share(len(indices))].split(BATCH):
                batch = torch.from_numpy(images[rows.numpy()]).to(given.world.device)
                found.append(embed_images(model, given.transform(batch)).float().cpu().numpy())
        model.train(was_training)
        mine = np.concatenate(found) if found else np.zeros((0, 0), np.float32)
        return torch.from_numpy(np.concatenate([x for x in given.world.gather(mine) if len(x)]))

    def knn_answers(
        self, images: Images, truth: Tensor, indices: Tensor
    ) -> tuple[np.ndarray, Float[Tensor, "image width"]]:
        """Return which images k-NN classifies correctly, and the features of all images.

        Every process must call this.
        """
        train, settings = self.setting.train, self.settings
        num = min(settings.knn_images, len(train.indices))
        rows = train.indices[draws.sample("knn", 0, length=len(train.indices), num=num)]
        memory = self.features(self.kept, train.images, rows)
        queries = self.features(self.kept, images, indices)
        k = min(settings.knn_neighbours, num)
        hits = knn_hits(memory, train.labels[rows], queries, truth, train.num_classes, [k])
        return hits[k][:, 0], queries

    def validate(self, at: Counters) -> Validation:
        """Return the accuracy of k-NN on the validation images, and signs of a collapse."""
        given, settings = self.setting, self.settings
        if at.epoch % settings.knn_every and at.epoch != given.protocol.epochs:
            return Validation(None, {}, "")
        train = given.train
        hits, features = self.knn_answers(
            train.images, train.labels[given.validation], given.validation
        )
        some = draws.sample("signs", 0, length=len(hits), num=min(SIGN_IMAGES, len(hits)))
        teacher = self.companion
        seen = features[some]
        if self.kept is not teacher.branch.backbone:
            seen = self.features(teacher.branch.backbone, train.images, given.validation[some])
        with torch.no_grad():
            outputs = teacher.branch.head(seen.to(given.world.device, given.transform.dtype))
            outputs = outputs - teacher.centre
        signs = collapse_signs(outputs.cpu(), self.teacher_temperature(at.epoch), seen)
        accuracy = float(hits.mean())
        line = {"validation_knn_accuracy": accuracy, **signs.line()}
        settled = at.total_steps * (1 - settings.centre_momentum) >= SETTLED
        warning = signs.warning() if settled else None
        return Validation(
            accuracy, line, f"k-NN {accuracy:.2%}", warnings=(warning,) if warning else ()
        )

    def test(self, best: float) -> FinalScores:
        """Return the accuracy of k-NN on the test images."""
        test = self.setting.test
        labels = torch.from_numpy(test.labels.astype("int64"))
        hits, _ = self.knn_answers(test.images, labels, torch.arange(len(labels)))
        found = {"validation_knn_accuracy": best, "test_knn_accuracy": float(hits.mean())}
        return FinalScores(found, hits)


def _classifier(model: nn.Module) -> list[nn.Parameter]:
    """Return the weights of a model's classifier, which DINO does not train."""
    heads = [getattr(model, name, None) for name in ("head", "head_dist")]
    names: Any = getattr(model, "pretrained_cfg", {}).get("classifier") or ()
    names = [names] if isinstance(names, str) else names
    heads += [model.get_submodule(name) for name in names]
    return [x for head in heads if isinstance(head, nn.Module) for x in head.parameters()]


def _patch_side(model: Any, image_size: tuple[int, int]) -> int:
    """Return the side of a model's patches in pixels, or 32 if the model does not tell."""
    grid = getattr(model, "grid", None)
    embed = getattr(model, "patch_embed", None)
    rows = grid.rows if grid else (getattr(embed, "grid_size", None) or (0,))[0]
    return image_size[0] // rows if rows else 32
