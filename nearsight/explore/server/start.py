"""Run the server of ``nearsight explore --serve`` until it is interrupted."""

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

    By default only this machine can reach the server. With another ``host``, everybody who can
    reach the port sees the runs, and the command prints a warning.

    Raises:
        UserError: If the extra ``web`` is not installed, a folder does not exist, or the port is in
            use.
    """
    try:
        import uvicorn

        from nearsight.explore.server.web_app import create_app
    except ImportError as error:
        raise UserError(
            f"--serve needs {error.name}, which is not installed; run pip install '.[web]' in "
            "nearsight's folder"
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
            f"the server cannot listen on port {port} of {host} ({error.strerror}); choose another "
            "port with --port"
        ) from None
    with listening:
        shown = f"[{host}]" if ":" in host else host
        print(f"http://{shown}:{listening.getsockname()[1]}/", flush=True)
        uvicorn.Server(config).run(sockets=[listening])
