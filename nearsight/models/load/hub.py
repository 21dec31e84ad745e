"""Get pretrained weights from a hub, over the network or from the hub's cache."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlparse
from urllib.request import getproxies

from nearsight.core import UserError


@contextmanager
def from_hub(name: str, instead: str = "--weights FILE (or as hf/FOLDER)") -> Iterator[None]:
    """Turn errors while weights are fetched inside the ``with`` block into a UserError.

    If the address of the Hugging Face hub cannot be found, only the hub's cache is used. Otherwise
    its library would try again and again for most of a minute.

    Args:
        name: The model whose weights are fetched, for the message.
        instead: How else the user can pass weights, for the message.
    """
    from huggingface_hub import constants

    before = constants.HF_HUB_OFFLINE
    constants.HF_HUB_OFFLINE = before or not _reachable(constants.ENDPOINT)
    try:
        yield
    except (OSError, RuntimeError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        if isinstance(error, OSError) and (constants.HF_HUB_OFFLINE or _no_connection(error)):
            reason = "there is no network here, and they are not in the hub's cache"
        raise UserError(
            f"cannot get the weights of {name} from the hub: {reason.rstrip('.')}; download them "
            f"on a machine with a network and pass them as {instead}"
        ) from error
    finally:
        constants.HF_HUB_OFFLINE = before


def _reachable(address: str) -> bool:
    """Return whether the address of the hub can be looked up, or a proxy may look it up."""
    if getproxies():
        return True
    try:
        socket.getaddrinfo(urlparse(address).hostname, None)
    except OSError:
        return False
    return True


def _no_connection(error: BaseException) -> bool:
    """Return whether an error, or the reason of a ``URLError``, is that no address was found."""
    return isinstance(getattr(error, "reason", error), socket.gaierror)
