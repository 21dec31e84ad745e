"""axe-core finds nothing serious in any view, light or dark, on a desk or a phone."""

import pytest
from explore.made_pages import made_subject
from explore.made_runs import part_subject, write_looked_run, write_study

from nearsight.explore.exploration import Exploration
from nearsight.explore.targets import explore_targets

RUN = """async () => {
  const {violations} = await axe.run(document, {resultTypes: ['violations']});
  return violations.filter(({impact}) => impact === 'serious' || impact === 'critical')
    .map(({id, nodes}) => `${id}: ${nodes.map(({target}) => target).join(', ')}`);
}"""


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    root = tmp_path_factory.mktemp("access")
    write_looked_run(root / "runs" / "a")
    write_looked_run(root / "runs" / "b", "baseline+cutmix", 1)
    write_study(root / "runs" / "study")
    found = explore_targets([str(root / "runs"), str(root / "runs" / "a")])
    subjects = (made_subject("plain"), made_subject("wide"), part_subject("locat"))
    whole = Exploration("everything", (*subjects, *found.subjects), found.runs, found.studies)
    return whole.write(root / "page.html")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("view", ["explorer", "heads", "runs"])
def test_axe_finds_nothing_serious(open_page, node_modules, page_file, view, width, scheme):
    script = (node_modules / "axe-core" / "axe.min.js").read_text()
    with open_page(page_file, f"#v={view}&pin=1", width=width, scheme=scheme) as page:
        page.eval_on_selector_all("details", "all => all.forEach(each => each.open = true)")
        page.evaluate(f"() => {{ {script}; window.axe = axe; }}")
        assert page.evaluate(RUN) == []
