import re
import shutil
from html import unescape
from pathlib import Path

import pytest

pytest.importorskip("bokeh", reason="the report needs Bokeh: pip install adaqn[report]")

from adaqn.analysis.report.document import report_page

RUN = Path(__file__).parents[3] / "results" / "lunar-lander" / "adadqn" / "LunarLander-v3" / "0"
LIBRARY = re.compile(r"<script>.*?</script>", re.DOTALL)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return Path(shutil.copytree(RUN, tmp_path / "lander"))


def text_of(page: str) -> str:
    """What a reader sees without JavaScript."""
    shown = re.sub(r"<style>.*?</style>", "", LIBRARY.sub("", page), flags=re.DOTALL)
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", shown)))


def test_the_page_of_a_run_has_its_results_members_versions_and_the_command_that_repeats_it(run: Path) -> None:
    text = text_of(report_page([run]))

    assert "finished" in text and "200,000 steps" in text and "539 episodes" in text
    assert "final return 237" in text and "mean return over the run 158" in text
    # hidden, activation, optimizer, learning rate, loss, target, acted, return (episodes), diverged, last loss
    assert re.search(r"3 200x200 relu adam 3e-4 l2 95\.0% [\d.]+% 180 \(481\) no 459\b", text)
    assert f"adaqn train --config {run}/config.yaml --run-dir NEW_DIRECTORY" in text
    assert "jax 0.10.2" in text and "target_update_interval: 200" in text


def test_the_page_loads_nothing_from_anywhere(run: Path) -> None:
    page = LIBRARY.sub("", report_page([run]))

    assert re.findall(r"""(?:src|href)\s*=\s*["']?(?!#|data:)([^"'> ]+)""", page) == []
    assert "url(" not in page and "@import" not in page
    assert "connect-src 'none'" in page and "default-src 'none'" in page
