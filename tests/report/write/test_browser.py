"""The page in a real browser: nothing fetched, no errors, no overflow, both themes readable."""

import urllib.parse

import pytest
from report.example_runs import write_pair, write_run
from study.example_folders import a_study

from nearsight.explore import write_report
from nearsight.models.layers.grid import Grid
from nearsight.study.show.study_page import study_report

CONTRAST = """() => {
  const luminance = (css) => {
    const [r, g, b] = css.match(/[\\d.]+/g).map(Number).map(v => v / 255)
      .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const paper = luminance(getComputedStyle(document.body).backgroundColor);
  const ratio = (css) => {
    const ink = luminance(css);
    return (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05);
  };
  const html = [...document.querySelectorAll('p, td, th, dt, dd, h1, h2, h3, a, summary, small')]
    .map(e => ratio(getComputedStyle(e).color));
  const svg = [...document.querySelectorAll('figure:not([id^=head]) .panels svg text')]
    .map(e => ratio(getComputedStyle(e).fill));
  return [Math.min(...html), Math.min(...svg), svg.length];
}"""


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    root = tmp_path_factory.mktemp("browser")
    long_name = "vit_base_patch14_reg4_dinov2.lvd142m"
    other = write_run(root / "c", depth=2, grid=Grid(5, 7), model=long_name)
    runs = [*write_pair(root, seeds=(0, 1)), other]
    return write_report(runs, root / "report.html")


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    root = tmp_path_factory.mktemp("study")
    return study_report(a_study(root / "out", data="cifar100", whole=True), root / "study.html")


@pytest.mark.parametrize("which", ["report", "study"])
@pytest.mark.parametrize("width", [375, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_opens_alone_and_fits(browser, request, which, width, scheme):
    report = request.getfixturevalue(which)
    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    requests, errors = [], []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: errors.append(message.text))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(report.as_uri())
    page.eval_on_selector_all("details", "all => all.forEach(each => each.open = true)")
    assert [url for url in requests if not url.startswith("data:")] == [report.as_uri()]
    assert errors == []
    assert page.evaluate("document.documentElement.scrollWidth") == width
    html, svg, count = page.evaluate(CONTRAST)
    assert count > 50
    assert html >= 4.5
    assert svg >= 4.5
    page.close()


def test_figures_keep_their_text_size_on_a_phone(browser, report):
    page = browser.new_page(viewport={"width": 375, "height": 800})
    page.goto(report.as_uri())
    heights = page.eval_on_selector_all(
        "#mad-profiles-1 svg text", "all => all.map(each => each.getBoundingClientRect().height)"
    )
    assert heights
    assert min(min(heights), 9) == 9
    page.close()


def test_a_download_in_the_browser_is_the_file_in_the_link(browser, report):
    page = browser.new_page()
    page.goto(report.as_uri())
    with page.expect_download() as download:
        page.click('a[download="conditions.csv"]')
    text = download.value.path().read_text()
    assert text.startswith("condition,model,data,grid,seeds,accuracy")
    assert len(text.splitlines()) == 4
    assert urllib.parse.urlparse(download.value.url).scheme == "data"
    page.close()


def test_the_page_prints_to_paper(browser, report):
    page = browser.new_page()
    page.goto(report.as_uri())
    assert page.pdf(format="A4").startswith(b"%PDF")
    page.close()
