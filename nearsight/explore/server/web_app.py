"""Build the web application: the page, its script and style, and the data that it requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import FastAPI, HTTPException, Path, Request, Response
from fastapi.responses import HTMLResponse
from starlette.concurrency import run_in_threadpool

from nearsight.core import UserError
from nearsight.explore.document import SCRIPT, STYLE, read_bundled, served_html
from nearsight.explore.server import responses
from nearsight.explore.server.guard import Guard
from nearsight.explore.server.served_folders import ServedFolders, Unknown
from nearsight.explore.server.uploads import TooLarge, decoded_image, read_limited

Key = Annotated[str, Path(pattern="^[0-9a-f]{16}$")]
ERRORS: dict[int | str, dict[str, Any]] = {
    403: {"description": "The token of the page is missing."},
    404: {"description": "There is no such run."},
    409: {"description": "The run cannot be shown."},
    413: {"description": "The image is too large."},
    421: {"description": "The request is for another host."},
}


def create_app(library: ServedFolders, host: str, token: str) -> FastAPI:
    """Build the application that serves the given folders.

    Args:
        library: The runs and studies to serve.
        host: The address of the server. Requests for other hosts are refused.
        token: The secret that requests must contain if they make the server compute.
    """
    app = FastAPI(title="nearsight explore", docs_url=None, redoc_url=None, openapi_url=None)
    app.add_middleware(Guard, host=host, token=token)

    @app.get("/", response_class=HTMLResponse)
    def page() -> str:
        return served_html(f"{library.title} · nearsight", token)

    @app.get(f"/{SCRIPT}", response_class=Response)
    def script() -> Response:
        return Response(read_bundled(SCRIPT), media_type="text/javascript")

    @app.get(f"/{STYLE}", response_class=Response)
    def style() -> Response:
        return Response(read_bundled(STYLE), media_type="text/css")

    @app.get("/api/contents", response_model=responses.Contents)
    def contents() -> dict[str, Any]:
        return library.contents()

    @app.get("/api/runs/{key}", response_model=responses.ModelContent, responses=ERRORS)
    def model(key: Key) -> dict[str, Any]:
        return _answer(lambda: library.model(key))

    @app.post(
        "/api/runs/{key}/images",
        response_model=responses.ExamplesContent,
        responses=ERRORS,
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {
                    "application/octet-stream": {"schema": {"type": "string", "format": "binary"}}
                },
            }
        },
    )
    async def see(key: Key, request: Request) -> dict[str, Any]:
        try:
            content = await read_limited(request.stream(), request.headers.get("content-length"))
        except TooLarge as error:
            raise HTTPException(413, page_sentence(error)) from None
        return await run_in_threadpool(_answer, lambda: library.see(key, decoded_image(content)))

    return app


def _answer(ask: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the answer of ``ask``, or an HTTP error with a sentence for errors of the user."""
    try:
        return ask()
    except Unknown:
        raise HTTPException(404, "There is no such run.") from None
    except TooLarge as error:
        raise HTTPException(413, page_sentence(error)) from None
    except (UserError, OSError, KeyError, TypeError, ValueError) as error:
        # A run's files may be damaged in any way, so every exception is reported to the user.
        is_known = isinstance(error, UserError)
        words = page_sentence(error) if is_known else "The files of this run are damaged."
        raise HTTPException(409, words) from None


def page_sentence(error: Exception) -> str:
    """Return an error as a sentence for the page, which shows it without any words around it.

    >>> page_sentence(UserError("this run has no weights")), page_sentence(UserError("a/b is gone"))
    ('This run has no weights.', 'a/b is gone.')
    """
    text = str(error)
    if text.partition(" ")[0].isalpha():
        text = f"{text[0].upper()}{text[1:]}"
    return text if text.endswith((".", "?")) else f"{text}."
