"""Models made local: every kind of attention, undone, exported, measured and copied."""

import copy
import itertools
import math
import pickle
import warnings

import pytest
import torch
from measure.layout import reference_places as slow
from measure.layout.families_table import CASES
from measure.layout.own_weights import dropout_inputs, softmax_rows
from torch import nn

import nearsight as ns
from nearsight.core import UserError
from nearsight.measure.localise.lever import LocalForward
from nearsight.models.load import create_model

WIDTH = 0.8
NEAR = {"atol": 1e-6, "rtol": 1e-5}
NAMES = (  # one for each way to make attention and to place tokens
    "nearsight: compact ViT, nano, mu",
    "nearsight: LocAt ViT",
    "timm: ViT, other image sizes",
    "timm: DeiT",
    "timm: BEiT",
    "timm: CaiT",
    "timm: SHViT",
    "timm: Swin, other image sizes",
    "timm: SwinV2",
    "timm: MaxViT",
    "timm: MViTv2 with a class token",
    "timm: PVTv2",
    "timm: Hiera",
    "torchvision: ViT",
    "torchvision: Swin",
    "torch: your own ViT",
    "Hugging Face: ViT",
)
BY_NAME = {str(case): case for case in CASES}


@pytest.fixture(params=NAMES)
def case(request):
    if request.param.startswith("Hugging Face"):
        pytest.importorskip("transformers", reason="the hf extra is not installed")
    return BY_NAME[request.param]


def last_softmax(case, model):
    """The rows of the last layer as the model's own unfused code makes them."""
    return [rows for rows in case.weights(model, case.images()) if rows.shape[-2] > 1][-1]


def near_only(rows, at):
    """Rows times a Gaussian of the distance between places, rescaled: plain loops."""
    factors = torch.ones(len(at.queries), *rows.shape[-2:], dtype=rows.dtype)
    for window, (queries, keys) in enumerate(zip(at.queries, at.keys)):
        for i, query in enumerate(queries):
            for j, key in enumerate(keys):
                if query is not None and key is not None:
                    far = math.dist(query, key)
                    factors[window, i, j] = math.exp(-(far**2) / (2 * WIDTH**2))
    if not at.inner:  # windows are in the batch, those of an image together
        factors = factors.repeat(len(rows) // len(at.queries), 1, 1)[:, None]
    near = rows * factors
    return near / near.sum(-1, keepdim=True)


@pytest.mark.slow
def test_a_layer_attends_as_its_plain_weights_times_a_gaussian(case):
    """The last layer's input does not change, so its rows do only by what is added."""
    model = case.model()
    names = list(model.state_dict())
    plain = last_softmax(case, model)
    ns.localise(model, WIDTH, "last1", image_size=case.size)
    assert list(model.state_dict()) == names
    with ns.capture_attention(model) as maps:
        model(case.images())
    at = list(case.places().values())[-1]
    expected = near_only(plain, at)
    assert (expected - plain).abs().max() > 0.01
    torch.testing.assert_close(maps[-1], slow.put_back(expected, at).to(maps[-1]), **NEAR)


def twins():
    """Twins on a grid of 5x7 in 2x3 windows of 3x3 tokens, padded by a row and two columns."""
    from timm.models.twins import Twins

    return Twins(
        img_size=(20, 28), patch_size=4, num_classes=7, embed_dims=(24,), num_heads=(2,),
        mlp_ratios=(2,), depths=(1,), sr_ratios=(1,), wss=(3,),
    )  # fmt: skip


def maxvit_of_torchvision():
    """MaxViT on a map of 8x8 in windows of 2x2 neighbours, then of 2x2 tokens 4 apart."""
    from torchvision.models.maxvit import MaxVit

    return MaxVit(
        input_size=(32, 32), stem_channels=8, partition_size=2, block_channels=[32],
        block_layers=[1], head_dim=16, stochastic_depth_prob=0.0, num_classes=7,
    )  # fmt: skip


def in_windows_of_twins(window, token):
    row, col = 3 * (window // 3) + token // 3, 3 * (window % 3) + token % 3
    return (row, col) if row < 5 and col < 7 else None


def spread_windows(window, token):
    return window // 4 + 4 * (token // 2), window % 4 + 4 * (token % 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("build", "size", "layer", "place", "side", "rows"),
    [
        (twins, (20, 28), 0, in_windows_of_twins, 3, dropout_inputs),
        (maxvit_of_torchvision, (32, 32), 1, spread_windows, 7, softmax_rows),
    ],
)
def test_windows_in_a_dimension_of_their_own_get_a_mask_written_by_hand(
    build, size, layer, place, side, rows
):
    """Weights are [image, window, head, query, key]: neither is in the batch."""
    torch.manual_seed(5)
    model = build().eval().requires_grad_(False)
    for parameter in model.parameters():
        if parameter.ndim > 1:
            parameter.normal_(std=0.2)
    images = torch.randn(3, 3, *size, generator=torch.Generator().manual_seed(9))
    plain = rows(model, images)[layer]
    assert plain.ndim == 5
    seen = torch.ones(plain.shape[1], *plain.shape[-2:])
    for window, query, key in itertools.product(*map(range, seen.shape)):
        a, b = place(window, query), place(window, key)
        if a and b and 2 * max(abs(a[0] - b[0]), abs(a[1] - b[1])) > side:
            seen[window, query, key] = 0.0
    assert 0 < seen.mean() < 1
    expected = plain * seen[None, :, None]
    expected = expected / expected.sum(-1, keepdim=True)
    ns.localise(model, f"window:{side}@{layer + 1}", image_size=size)
    torch.testing.assert_close(rows(model, images)[layer], expected, **NEAR)


class TestVit:
    """What must hold for any model, on a ViT of timm with 2 prefix tokens and a grid of 3x5."""

    @pytest.fixture
    def model(self):
        torch.manual_seed(7)
        return create_model(
            "timm/deit_tiny_distilled_patch16_224", 7, (48, 80), depth=3, embed_dim=24,
        ).eval().requires_grad_(False)  # fmt: skip

    @pytest.fixture
    def images(self):
        return torch.randn(3, 3, 48, 80, generator=torch.Generator().manual_seed(5))

    @pytest.mark.slow
    def test_an_infinite_width_is_the_plain_model(self, model, images):
        plain = model.forward_features(images)
        found = ns.localise(model, math.inf, "all").forward_features(images)
        torch.testing.assert_close(found, plain, atol=1e-6, rtol=1e-6)

    @pytest.mark.slow
    def test_a_width_near_0_is_a_window_of_one_patch(self, model, images):
        narrow = ns.localise(model, 0.02, "all").forward_features(images)
        limit = ns.localise(model, "window:1", "all").forward_features(images)
        torch.testing.assert_close(narrow, limit)

    @pytest.mark.slow
    def test_identity_passes_every_patch_its_own_value(self, model, images):
        layer = ns.localise(model, "identity@last1").blocks[2].attn
        given = torch.randn(2, 17, 24, generator=torch.Generator().manual_seed(9))
        values = layer.qkv(given).unflatten(-1, (3, 24))[:, :, 2]
        torch.testing.assert_close(layer(given)[:, 2:], layer.proj(values)[:, 2:])

    @pytest.mark.slow
    def test_rows_of_prefix_tokens_do_not_change(self, model, images):
        with ns.capture_attention(model) as plain:
            model(images)
        ns.localise(model, 0.7, "last1")
        with ns.capture_attention(model) as local:
            model(images)
        torch.testing.assert_close(local[-1][:, :, :2], plain[-1][:, :, :2])
        assert (local[-1][:, :, 2:] - plain[-1][:, :, 2:]).abs().max() > 0.05

    @pytest.mark.slow
    def test_the_share_of_prefix_tokens_grows_unless_it_is_kept(self, model, images):
        def share(how):
            ns.localise(model, how, None if how is None else "last1")
            return ns.measure_model(model, images, metrics=("sink",)).metrics["sink"].mean[-1]

        plain, grown, kept = share(None), share("gaussian:0.7"), share("gaussian:0.7+keep-share")
        assert (grown > plain + 0.1).all()
        assert kept == pytest.approx(plain, abs=1e-5)

    @pytest.mark.slow
    @pytest.mark.parametrize("how", ["gaussian:0.7", "window:3", "sinks:1.05", "shifted:1"])
    def test_fused_and_explicit_attention_agree(self, model, images, how):
        fused = ns.localise(model, how, "all").forward_features(images)
        for block in model.blocks:
            block.attn.fused_attn = False
        torch.testing.assert_close(model.forward_features(images), fused, atol=1e-5, rtol=1e-5)

    @pytest.mark.slow
    def test_it_is_undone_to_the_byte(self, model, images):
        plain, text = model(images), repr(model)
        keys = {name: set(x.__dict__) for name, x in model.named_modules()}
        weights = {name: x.clone() for name, x in model.state_dict().items()}
        ns.localise(model, 0.7, "all")
        assert not torch.equal(model(images), plain)
        assert "gaussian:0.7@all" in repr(model)
        assert ns.localise(model, None) is model
        assert torch.equal(model(images), plain)
        assert repr(model) == text
        assert {name: set(x.__dict__) for name, x in model.named_modules()} == keys
        assert all(torch.equal(x, weights[name]) for name, x in model.state_dict().items())

    @pytest.mark.slow
    def test_a_forward_that_the_module_itself_had_is_put_back(self, model, images):
        layer = model.blocks[2].attn
        own = layer.forward = lambda x, **kwargs: type(layer).forward(layer, x, **kwargs) * 2
        doubled = model.forward_features(images)
        ns.localise(model, math.inf, "last1")
        torch.testing.assert_close(model.forward_features(images), doubled)
        assert ns.localise(model, None).blocks[2].attn.forward is own

    @pytest.mark.slow
    def test_another_setting_takes_the_place_of_the_first(self, model, images):
        direct = ns.localise(copy.deepcopy(model), "window:3@last1")(images)
        found = ns.localise(ns.localise(model, 0.7, "all"), "window:3@last1")
        assert torch.equal(found(images), direct)
        assert not isinstance(model.blocks[0].attn.forward, LocalForward)

    @pytest.mark.slow
    def test_a_refusal_leaves_the_model_as_it_was(self, model, images):
        local = ns.localise(model, 0.7, "last1")(images)
        with pytest.raises(UserError, match="layers 1 to 3"):
            ns.localise(model, 1.0, "last9")
        assert torch.equal(model(images), local)

    @pytest.mark.slow
    def test_copies_and_pickles_are_local_on_their_own(self, model, images):
        local = ns.localise(model, 0.7, "all")(images)
        for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
            ns.localise(other, None)
            assert torch.equal(model(images), local)
            assert not torch.equal(other(images), local)

    @pytest.mark.slow
    def test_measure_sees_the_local_attention(self, model, images):
        plain = ns.measure_model(model, images, metrics=("mad",)).mad.mean
        found = ns.measure_model(ns.localise(model, 0.5, "last2"), images, metrics=("mad",)).mad
        assert found.mean[0] == pytest.approx(plain[0])
        assert max(found.mean[1].max(), found.mean[2].max()) < 0.1 < min(map(min, plain))

    @pytest.mark.slow
    def test_images_of_another_size_are_refused(self, model):
        ns.localise(model, 0.7)
        with pytest.raises(UserError, match=r"grid of 3x5, .* 8 queries"):
            model.blocks[2].attn(torch.zeros(1, 8, 24))

    @pytest.mark.slow
    def test_it_is_exported_and_runs_in_onnx(self, model, images):
        runtime = pytest.importorskip("onnxruntime", reason="needs the extra 'onnx'")
        local = ns.localise(model, 0.7, "last2")(images)
        dynamic = ({0: torch.export.Dim("batch", min=1, max=64)},)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.export.export(model, (images[:2],), dynamic_shapes=dynamic)
            onnx = torch.onnx.export(program, dynamo=True, optimize=False, verbose=False)
        torch.testing.assert_close(program.module()(images), local, atol=1e-5, rtol=1e-5)
        session = runtime.InferenceSession(onnx.model_proto.SerializeToString())
        (found,) = session.run(None, {session.get_inputs()[0].name: images.numpy()})
        torch.testing.assert_close(torch.from_numpy(found), local, atol=1e-4, rtol=1e-4)
        fused = [str(node.target) for node in program.graph.nodes if "dot_product" in str(node)]
        assert len(fused) == 3


@pytest.mark.slow
def test_a_model_of_ours_is_exported():
    model = create_model("mu").eval().requires_grad_(False)
    images = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(5))
    plain = model.forward_features(images)
    local = ns.localise(model, 0.7, "all")(images)
    assert not torch.allclose(model.forward_features(images), plain, atol=1e-3)
    program = torch.export.export(model, (images,))
    torch.testing.assert_close(program.module()(images), local, atol=1e-5, rtol=1e-5)


def test_a_layer_that_mixes_position_after_the_softmax_is_refused():
    case = BY_NAME["nearsight: compact ConViT, nano, mu"]
    with pytest.raises(UserError, match=r"\blayer blocks\.0\.attn \(GPSA\)"):
        ns.localise(case.model(), 1.0, "1", image_size=case.size)


def test_torchs_multi_head_attention_has_no_logits_for_a_control():
    case = BY_NAME["torchvision: ViT"]
    with pytest.raises(UserError, match="MultiheadAttention"):
        ns.localise(case.model(), 1.0, keep_share=True, layers="last1", image_size=case.size)


def test_a_model_without_patches_is_refused():
    class Pixels(nn.Module):
        image_size = (8, 8)

        def forward(self, images):
            return images.mean((2, 3))

    with pytest.raises(UserError, match=r"\bPixels\b"):
        ns.localise(Pixels())


class CausalViT(nn.Module):
    """A ViT of one layer whose patches attend only to themselves and to earlier patches."""

    def __init__(self):
        super().__init__()
        self.patches = nn.Conv2d(3, 10, 4, 4)
        self.attention = CausalAttention()

    def forward(self, images):
        return self.attention(self.patches(images).flatten(2).mT)


class CausalAttention(nn.Module):
    def forward(self, tokens):
        heads = tokens.unflatten(2, (2, 5)).transpose(1, 2)
        return nn.functional.scaled_dot_product_attention(heads, heads, heads, is_causal=True)


def test_causal_attention_stays_causal():
    torch.manual_seed(3)
    model, images = CausalViT().eval(), torch.randn(2, 3, 12, 20)
    tokens = model.patches(images).flatten(2).mT.unflatten(2, (2, 5)).transpose(1, 2)
    row, col = torch.arange(15) // 5, torch.arange(15) % 5
    far = (row[:, None] - row) ** 2 + (col[:, None] - col) ** 2
    logits = tokens @ tokens.mT * 5**-0.5 - far / (2 * WIDTH**2)
    logits = logits.masked_fill(torch.ones(15, 15).triu(1).bool(), -torch.inf)
    ns.localise(model, f"gaussian:{WIDTH}@1", image_size=(12, 20))
    with torch.no_grad():
        torch.testing.assert_close(model(images), logits.softmax(-1) @ tokens, **NEAR)
