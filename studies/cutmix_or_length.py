"""Does CutMix make early attention local, or does the longer training that CutMix allows?

The protocol paper stops each run early. Baseline overfits and stops soon; with CutMix a run goes on
for hundreds of epochs. The low mean attention distance (MAD) of its runs with CutMix may therefore
come from CutMix itself or from the number of steps. This study trains Baseline and Baseline+CutMix
for equally many steps: `nano` on the 8x8 grid, all of CIFAR-100, batch 32, 75 epochs (94,000 steps,
as many as 300 of the paper's epochs), no early stopping. Every 3 epochs it measures MAD, self-mass,
MAD without self and entropy of every head on 512 validation images, and the clean training loss on
2,048 training images.

Three contrasts are read from the same runs, before anything else is looked at:
  1. at equal steps;
  2. under virtual early stopping: at the last measurement at or before the epoch with the best
     validation accuracy, where training counts as stopped after 20 of the paper's epochs (5 of
     ours) without a better one;
  3. at equal clean training loss.
Predictions, written before the study ran. If CutMix itself is the cause, min MAD with CutMix is
lower by more than 0.05 at equal steps. If length is the cause, min MAD is lower by that much only
under virtual early stopping. If neither holds, the paper's effect is refuted at this scale.
Primary outcome: min MAD. Secondary: the number of seeds with an identity head (MAD below the 3x3
line, self-mass at least 0.5) and with a local head (below the line, self-mass less than 0.5) in
layers 1 and 2. With fewer than 5 seeds the answer is only 'leaning to', with n.
Stop rule after seed 0: if no head of either condition has a MAD below 0.30 at 50,000 steps, the
study switches to `compact` with 3 layers on half of the data, 60 epochs, batch 16, and seed 0 of
`nano` stays in the report.
The learning rate is the one of 3e-4, 1e-3 and 3e-3 with the best validation accuracy, averaged over
both conditions, after 8 epochs with seed 99, which the study does not use.
Command: nearsight study run cutmix-or-length --seeds 3 --workers 2 --out studies-out/cutmix-or-length
Hardware: 2 cores, no GPU
Time: 3.4 hours of one core per run, 10 hours for 3 seeds on 2 cores
Expected: not run yet; the paper has min MAD 0.316 for Baseline and 0.021 with CutMix
"""  # noqa: E501

from __future__ import annotations

from dataclasses import replace

from nearsight.protocol import Protocol
from nearsight.study.design import Condition, PrimaryContrast, Study, cutmix_off_and_on

LEARNING_RATE = 1e-3  # chosen on 2026-11-18: 0.309, against 0.295 (3e-4) and 0.299 (3e-3)


def long(protocol: Protocol, lr: float = LEARNING_RATE, epochs: int = 75) -> Protocol:
    """Train `nano` on an 8x8 grid for as many steps as the paper's longest runs."""
    return replace(
        protocol,
        model=replace(protocol.model, name="nano_vit"),
        optimizer=replace(protocol.optimizer, lr=lr),
        epochs=epochs,
        warmup_epochs=2,
        batch_size=32,
        patience=None,
        measure_every=3,
        measure_images=512,
    )


VIRTUAL_PATIENCE = 5  # epochs at batch 32: as many steps as 20 of the paper's at batch 128
PRIMARY = PrimaryContrast("min_mad", {"cutmix": True}, {"cutmix": False})


def study() -> Study:
    conditions = tuple(
        Condition({"cutmix": cutmix}, long(protocol))
        for cutmix, protocol in cutmix_off_and_on("cifar100")
    )
    return Study(conditions, num_seeds=3, primary=PRIMARY, virtual_patience=VIRTUAL_PATIENCE)
