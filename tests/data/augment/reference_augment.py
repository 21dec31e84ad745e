"""Slow references for augmentation: Pillow and plain loops, one image at a time."""

import math

import numpy as np
import torch
from PIL import Image, ImageEnhance, ImageFilter, ImageOps
from scipy.stats import chisquare

from nearsight.data import draws
from nearsight.protocol.schema import Protocol

HEIGHT, WIDTH = 31, 37


def protocol(**parts):
    return Protocol(name="test", epochs=2, patience=None, warmup_epochs=0, batch_size=7, **parts)


def random_images(num, height=HEIGHT, width=WIDTH):
    """Noise of many ranges, smooth ramps, and a few channels of a single value."""
    noise = draws.uniform("noise", 0, num=num * 3 * height * width).view(num, 3, height, width)
    ramp = torch.linspace(0, 1, width, dtype=torch.float64).expand(num, 3, height, width)
    ends = draws.uniform("ends", 0, num=num * 6).view(2, num, 3, 1, 1)
    share = torch.tensor([0.0, 0.3, 0.7, 1.0], dtype=torch.float64).repeat(num)[:num]
    share = share[:, None, None, None]
    values = ends[0] + (ends[1] - ends[0]) * (share * ramp + (1 - share) * noise**2)
    values[::97, 1] = values[::97, 1, :1, :1]
    return (values * 256).to(torch.uint8)


def to_pillow(image):
    return Image.fromarray(image.permute(1, 2, 0).contiguous().numpy())


def from_pillow(image):
    return torch.from_numpy(np.array(image)).permute(2, 0, 1)


def pillow_operated(name, image, argument):
    """One operation on one Pillow image, nearest pixel and black outside."""

    def moved(*matrix):
        return image.transform(image.size, Image.Transform.AFFINE, matrix, Image.Resampling.NEAREST)

    match name:
        case "shear_x":
            return moved(1, argument, 0, 0, 1, 0)
        case "shear_y":
            return moved(1, 0, 0, argument, 1, 0)
        case "translate_x":
            return moved(1, 0, -argument, 0, 1, 0)
        case "translate_y":
            return moved(1, 0, 0, 0, 1, -argument)
        case "rotate":
            return image.rotate(argument, Image.Resampling.NEAREST)
        case "brightness":
            return ImageEnhance.Brightness(image).enhance(argument)
        case "contrast":
            return ImageEnhance.Contrast(image).enhance(argument)
        case "saturation":
            return ImageEnhance.Color(image).enhance(argument)
        case "sharpness":
            return ImageEnhance.Sharpness(image).enhance(argument)
        case "posterize":
            return ImageOps.posterize(image, int(argument))
        case "solarize":
            return ImageOps.solarize(image, argument)
        case "solarize_add":
            raised = [min(255, i + int(argument)) if i < 128 else i for i in range(256)]
            return image.point(raised * 3)
        case "autocontrast":
            return ImageOps.autocontrast(image)
        case "equalize":
            return ImageOps.equalize(image)
        case "invert":
            return ImageOps.invert(image)
        case "blur":
            return image.filter(ImageFilter.GaussianBlur(argument))
    raise AssertionError(name)


def cropped(image, down, right, flip):
    """A moved window of one image [3, h, w], pixel by pixel, zero outside."""
    _, height, width = image.shape
    result = torch.zeros_like(image)
    for y in range(height):
        for x in range(width):
            row, col = y + down, (width - 1 - x if flip else x) + right
            if 0 <= row < height and 0 <= col < width:
                result[:, y, x] = image[:, row, col]
    return result


def cutmix_box(ratio, centre_y, centre_x, height, width):
    """``rand_bbox`` of the authors of CutMix, the centre given."""
    cut = math.sqrt(1.0 - ratio)
    cut_height, cut_width = int(height * cut), int(width * cut)
    return (
        int(np.clip(centre_y - cut_height // 2, 0, height)),
        int(np.clip(centre_x - cut_width // 2, 0, width)),
        int(np.clip(centre_y + cut_height // 2, 0, height)),
        int(np.clip(centre_x + cut_width // 2, 0, width)),
    )


def targets(labels, partner_labels, weight, num_classes, smoothing):
    rows = []
    for label, partner_label in zip(labels, partner_labels):
        row = [smoothing / num_classes] * num_classes
        row[label] += (1 - smoothing) * weight
        row[partner_label] += (1 - smoothing) * (1 - weight)
        rows.append(row)
    return torch.tensor(rows)


def assert_frequencies(counts, probabilities):
    """Counts by outcome agree with probabilities by outcome (chi-square, p over 0.001).

    Outcomes expected fewer than five times are pooled.
    """
    assert set(counts) <= {outcome for outcome, chance in probabilities.items() if chance > 0}
    num = sum(counts.values())
    observed, expected, rare_observed, rare_expected = [], [], 0, 0.0
    for outcome, chance in probabilities.items():
        count = counts.get(outcome, 0)
        if chance * num < 5:
            rare_observed, rare_expected = rare_observed + count, rare_expected + chance * num
        else:
            observed.append(count)
            expected.append(chance * num)
    if rare_expected > 0:
        observed.append(rare_observed)
        expected.append(rare_expected)
    assert chisquare(observed, expected).pvalue > 0.001
