"""Define the subcommands of ``nearsight data``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from nearsight.cli.shared import App, DataRoot, Result, examples
from nearsight.core import show_progress

data_app = App(
    help="Fetch, list, check and import data sets.",
    epilog=examples("nearsight data list", "nearsight data fetch cifar100"),
    rich_markup_mode=None,
)


@data_app.command(
    "list", epilog=examples("nearsight data list", "nearsight data list --data-root /data --json")
)
def list_data(data_root: DataRoot = None) -> Result:
    """List the known data sets and whether they are present."""
    from nearsight.data.sets import list_datasets

    rows = list_datasets(data_root)
    for row in rows:
        print(f"{row.name:15}{row.state:10}{row.place}")
    return Result(content=[{"name": x.name, "state": x.state, "place": x.place} for x in rows])


@data_app.command(
    "fetch",
    epilog=examples(
        "nearsight data fetch cifar100", "nearsight data fetch tiny-imagenet --data-root /data"
    ),
)
def fetch_data(
    name: Annotated[str, typer.Argument(help="A data set of `nearsight data list`.")],
    data_root: DataRoot = None,
) -> Result:
    """Download, check and unpack a data set.

    If a download was interrupted, run the command again to continue it.
    """
    from nearsight.data.fetch import fetch_dataset

    with show_progress(f"fetching {name}", megabytes=True) as count:
        folder = fetch_dataset(name, data_root, progress=count)
    print(folder)
    return Result((folder,))


@data_app.command(
    "check",
    epilog=examples("nearsight data check cifar100", "nearsight data check /data/my-images"),
)
def check_data(
    name: Annotated[str, typer.Argument(help="A data set, or the path of an image folder.")],
    data_root: DataRoot = None,
) -> Result:
    """Read a whole data set and check that it is the official one."""
    from nearsight.data.sets import NOT_OFFICIAL, check_dataset, dataset_name
    from nearsight.runs.records import origin_text

    found = check_dataset(dataset_name(name, data_root), data_root)
    print(
        f"{found.name} ({origin_text(found.verdict)}): {found.num_train:,} training and "
        f"{found.num_test:,} test images of {found.num_classes} classes, hash {found.hash}"
    )
    if found.verdict == NOT_OFFICIAL:
        print("All files can be read, but their contents are not those of the official archive.")
    for note in found.notes:
        print(note)
    return Result(content=asdict(found))


@data_app.command(
    "cache", epilog=examples("nearsight data cache", "nearsight data cache --delete all")
)
def show_caches(
    delete: Annotated[
        str | None, typer.Option(metavar="KEY", help="Delete the cache with this key, or all.")
    ] = None,
    data_root: DataRoot = None,
) -> Result:
    """List or delete what `nearsight evaluate` has cached.

    The caches contain the features of models, and the results computed from them.
    """
    from nearsight.evaluate.features import cache_root, delete_cache, stored_caches

    folder = cache_root(data_root)
    caches = stored_caches(folder)
    if delete is not None:
        chosen = [each.key for each in caches] if delete == "all" else [delete]
        for key in chosen:
            delete_cache(folder, key)
        print(f"Deleted {len(chosen)} caches in {folder}.")
        return Result(content={"deleted": chosen})
    for each in caches:
        print(f"{each.key}  {each.num_bytes / 1e6:9.1f} MB  {each.text}")
    print(f"{len(caches)} caches, {sum(x.num_bytes for x in caches) / 1e9:.2f} GB in {folder}")
    return Result(content=[asdict(each) for each in caches])


@data_app.command(
    "import",
    epilog=examples(
        "nearsight data import ~/cifar-100-binary.tar.gz",
        "nearsight data import ~/tiny-imagenet-200 --data-root /data",
    ),
)
def import_data(
    given: Annotated[
        Path, typer.Argument(metavar="PATH", help="An unpacked folder or an official archive.")
    ],
    data_root: DataRoot = None,
) -> Result:
    """Copy a data set that you already have to the data folder.

    The data set is recognised by its files and checked.
    """
    from nearsight.data.fetch import import_folder

    folder = import_folder(given, data_root)
    print(folder)
    return Result((folder,))


@data_app.command(
    "register",
    epilog=examples(
        "nearsight data register imagenet /data/imagenet",
        "nearsight data register birds ~/birds",
    ),
)
def register_data(
    name: Annotated[
        str, typer.Argument(help="imagenet, imagenet-100, mini-imagenet, or a name you choose.")
    ],
    folder: Annotated[
        Path,
        typer.Argument(help="A folder that contains train/CLASS/ and val/CLASS/ or test/CLASS/."),
    ],
    data_root: DataRoot = None,
) -> Result:
    """Give an image folder a name that --data accepts."""
    from nearsight.data.sets import register_dataset

    found = register_dataset(name, folder, data_root)
    print(
        f"{found.name}: {found.num_train} training and {found.num_test} test images of "
        f"{found.num_classes} classes, hash {found.identity}, in {found.folder}"
    )
    return Result(content=asdict(found))
