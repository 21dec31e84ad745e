"""``nearsight explore --serve``: run the server until it is interrupted."""

from __future__ import annotations

import secrets
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from nearsight.core import UserError
from nearsight.explore.server.guard import is_loopback


def serve_folders(
    folders: Sequence[Path],
    host: str = "127.0.0.1",
    port: int = 8000,
    data_root: Path | None = None,
) -> None:
    """Serve the runs below some folders until Ctrl-C.

    Only this machine can reach the server unless ``host`` says otherwise; then everybody who can
    reach the port sees the runs, and the command says so.

    Raises:
        UserError: without the extra ``web``, or where a folder or the port cannot be had.
    """
    try:
        import uvicorn

        from nearsight.explore.server.web_app import create_app
    except ImportError as error:
        raise UserError(
            f"--serve needs {error.name}, which is not installed: run "
            "pip install '.[web]' in nearsight's folder"
        ) from error
    from nearsight.explore.server.served_folders import ServedFolders

    library = ServedFolders(folders, data_root)
    token = secrets.token_urlsafe(32)
    if not is_loopback(host):
        print(
            f"nearsight: everybody who can reach {host} sees the runs in {library.title}",
            file=sys.stderr,
        )
    config = uvicorn.Config(
        create_app(library, host, token), host=host, port=port, log_level="warning",
        server_header=False, ws="none", timeout_keep_alive=5,
    )  # fmt: skip
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listening = socket.create_server((host, port), family=family)
    except OSError as error:
        raise UserError(
            f"cannot listen on port {port} of {host} ({error.strerror}); give another with --port"
        ) from None
    with listening:
        shown = f"[{host}]" if ":" in host else host
        print(f"http://{shown}:{listening.getsockname()[1]}/", flush=True)
        uvicorn.Server(config).run(sockets=[listening])
