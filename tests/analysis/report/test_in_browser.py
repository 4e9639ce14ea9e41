import json
import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("bokeh", reason="the report needs Bokeh: pip install adaqn[report]")

from adaqn.analysis.report.document import report_page
from adaqn.analysis.report.live import server
from adaqn.analysis.summary import summarize
from tests.analysis.report.chromium import Browser, browser, chromium_path
from tests.analysis.report.test_study_page import STUDY

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(chromium_path() is None, reason="needs Chromium: apt-get install chromium"),
]
# Every chart is drawn when Bokeh has a canvas in each place for one.
READY = (
    "Bokeh.documents.length > 0 && [...document.querySelectorAll('[data-root-id]')].every("
    "place => place.offsetParent === null || place.querySelector('.bk-Figure')?.shadowRoot)"
)


@pytest.fixture(scope="module")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two arms, one of them named as an element of HTML."""
    root = tmp_path_factory.mktemp("results") / "small"
    for arm, name in (("adadqn", "adadqn"), ("dqn-25x25", "<script>alert(1)<")):
        for seed in ("0", "1"):
            shutil.copytree(STUDY / arm / "LunarLander-v3" / seed, root / name / "LunarLander-v3" / seed)
    return root


@pytest.fixture(scope="module")
def page(study: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("page") / "report.html"
    path.write_text(report_page([study, study / "adadqn" / "LunarLander-v3" / "0"]))
    return path.as_uri()


def test_the_page_loads_without_complaints_or_requests_and_fits_a_phone(chromium: Browser, page: str) -> None:
    for width, dark in ((1280, False), (390, True)):
        chromium.events.clear()
        chromium.resize(width, dark=dark)
        chromium.open(page, READY)
        assert chromium.value("document.documentElement.scrollWidth") <= width
        table = "document.querySelector('#summary').parentElement"
        assert width < 600 or chromium.value(f"{table}.scrollWidth <= {table}.clientWidth"), "a column is cut off"
        assert chromium.value("document.querySelectorAll('[data-root-id]').length") == 5 + 4
        ink = chromium.value("getComputedStyle(document.body).color")
        assert ink == ("rgb(230, 232, 234)" if dark else "rgb(28, 32, 36)")
        axis = "[...Bokeh.documents[0].all_models].find(model => model.type === 'LinearAxis').axis_label_text_color"
        chromium.wait(f"{axis} === '{'#a3abb3' if dark else '#5b646d'}'")
        assert chromium.complaints == []
        assert chromium.requests == [page]


def test_an_arm_named_script_is_text_and_the_table_sorts_by_the_numbers_of_the_summary(
    chromium: Browser, page: str, study: Path
) -> None:
    chromium.resize(1280)
    chromium.open(page, READY)
    assert chromium.value("[...document.querySelectorAll('#summary td:first-child')].map(c => c.textContent)") == [
        "AdaDQN", "<script>alert(1)<",
    ]  # fmt: skip
    finals = [row["final"]["value"] for row in summarize(study).to_dict()["rows"]]
    column = "[...document.querySelectorAll('#summary tbody tr')].map(row => Number(row.cells[2].dataset.value))"
    for ordered in (sorted(finals, reverse=True), sorted(finals)):
        chromium.value("document.querySelectorAll('#summary thead button')[2].click()")
        assert chromium.value(column) == ordered
    assert chromium.value("document.querySelectorAll('#summary th')[2].ariaSort") == "ascending"


def test_a_click_on_a_legend_hides_a_curve(chromium: Browser, page: str) -> None:
    chromium.resize(1280)
    chromium.open(page, READY)
    # The place of the first entry of the legend of the first chart, on the page.
    place = chromium.value("""(() => {
        const chart = document.querySelector("[data-root-id]");
        const found = [];
        const search = (root) => {
            for (const one of root.querySelectorAll("*")) {
                if (one.className === "bk-item") found.push(one);
                if (one.shadowRoot) search(one.shadowRoot);
            }
        };
        search(chart);
        found[0]?.scrollIntoView({block: "center"});
        const box = found[0]?.getBoundingClientRect();
        return box ? [box.x + box.width / 2, box.y + box.height / 2, found.length] : null;
    })()""")
    assert place is not None and place[2] == 2
    hidden = """[...Bokeh.documents[0].all_models].filter(model => model.type === "GlyphRenderer" && !model.visible)
        .map(renderer => renderer.data_source.data.arm[0])"""
    assert chromium.value(hidden) == []
    chromium.click(*place[:2])
    chromium.wait(f'JSON.stringify({hidden}) === \'["AdaDQN","AdaDQN"]\'')  # the curve and its interval


def test_the_live_page_reloads_when_the_run_is_finished_and_keeps_what_was_chosen(
    chromium: Browser, study: Path, tmp_path: Path
) -> None:
    run = Path(shutil.copytree(study / "adadqn" / "LunarLander-v3" / "0", tmp_path / "run"))
    summary = (run / "summary.json").rename(tmp_path / "summary.json")
    first = json.loads((run / "members.jsonl").read_text())
    second = {"step": 1000, "generation": 1, "members": [m | {"parent": 0, "loss": "huber"} for m in first["members"]]}
    (run / "members.jsonl").write_text(json.dumps(first) + "\n" + json.dumps(second) + "\n")
    with server([run]) as serving:
        thread = threading.Thread(target=serving.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            chromium.events.clear()
            address = f"http://127.0.0.1:{serving.server_port}/"
            chromium.open(address, READY)
            assert "no process is working on it" in chromium.value("document.body.innerText")
            chromium.value(
                "const select = document.querySelector('select'); select.selectedIndex = 1;"
                "select.dispatchEvent(new Event('change'))"
            )
            shutil.copy(summary, run / "summary.json")
            chromium.wait("document.querySelector('.status')?.textContent === 'finished'")
            chromium.wait("document.querySelector('select')?.selectedIndex === 1")
            shown = "[...document.querySelectorAll('.choice')].filter(one => !one.hidden).map(one => one.dataset.label)"
            assert chromium.value(shown) == ["loss"]
            assert {re.sub(r"state$", "", url) for url in chromium.requests} == {address}
            assert chromium.complaints == []
            chromium.call("Page.navigate", url="about:blank")
        finally:
            serving.shutdown()
            thread.join()
