"""Pages opened in a real Chromium from disk with networking off."""

from contextlib import contextmanager
from pathlib import Path

import pytest
from explore.made_pages import made_exploration

PAGE = Path(__file__).parents[2] / "nearsight" / "explore" / "page"


@pytest.fixture(scope="session")
def node_modules():
    """The tools of the front end: ``npm ci`` in nearsight/explore/page, as ``make page`` does."""
    if not (PAGE / "node_modules").is_dir():
        pytest.skip("no node_modules: run make page")
    return PAGE / "node_modules"


@pytest.fixture(scope="session")
def pages(tmp_path_factory):
    """Files of explorations by the models in them, written once."""
    folder = tmp_path_factory.mktemp("pages")
    written = {}

    def page_of(*names):
        if names not in written:
            written[names] = made_exploration(*names).write(folder / f"{'-'.join(names)}.html")
        return written[names]

    return page_of


@pytest.fixture
def open_page(browser):
    """Open a file without a network; requests and errors are collected, and there must be none."""

    @contextmanager
    def opened(path, address="", *, width=1280, height=900, scheme="light", errors=()):
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=scheme, offline=True
        )
        page = context.new_page()
        requests, told = [], []
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", lambda message: told.append(message.text))
        page.on("pageerror", lambda error: told.append(str(error)))
        page.goto(path.as_uri() + address)
        page.wait_for_selector("html[data-ready]")
        page.evaluate("new Promise(requestAnimationFrame)")
        yield page
        outside = [url for url in requests if not url.startswith(("data:", "blob:"))]
        assert {url.split("#")[0] for url in outside} == {path.as_uri()}
        assert told == list(errors)
        context.close()

    return opened
