"""Pretrained weights from a hub: over the network, from the hub's cache, or one sentence."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlparse
from urllib.request import getproxies

from nearsight.core import UserError


@contextmanager
def from_hub(name: str, instead: str = "--weights FILE (or as hf/FOLDER)") -> Iterator[None]:
    """Inside the block weights are fetched; what goes wrong becomes a UserError about ``name``.

    ``instead``: how weights from elsewhere are given.

    Where the Hugging Face hub cannot be found, only its cache is asked: without this, its library
    tries again for most of a minute.
    """
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = before or not _reachable(constants.ENDPOINT)
    try:
        yield
    except (OSError, RuntimeError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        if isinstance(error, OSError) and (constants.HF_HUB_OFFLINE or _no_connection(error)):
            reason = "there is no network here, and they are not in its cache"
        raise UserError(
            f"cannot get the weights of {name} from the hub: {reason.rstrip('.')}; get them where "
            f"there is a network and give them as {instead}"
        ) from error
    finally:
        constants.HF_HUB_OFFLINE = before


def _reachable(address: str) -> bool:
    """Whether the hub's name is known here, or a proxy may know it."""
    if getproxies():
        return True
    try:
        socket.getaddrinfo(urlparse(address).hostname, None)
    except OSError:
        return False
    return True


def _no_connection(error: BaseException) -> bool:
    """Whether the address could not be found: ``URLError`` holds that as its reason."""
    return isinstance(getattr(error, "reason", error), socket.gaierror)
