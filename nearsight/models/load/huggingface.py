"""Load vision models of Hugging Face's transformers (needs the extra ``hf``).

Attention runs through torch's fused function (``sdpa``), in float32. If a model has a tower for
text and one for images (CLIP, SigLIP), only the vision tower is loaded. Code in a repository is
never executed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from PIL import Image
from torch import nn

from nearsight.core import UserError, is_out_of_memory
from nearsight.data.input import Preprocessing
from nearsight.models.compat import declare_missing_ops
from nearsight.models.load.hub import from_hub

TOWERS = ("vision_model", "vision_tower")
PROCESSORS = ("preprocessor_config.json", "processor_config.json")
UNUSED = ("pooler", "mask_token")  # these weights may be missing: attention does not use them
USUAL_SIZE = 224
LONGEST = 300  # how many characters of another library's error are shown
NUM_NAMED = 5  # how many missing weights an error names


def fresh_model(name: str, options: dict[str, Any]) -> nn.Module:
    """Build the architecture of a repository or a folder with random weights.

    Raises:
        UserError: If options are given, or the architecture cannot be read.
    """
    if options:
        raise UserError(f"hf/{name} has no option {', '.join(options)}; remove it")
    library = _library()
    with _finding(name):
        config = library.AutoConfig.from_pretrained(name, trust_remote_code=False)
        model = library.AutoModel.from_config(config, attn_implementation="sdpa")
    return _vision_part(model, name)[1]


def pretrained_model(name: str) -> nn.Module:
    """Load the model of a repository or a folder with its weights, in evaluation mode.

    Raises:
        UserError: If the model cannot be read, or weights that attention needs are missing.
    """
    library = _library()
    with _quiet(library), _finding(name):
        model, loaded = library.AutoModel.from_pretrained(
            name, attn_implementation="sdpa", trust_remote_code=False, output_loading_info=True
        )
    place, part = _vision_part(model, name)
    missing = sorted(
        weight
        for weight in loaded["missing_keys"]
        if weight.startswith(place) and not any(word in weight for word in UNUSED)
    )
    if missing:
        more = f" and {len(missing) - NUM_NAMED} more" * (len(missing) > NUM_NAMED)
        raise UserError(
            f"hf/{name} lacks weights of {type(part).__name__} ({', '.join(missing[:NUM_NAMED])}"
            f"{more}); choose a repository with all weights"
        )
    return part.float().eval()  # some repositories hold half precision


def preprocessing_of(name: str, model: nn.Module) -> Preprocessing:
    """Return the preprocessing of a repository or folder; without one, ImageNet's usual one.

    Raises:
        UserError: If the settings of its image processor cannot be used.
    """
    library = _library()
    config: Any = model.config
    source = f"the image processor of hf/{name}"
    try:
        with _quiet(library), _finding(name):
            processor = library.AutoImageProcessor.from_pretrained(name, trust_remote_code=False)
    except UserError:
        if any((Path(name) / file).exists() for file in PROCESSORS):
            raise
    else:
        facts = processor.to_dict()
        if "size" in facts and "image_mean" in facts:
            try:
                return of_processor(facts, "the image processor of the repository")
            except (ValueError, KeyError, TypeError, AttributeError, ArithmeticError) as error:
                raise UserError(
                    f"{source} is damaged or of an unknown kind ({type(error).__name__}: {error}); "
                    "repair its preprocessor_config.json"
                ) from None
    size = getattr(config, "image_size", None) or USUAL_SIZE
    rows, cols = (size, size) if isinstance(size, int) else size
    usual = "ImageNet's mean and deviation, as the repository has no image processor we know"
    return Preprocessing(usual, (rows, cols), (rows, cols))


def of_processor(facts: dict[str, Any], source: str) -> Preprocessing:
    """Return the preprocessing that the settings of an image processor describe.

    Args:
        facts: The settings.
        source: Where they come from, in words.

    Raises:
        KeyError: If the settings have another form.
    """
    size, crop = facts["size"], facts.get("crop_size") if facts.get("do_center_crop") else None
    keep_ratio = "shortest_edge" in size
    resize = (size["shortest_edge"],) * 2 if keep_ratio else (size["height"], size["width"])
    white = 255 * facts["rescale_factor"] if facts.get("do_rescale", True) else 255.0
    mean, std = facts["image_mean"], facts["image_std"]
    if not facts.get("do_normalize", True):
        mean, std = (0.0,) * 3, (1.0,) * 3
    return Preprocessing(
        source,
        resize if facts.get("do_resize", True) else None,
        (crop["height"], crop["width"]) if crop else resize,
        keep_ratio=keep_ratio,
        interpolation=Image.Resampling(facts["resample"]).name.lower(),
        mean=tuple(value / white for value in mean),
        std=tuple(value / white for value in std),
    )


def _library() -> Any:
    """Return the package transformers.

    Raises:
        UserError: If it is not installed.
    """
    if find_spec("transformers") is None:
        raise UserError(
            "models whose names start with hf/ need the package transformers, which is not "
            "installed; run pip install '.[hf]' in nearsight's folder"
        )
    declare_missing_ops()
    import transformers

    return transformers


@contextmanager
def _quiet(library: Any) -> Iterator[None]:
    """Suppress the library's progress bars and its warnings about heads that are left out."""
    logging = library.utils.logging
    bars, verbosity = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


@contextmanager
def _finding(name: str) -> Iterator[None]:
    """Turn errors while a model is looked up and read inside the block into a short UserError."""
    is_folder = Path(name).is_dir()
    if not is_folder and (name.startswith((".", "/", "~")) or name.count("/") != 1):
        raise UserError(
            f"hf/{name} is not a model: there is no folder {name}; write hf/OWNER/NAME or hf/FOLDER"
        )
    try:
        with nullcontext() if is_folder else from_hub(f"hf/{name}"):
            yield
    except UserError:
        raise
    except ValueError as error:
        raise UserError(" ".join(str(error).split()).split(". ")[0][:LONGEST]) from error
    except Exception as error:  # files that are cut off or hold odd values raise many classes
        if is_out_of_memory(error):
            raise
        reason = " ".join(str(error).split()).split(". ")[0][:LONGEST]
        reason = reason or type(error).__name__
        raise UserError(
            f"{name} does not hold a model that transformers can read ({reason.rstrip('.')}); "
            "download it again, or check the name"
        ) from error


def _vision_part(model: nn.Module, name: str) -> tuple[str, nn.Module]:
    """Return the part of a model that takes images, after its path (such as ``vision_model.``)."""
    for tower in TOWERS:
        if isinstance(getattr(model, tower, None), nn.Module):
            return f"{tower}.", getattr(model, tower)
    takes = getattr(model, "main_input_name", "pixel_values")
    if takes != "pixel_values":
        raise UserError(
            f"hf/{name} is not a vision model, because {type(model).__name__} takes {takes}; "
            "choose a model that takes images"
        )
    return "", model
