"""Features are the model's own, at any layer, place and size, and survive a kill in the cache."""

from __future__ import annotations

import shutil
from collections import namedtuple
from dataclasses import replace

import numpy as np
import pytest
import timm
import torch
from evaluate.made_sets import bench_of, small_model, small_subject

from nearsight.core import UserError
from nearsight.evaluate.features import (
    CONTROLS,
    Tapped,
    control_subject,
    delete_cache,
    estimate_extraction,
    extract_features,
    stored_caches,
    subject_of,
)
from nearsight.models.parts.locat import add_locat, refine


def images(*size, count=3):
    return torch.randn(count, 3, *size, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("layer", [1, 2, 3])
@pytest.mark.parametrize("place", ["block", "norm"])
def test_features_are_those_of_timms_own_intermediate_layers(layer, place) -> None:
    model = timm.create_model(
        "vit_tiny_patch16_224", img_size=(48, 80), depth=3, num_classes=5, reg_tokens=2
    ).eval()
    batch = images(48, 80)
    (found,) = Tapped(model, (48, 80)).features(batch, [layer], place)
    with torch.no_grad():
        (expected,) = model.forward_intermediates(
            batch, indices=[layer - 1], norm=place == "norm", output_fmt="NLC",
            return_prefix_tokens=True, intermediates_only=True,
        )  # fmt: skip
    patches, prefix = expected
    torch.testing.assert_close(found.patches.flatten(1, 2), patches)
    torch.testing.assert_close(found.cls, prefix[:, 0])


def test_features_of_swin_are_the_map_of_each_stage() -> None:
    model = timm.create_model(
        "swin_tiny_patch4_window7_224", img_size=112, window_size=7, embed_dim=12,
        depths=(1, 1), num_heads=(2, 3), num_classes=5,
    ).eval()  # fmt: skip
    batch = images(112, 112)
    first, second = Tapped(model, (112, 112)).features(batch, [1, 2], "block")
    with torch.no_grad():
        stages = model.forward_intermediates(batch, intermediates_only=True)
    torch.testing.assert_close(first.patches.permute(0, 3, 1, 2), stages[0])
    torch.testing.assert_close(second.patches.permute(0, 3, 1, 2), stages[1])
    assert second.cls is None


def test_features_after_prr_are_refined_after_the_norm() -> None:
    model = add_locat(small_model())
    batch = images(24, 40)
    tapped = Tapped(model, (24, 40))
    (found,) = tapped.features(batch, [2], "prr")
    with torch.no_grad():
        tokens = refine(model.forward_features(batch), num_heads=2)
    torch.testing.assert_close(found.cls, tokens[:, 0])
    torch.testing.assert_close(found.patches.flatten(1, 2), tokens[:, 2:])


def test_final_features_are_after_prr_where_there_is_prr_and_else_after_the_norm() -> None:
    batch = images(24, 40)
    for model, place in ((add_locat(small_model()), "prr"), (small_model(), "norm")):
        tapped = Tapped(model, (24, 40))
        (final,), (expected,) = (tapped.features(batch, [2], x) for x in ("final", place))
        assert torch.equal(final.patches, expected.patches)
        assert torch.equal(final.cls, expected.cls)


def test_an_unknown_layer_or_place_is_an_error() -> None:
    tapped = Tapped(small_model(), (24, 40))
    with pytest.raises(UserError, match=r"--layer is '3'.*\b1 to 2\b"):
        tapped.choose_layers("3")
    with pytest.raises(UserError, match=r"\bVisionTransformer\b.*\bPRR\b.*--place norm"):
        tapped.features(images(24, 40), [2], "prr")
    assert tapped.choose_layers("all") == [1, 2]


@pytest.mark.slow
def test_a_model_without_attention_has_no_patch_features() -> None:
    model = timm.create_model("resnet18", num_classes=2).eval()
    with pytest.raises(UserError, match=r"^ResNet "):
        subject_of(model, image_size=(64, 64))


def test_a_changed_image_size_interpolates_positions_as_timm_does(tmp_path) -> None:
    torch.manual_seed(2)
    own = timm.create_model("vit_tiny_patch16_224", depth=2, num_classes=5, dynamic_img_size=True)
    resized = timm.create_model("vit_tiny_patch16_224", depth=2, num_classes=5)
    resized.load_state_dict(own.state_dict())
    resized.set_input_size(img_size=(96, 160))
    batch = images(96, 160)
    (found,) = Tapped(resized.eval(), (96, 160)).features(batch, [2], "norm")
    with torch.no_grad():
        expected = own.eval().forward_features(batch)
    torch.testing.assert_close(found.patches.flatten(1, 2), expected[:, 1:], rtol=1e-4, atol=1e-5)


def test_the_cache_holds_the_features_in_half_precision(tmp_path) -> None:
    bench = bench_of(tmp_path)
    found = bench.features(bench.val)
    steps = bench.preparation()
    pixels = np.stack([steps.pixels(bench.val.image(i)) for i in range(11)])
    batch = steps.steps.normalise(torch.from_numpy(pixels))
    (expected,) = bench.subject.extractor.features(batch, [2], "block")
    np.testing.assert_allclose(found.patches, expected.patches.flatten(1, 2), atol=2e-3)
    assert found.patches.dtype == np.float16
    assert str(found.grid) == "3x5"


def test_mirrored_features_are_those_of_mirrored_images(tmp_path) -> None:
    bench = bench_of(tmp_path)
    mirrored = bench.features(bench.val, mirrored=True)
    pixels = bench.preparation().pixels(bench.val.image(4))[:, :, ::-1].copy()
    batch = bench.preparation().steps.normalise(torch.from_numpy(pixels[None]))
    (expected,) = bench.subject.extractor.features(batch, [2], "block")
    np.testing.assert_allclose(mirrored.patches[4], expected.patches[0].flatten(0, 1), atol=2e-3)


@pytest.mark.slow
def test_an_extraction_that_was_killed_continues(tmp_path, monkeypatch) -> None:
    whole = bench_of(tmp_path / "whole", batch_size=2)
    expected = np.array(whole.features(whole.val).patches)
    killed = bench_of(tmp_path / "killed", batch_size=2)
    seen = []
    extractor = killed.subject.extractor
    plain = type(extractor).features

    def counted(self, batch, layers, place):
        seen.append(len(batch))
        if len(seen) == 4:
            raise KeyboardInterrupt
        return plain(self, batch, layers, place)

    monkeypatch.setattr("nearsight.evaluate.features.extraction.NOTED_EVERY", 1)
    monkeypatch.setattr(type(extractor), "features", counted)
    with pytest.raises(KeyboardInterrupt):
        killed.features(killed.val)
    seen[:] = [0] * 10
    found = killed.features(killed.val)
    np.testing.assert_array_equal(found.patches, expected)
    assert sum(seen) == 11 - 6  # three batches of two were kept


@pytest.mark.slow
def test_a_cache_of_another_model_is_refused(tmp_path) -> None:
    bench = bench_of(tmp_path)
    key = bench.features(bench.val).key
    other = bench_of(tmp_path, subject=small_subject(seed=5))
    facts = other.need(other.val).facts()
    shutil.copytree(tmp_path / key, tmp_path / other.cache.key(facts))
    with pytest.raises(UserError, match=r"nearsight data cache --delete \w{20}"):
        other.features(other.val)


@pytest.mark.slow
def test_equal_weights_share_a_cache_and_outcomes_whatever_their_name(tmp_path) -> None:
    one = bench_of(tmp_path)
    one.features(one.val)
    other = bench_of(tmp_path, subject=replace(small_subject(), name="the same under a new name"))
    assert other.cache.open(other.need(other.val).facts()) is not None
    assert other.key == one.key
    assert len(stored_caches(tmp_path)) == 1


def test_a_cache_that_lost_bytes_is_refused(tmp_path) -> None:
    bench = bench_of(tmp_path)
    path = tmp_path / bench.features(bench.val).key / "patches"
    path.write_bytes(path.read_bytes()[:-2])
    with pytest.raises(UserError, match=r"\bpatches\b.*nearsight data cache --delete \w{20}"):
        bench.features(bench.val)


def test_caches_are_listed_and_deleted(tmp_path) -> None:
    bench = bench_of(tmp_path)
    bench.features(bench.val)
    (cache,) = stored_caches(tmp_path)
    assert cache.text == "mu, layer 2 (block), made up val, 11 images"
    assert cache.num_bytes > 11 * 16 * 22 * 2
    delete_cache(tmp_path, cache.key)
    assert stored_caches(tmp_path) == []
    with pytest.raises(UserError, match=r"'\w{20}' .*nearsight data cache"):
        delete_cache(tmp_path, cache.key)


def test_the_estimate_counts_the_bytes_of_every_cache(tmp_path) -> None:
    bench = bench_of(tmp_path)
    needs = [bench.need(bench.train), bench.need(bench.val)]
    estimated = estimate_extraction(needs, bench.cache)
    assert estimated.num_bytes == (23 + 11) * (15 * 22 + 22) * 2
    assert estimated.num_images == 34
    extract_features(needs[:1], bench.cache)
    assert estimate_extraction(needs, bench.cache).num_images == 11


def test_a_cache_that_does_not_fit_is_refused(tmp_path, monkeypatch) -> None:
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage(1000))
    bench = bench_of(tmp_path)
    with pytest.raises(UserError, match=r"\(23 images .*--num-train .*--num-val"):
        estimate_extraction([bench.need(bench.train)], bench.cache)


def test_features_beyond_half_precision_are_an_error(tmp_path) -> None:
    model = small_model()
    with torch.no_grad():
        model.blocks[1].mlp.fc2.bias.fill_(1e6)
    bench = bench_of(tmp_path, subject=subject_of(model, "huge", image_size=(24, 40)))
    with pytest.raises(UserError, match=r"\bhuge\b.*\blayer 2\b.*65,504.*--place norm"):
        bench.features(bench.val)


def test_controls_know_nothing_of_the_weights() -> None:
    subject = small_subject()
    batch = images(24, 40)
    fresh, pixels, position = (control_subject(subject, name) for name in CONTROLS)
    assert fresh.identity != subject.identity
    (found,) = pixels.extractor.features(batch, [1], "block")
    patch = batch[1, :, 8:16, 16:24]
    expected = torch.cat([patch.mean((1, 2)), patch.std((1, 2), correction=0)])
    torch.testing.assert_close(found.patches[1, 1, 2], expected, rtol=1e-4, atol=1e-5)
    (found,) = position.extractor.features(batch, [1], "block")
    torch.testing.assert_close(found.patches[0], found.patches[2])
    flat = found.patches[0].flatten(0, 1)
    assert len(torch.unique(flat, dim=0)) == 15
