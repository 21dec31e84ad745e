"""Change the colours of batches of uint8 images [n, 3, h, w], each image by its own amount.

The results equal those of Pillow to the last bit, except for ``hue``, which follows torchvision on
tensors (Pillow rounds the hue to 8 bits). Operations that map each channel value on its own use a
table of 256 entries per image or per channel; saturation, sharpness and hue compute every pixel.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int32, UInt8
from torch import Tensor

Images = UInt8[Tensor, "n 3 h w"]
Amounts = Float[Tensor, " n"]  # one per image


def through_tables(images: Images, tables: UInt8[Tensor, "n tables 256"]) -> Images:
    """Replace every value by its entry in the table of its image (1 table) or its channel (3)."""
    num, channels = images.shape[:2]
    values = images.flatten(2).long()  # [n, 3, pixel]
    return tables.expand(num, channels, 256).gather(2, values).view_as(images)


def luminance(images: Images) -> Int32[Tensor, "n 1 h w"]:
    """Return the grey value of every pixel by Rec. 601, rounded to a whole number."""
    red, green, blue = images.int().split(1, dim=1)
    return (red.mul_(19595) + green.mul_(38470) + blue.mul_(7471)).add_(1 << 15) >> 16


def _blend(plain: Tensor, images: Tensor, factors: Tensor) -> Tensor:
    """Return ``plain + factor (images - plain)``, in float32, clipped to 0..255, as uint8."""
    plain = plain.float()
    mixed = (images.float() - plain) * factors.float()
    return mixed.add_(plain).clamp_(0, 255).to(torch.uint8)


def _values(images: Tensor) -> Tensor:
    """Return all values of a byte, on the device of the images."""
    return torch.arange(256, device=images.device)


def brightness(images: Images, factors: Amounts) -> Images:
    """Blend with black: factor 0 is black, 1 is the image."""
    values = _values(images)
    tables = _blend(torch.zeros_like(values), values, factors[:, None, None])
    return through_tables(images, tables)


def contrast(images: Images, factors: Amounts) -> Images:
    """Blend with the mean grey of the image: factor 0 is flat grey, 1 is the image."""
    grey = luminance(images).flatten(1)  # [n, pixel]
    mean = (grey.sum(1).double() / grey.shape[1] + 0.5).floor()
    tables = _blend(mean[:, None, None], _values(images), factors[:, None, None])
    return through_tables(images, tables)


def saturation(images: Images, factors: Amounts) -> Images:
    """Blend with the grey image: factor 0 is grey, 1 is the image. AutoAugment calls this Color."""
    return _blend(luminance(images), images, factors[:, None, None, None])


def sharpness(images: Images, factors: Amounts) -> Images:
    """Blend with the smoothed image (centre weight 5, neighbours 1); the border is unchanged."""
    if min(images.shape[-2:]) < 3:
        return images
    values = images.short()
    rows = values[:, :, :-2] + values[:, :, 1:-1] + values[:, :, 2:]
    total = rows[..., :-2] + rows[..., 1:-1] + rows[..., 2:]
    inner = images[:, :, 1:-1, 1:-1]
    smooth = (
        total.add_(inner, alpha=4).float().add_(6.5).mul_(1 / 13).floor_()
    )  # total / 13, rounded
    result = images.clone()
    result[:, :, 1:-1, 1:-1] = _blend(smooth, inner, factors[:, None, None, None])
    return result


def invert(images: Images, _: Amounts) -> Images:
    """Replace each value by 255 minus the value."""
    return 255 - images


def posterize(images: Images, bits: Amounts) -> Images:
    """Keep the highest ``bits`` bits of every value."""
    masks = 256 - 2 ** (8 - bits.long())
    return images & masks.to(torch.uint8)[:, None, None, None]


def solarize(images: Images, thresholds: Amounts) -> Images:
    """Invert the values at or above the threshold."""
    values = _values(images)
    tables = torch.where(values < thresholds[:, None], values, 255 - values).to(torch.uint8)
    return through_tables(images, tables[:, None])


def solarize_add(images: Images, amounts: Amounts) -> Images:
    """Add a whole number to the values below 128."""
    values = _values(images)
    raised = (values + amounts[:, None].long()).clamp(max=255)
    return through_tables(
        images, torch.where(values < 128, raised, values).to(torch.uint8)[:, None]
    )


def autocontrast(images: Images, _: Amounts) -> Images:
    """Stretch every channel to 0..255; a channel with only one value is left unchanged."""
    values = _values(images)
    low, high = images.flatten(2).aminmax(dim=2, keepdim=True)  # [n, 3, 1]
    low, high = low.double(), high.double()
    flat = high == low
    scale = torch.full_like(low, 255) / torch.where(flat, 1.0, high - low)
    stretched = (values * scale + -low * scale).clamp_(0, 255)
    return through_tables(images, torch.where(flat, values, stretched).to(torch.uint8))


def equalize(images: Images, _: Amounts) -> Images:
    """Flatten the histogram of every channel as Pillow does."""
    values = images.flatten(2).long()  # [n, 3, pixel]
    num, channels, num_pixels = values.shape
    counts = torch.zeros(num, channels, 256, dtype=torch.int32, device=images.device)
    ones = torch.ones((), dtype=torch.int32, device=images.device)
    counts.scatter_add_(2, values, ones.expand_as(values))
    below = counts.cumsum(2) - counts  # pixels under each value
    num_brightest = counts.gather(2, values.amax(2, keepdim=True))
    step = (num_pixels - num_brightest) // 255  # 0 leaves the channel unchanged
    tables = (below + step // 2) // step.clamp(min=1)
    tables = torch.where(step == 0, _values(images), tables.clamp_(max=255)).to(torch.uint8)
    return tables.gather(2, values).view_as(images)


def hue(images: Images, turns: Amounts) -> Images:
    """Rotate the colour circle by a fraction of a full turn."""
    values = images.float()
    highest = values.amax(1)  # [n, h, w]
    chroma = highest - values.amin(1)
    gaps = highest[:, None] - values  # [n, 3, h, w], whole numbers; 0 for the strongest channel
    not_red, not_green = gaps[:, 0].clamp(max=1), gaps[:, 1].clamp(max=1)
    red, green, blue = gaps.div_(chroma.clamp(min=1)[:, None]).unbind(1)
    # The position on the circle in sixths: red at 0, green at 2, blue at 4.
    if_green, if_blue = 2 + red - blue, 4 + green - red
    if_red = blue - green
    not_red_place = if_green + not_green * (if_blue - if_green)
    place = if_red + not_red * (not_red_place - if_red)
    place += 6 * turns.float()[:, None, None]
    turned = torch.empty_like(values)
    for channel, offset in enumerate((5, 3, 1)):
        sixth = place + offset
        sixth -= (sixth / 6).floor_().mul_(6)
        share = sixth.sub_(2).abs_().neg_().add_(2).clamp_(0, 1)
        turned[:, channel] = highest - share.mul_(chroma)
    return turned.mul_(255.999 / 255).clamp_(0, 255).to(torch.uint8)
