import http.client
import json
import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("bokeh", reason="the report needs Bokeh: pip install adaqn[report]")

from adaqn.analysis.page import Page
from adaqn.analysis.report.document import report_page
from adaqn.analysis.report.live import HOST, ReportServer, server
from adaqn.analysis.report.study import curves_chart
from adaqn.analysis.scores import StudyScores
from adaqn.analysis.study import read_results
from adaqn.analysis.summary import summarize
from adaqn.base.errors import UserError
from tests.analysis.report.test_run_page import SCRIPTS, text_of
from tests.analysis.study_files import THREE, write_run

STUDY = Path(__file__).parents[3] / "results" / "lunar-lander"


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """Two arms, two seeds, short."""
    root = tmp_path / "small"
    for arm in ("adadqn", "dqn-25x25"):
        for seed in ("0", "1"):
            shutil.copytree(STUDY / arm / "LunarLander-v3" / seed, root / arm / "LunarLander-v3" / seed)
    return root


def test_the_numbers_of_a_study_are_those_of_its_summary(study: Path) -> None:
    page = report_page([study])
    summary = summarize(study).to_dict()
    table = re.search(r'<table[^>]*id="summary".*?</table>', page, re.DOTALL)
    assert table is not None
    rows = re.findall(r"<tr.*?</tr>", table.group(), re.DOTALL)[1:]
    assert len(rows) == len(summary["rows"]) == 2
    for shown, row in zip(rows, summary["rows"], strict=True):
        values = [float(value) if value else None for value in re.findall(r'data-value="([^"]*)"', shown)]
        estimates = [row[name] and row[name]["value"] for name in ("auc_behind_main", "main_improves")]
        assert values == [
            row["runs"], row["final"]["value"], row["auc"]["value"], row["worst_final"], row["worst_auc"], *estimates,
            row["steps_per_run"], row["seconds_per_run"],
        ]  # fmt: skip
        low, high = re.findall(r"\[(-?[\d.,]+), (-?[\d.,]+)\]", shown)[0]
        assert float(low) == pytest.approx(row["final"]["low"], abs=0.5)
        assert float(high) == pytest.approx(row["final"]["high"], abs=0.5)
    assert "4 finished" in text_of(page)
    (study / "study.yaml").write_text("name: widths\nabout: Does the width matter?\n")
    assert "widths: Does the width matter?" in text_of(report_page([study]))
    # curves, two charts of shares, ranking, profiles
    assert page.count('data-root-id="') == 5
    assert "1 AdaDQN 1" in text_of(page)  # its rank


def test_few_seeds_are_said_with_care(study: Path) -> None:
    text = text_of(report_page([study]))
    assert "In these runs its AUC was higher than that of DQN 25x25: the 95% interval of the difference" in text
    assert "This rests on 2 seeds per arm, which is few: bootstrap intervals over fewer than 10 seeds are too" in text


def test_many_seeds_in_two_environments_are_counted(tmp_path: Path) -> None:
    for environment in ("A", "B"):
        for seed in range(10):
            write_run(tmp_path, "adadqn", environment, seed, [5.0 + 0.1 * seed, 9.0], members=THREE)
            write_run(tmp_path, "dqn-8x8", environment, seed, [1.0 + 0.1 * seed, 2.0], algo="dqn", members=THREE[:1])
    text = text_of(report_page([tmp_path]))
    assert "This rests on 10 seeds per arm and environment. The intervals are" in text


def test_a_study_in_a_space_shows_the_selected_values(tmp_path: Path) -> None:
    for seed in (0, 1):
        write_run(tmp_path, "adadqn", "E", seed, [1.0, 2.0], space="vectors", generations=2)
    page = report_page([tmp_path])
    text = text_of(page)
    assert "AdaDQN in E: learning rate of the target member, over all seeds" in text
    assert "AdaDQN in E: MLP neurons of the target member, over all seeds" in text
    # curves, two charts of values, ranking, profiles
    assert page.count('data-root-id="') == 5


def test_failures_damage_and_unfinished_runs_are_named_and_left_out(study: Path) -> None:
    logs = study / "logs" / "adadqn" / "LunarLander-v3"
    logs.mkdir(parents=True)
    (logs / "9.failed").write_text(json.dumps({"reason": "out of <b>memory</b>"}))
    (logs / "9.log").write_text("\n".join(f"line {n}" for n in range(100)) + "\n<script>boom</script>\n")
    (study / "dqn-25x25" / "LunarLander-v3" / "1" / "episodes.csv").write_text("step,return,length\nx\n")
    (study / "adadqn" / "LunarLander-v3" / "1" / "summary.json").unlink()

    page = report_page([study])
    text = text_of(page)

    assert "out of <b>memory</b>" in text and "<script>boom</script>" in text and "<script>boom" not in page
    assert "line 99" in text and "line 30 " not in text  # the end of the log only
    assert "is damaged" in text and "adadqn/LunarLander-v3/1 is not finished" in text
    assert "2 finished" in text and "1 failed" in text and "1 damaged" in text and "1 interrupted" in text
    assert page.count('data-root-id="') == 5


def test_a_study_without_a_finished_run_says_so(study: Path) -> None:
    for path in study.glob("*/*/*/summary.json"):
        path.unlink()
    text = text_of(report_page([study]))
    assert "No run of this study is finished" in text and "4 interrupted" in text


def test_an_arm_named_script_is_shown_as_text(study: Path) -> None:
    (study / "dqn-25x25").rename(study / "<script>alert(1)<")
    page = report_page([study])
    assert "<script>alert" not in page and "&lt;script&gt;alert(1)&lt;" in page
    assert page.count("<script>") == 3


def test_several_runs_are_compared_and_shown_one_by_one(study: Path) -> None:
    paths = [study / "adadqn" / "LunarLander-v3" / "0", study / "dqn-25x25" / "LunarLander-v3" / "0"]
    page = report_page(paths)
    text = text_of(page)
    assert "Runs compared" in text and "adadqn, LunarLander-v3, seed 0" in text
    assert "This run trains a single set of hyperparameters" in text
    assert page.count('data-root-id="') == 1 + 4 + 1


@pytest.fixture
def serving(study: Path) -> Iterator[ReportServer]:
    with server([study / "dqn-25x25" / "LunarLander-v3" / "0"]) as found:
        thread = threading.Thread(target=found.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield found
        found.shutdown()
        thread.join()


def get(serving: ReportServer, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(HOST, serving.server_port, timeout=60)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    status, text = answer.status, answer.read().decode()
    connection.close()
    return status, text


def test_the_live_server_is_on_loopback_alone_and_has_no_other_address(serving: ReportServer) -> None:
    assert serving.socket.getsockname()[0] == "127.0.0.1"
    for path in ("/config.yaml", "/../config.yaml", "/%2e%2e/config.yaml", "//etc/passwd", "/?x", "/state/"):
        assert get(serving, path) == (404, "there is only /\n")
    assert get(serving, "/", Host="evil.example")[0] == 403
    assert get(serving, "/", method="POST")[0] == 501


def test_the_live_page_follows_the_files(serving: ReportServer, study: Path) -> None:
    status, page = get(serving, "/")
    state = get(serving, "/state")[1]
    assert status == 200 and f'data-state="{state}"' in page and "connect-src 'self'" in page
    run = study / "dqn-25x25" / "LunarLander-v3" / "0"
    (run / "summary.json").unlink()
    assert get(serving, "/state")[1] != state
    assert "no process is working on it" in text_of(get(serving, "/")[1])
    shutil.rmtree(run)
    assert "does not exist" in text_of(get(serving, "/")[1])


def test_a_browser_that_leaves_early_is_not_mentioned(
    serving: ReportServer, capsys: pytest.CaptureFixture[str]
) -> None:
    for error, said in ((BrokenPipeError(), ""), (ValueError("unforeseen"), "ValueError: unforeseen")):
        try:
            raise error
        except type(error):
            serving.handle_error(None, (HOST, 0))
        found = capsys.readouterr().err
        assert said in found and bool(found) == bool(said)


def test_the_live_page_does_not_follow_links_out_of_the_given_path(study: Path, tmp_path: Path) -> None:
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "linked").symlink_to(study / "dqn-25x25" / "LunarLander-v3" / "0")
    text = text_of(report_page([inside], state="x"))
    assert "leads outside" in text and "25x25" not in text.replace("dqn-25x25", "")
    assert "25x25 relu" in text_of(report_page([inside]))  # a page that is written for its owner does


def test_a_port_that_cannot_be_used_is_one_sentence(serving: ReportServer) -> None:
    with pytest.raises(UserError, match=f"cannot listen on port {serving.server_port} of 127.0.0.1"):
        server([Path(".")], port=serving.server_port)
    with pytest.raises(UserError, match="a port is a number from 0 to 65535, but got 70000"):
        server([Path(".")], port=70000)


def test_the_page_has_no_address_to_load(study: Path) -> None:
    page = SCRIPTS.sub("", report_page([study]))
    assert re.findall(r"""(?:src|href)\s*=\s*["']?(?!#|data:)([^"'> ]+)""", page) == []


def test_runs_are_listed_by_arm_and_seed(study: Path) -> None:
    for seed in ("10", "2"):
        shutil.copytree(study / "adadqn/LunarLander-v3/0", study / f"adadqn/LunarLander-v3/{seed}")
        config = study / f"adadqn/LunarLander-v3/{seed}/config.yaml"
        config.write_text(config.read_text().replace("seed: 0", f"seed: {seed}"))
    rows = re.findall(r"(adadqn|dqn-25x25) LunarLander-v3 (\d+) finished", text_of(report_page([study])))
    assert [(arm, int(seed)) for arm, seed in rows] == [
        ("adadqn", 0), ("adadqn", 1), ("adadqn", 2), ("adadqn", 10), ("dqn-25x25", 0), ("dqn-25x25", 1),
    ]  # fmt: skip


def test_grid_and_random_search_can_be_told_apart(study: Path) -> None:
    shutil.copytree(STUDY / "dqn-50x50/LunarLander-v3", study / "dqn-50x50/LunarLander-v3")
    page = Page(StudyScores(read_results(study)))
    drawn: list[Any] = curves_chart(page, page.scores).renderers
    lines = [one.glyph for one in drawn if type(one.glyph).__name__ == "Line"]
    looks = {(line.line_color, str(line.line_dash)) for line in lines}
    assert len(lines) == len(looks) == 5  # AdaDQN, two DQNs, grid and random search
