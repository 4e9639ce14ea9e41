import dataclasses
import json
import math
import re
import shutil
import sys
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.colors import to_rgb

pytest.importorskip("bokeh", reason="the report needs Bokeh: pip install adaqn[report]")

from adaqn.analysis.report.charts import colour, luminance, short
from adaqn.analysis.report.command import write_report
from adaqn.analysis.report.document import report_page
from adaqn.analysis.report.run import resource_charts, verdict
from adaqn.analysis.report.run_tables import hyperparameter_columns
from adaqn.base.errors import UserError
from adaqn.cli import main
from adaqn.members.hyperparameters import Hyperparameters
from adaqn.runs.reading import Evaluations, read_run

RUN = Path(__file__).parents[3] / "results" / "lunar-lander" / "adadqn" / "LunarLander-v3" / "0"
SCRIPTS = re.compile(r"<script>.*?</script>", re.DOTALL)


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return Path(shutil.copytree(RUN, tmp_path / "lander"))


def text_of(page: str) -> str:
    """What a reader sees without JavaScript."""
    shown = re.sub(r"<style>.*?</style>", "", SCRIPTS.sub("", page), flags=re.DOTALL)
    return re.sub(r"\s+", " ", unescape(re.sub(r"<[^>]+>", " ", shown)))


def test_the_page_of_a_run_has_its_results_members_versions_and_the_command_that_repeats_it(run: Path) -> None:
    page = report_page([run])
    text = text_of(page)

    assert "finished" in text and "200,000 steps" in text and "539 episodes" in text
    assert "final return (mean of the last 100 episodes) 237" in text and "mean return over the run 158" in text
    # layers, activation, optimizer, learning rate, loss, target, acted, return (episodes), diverged, last loss
    assert re.search(r"3 200x200 relu adam 3e-4 l2 95\.0% [\d.]+% 180 \(481\) no 459\b", text)
    assert f"adaqn train --config {run}/config.yaml --run-dir NEW_DIRECTORY" in text
    assert "jax 0.10.2" in text and "target_update_interval: 200" in text
    assert page.count('data-root-id="') == 4  # returns, target, behaviour, losses


def test_a_categorical_head_is_a_column_where_a_member_has_one() -> None:
    scalar = Hyperparameters(loss="huber")
    names, _ = hyperparameter_columns([scalar])
    assert "head" not in names
    names, rows = hyperparameter_columns([scalar, Hyperparameters(head="categorical", value_range=(0, 10))])
    assert [row[names.index("head")] for row in rows] == ["", "categorical 51 bins 0:10"]
    assert [row[names.index("trained loss")] for row in rows] == ["huber", "categorical"]


def test_the_page_loads_nothing_from_anywhere(run: Path) -> None:
    page = SCRIPTS.sub("", report_page([run]))

    assert re.findall(r"""(?:src|href)\s*=\s*["']?(?!#|data:)([^"'> ]+)""", page) == []
    assert "url(" not in page and "@import" not in page
    assert "connect-src 'none'" in page and "default-src 'none'" in page


def test_a_run_and_values_in_it_that_are_named_script_are_shown_as_text(run: Path) -> None:
    evil = run.rename(run.with_name("<script>alert(1)<"))
    config = (evil / "config.yaml").read_text()
    (evil / "config.yaml").write_text(config.replace("algo: adadqn", "algo: '</pre><script>alert(2)</script>'"))

    page = report_page([evil])

    assert "<script>alert" not in page and "</script>alert" not in page
    assert "&lt;script&gt;alert(1)&lt;" in page and "&lt;/pre&gt;&lt;script&gt;alert(2)" in page
    assert page.count("<script>") == 3  # Bokeh, the charts, and the page's own


def test_the_verdict_says_who_won_from_when_on_and_by_how_much(run: Path) -> None:
    # 20 updates: member 1 is target in the first 4, member 0 in the others; losses 1 and 1.5 at the end.
    rows = ["step,target,loss_0,loss_1,acted_0,acted_1"]
    rows += [f"{100 * n},{1 if n <= 4 else 0},1.0,1.5,60,40" for n in range(1, 21)]
    (run / "selection.csv").write_text("\n".join(rows) + "\n")
    (run / "episodes.csv").write_text("step,return,length\n1400,-15,100\n1900,15,100\n")
    sentences = verdict(read_run(run), ["small", "large"])

    assert sentences[0] == (
        "Member 0 (small) won: it was the target in 80% of the 20 target updates; next is member 1 (large) with 20%."
    )
    assert sentences[1] == "It has been chosen most often from about step 400 on."
    assert sentences[2].endswith("a median cumulated loss of 1, against 1.5 of member 1 (large), 50% higher.")
    assert "member 0 (small) acted most: 0.000 over 2 episodes" in sentences[3]
    assert "does not mean" in sentences[-1] and "one seed" in sentences[-1]

    no_steps, no_returns = np.zeros(0, np.int64), np.zeros(0)
    evaluations = Evaluations(no_steps, no_steps, no_steps, no_returns, no_steps)
    of_searl = verdict(dataclasses.replace(read_run(run), member_evaluations=evaluations), ["small", "large"])
    assert of_searl[:2] == sentences[:2] and of_searl[-1].startswith("To win means to have been the elite")


def test_the_verdict_tells_when_another_member_leads_at_the_end_and_what_a_random_rule_means(run: Path) -> None:
    rows = ["step,target,loss_0,loss_1,acted_0,acted_1"]
    rows += [f"{100 * n},{1 if n > 18 else 0},1.0,inf,60,40" for n in range(1, 21)]
    (run / "selection.csv").write_text("\n".join(rows) + "\n")
    (run / "config.yaml").write_text(
        (run / "config.yaml").read_text().replace("selection: lowest", "selection: random")
    )
    text = " ".join(verdict(read_run(run), ["small", "large"]))

    assert "In the last tenth of the run, however, member 1 (large) was chosen more often, in 100%" in text
    assert "cannot be compared" in text and "rule “random”" in text


def test_a_run_in_an_infinite_space_has_its_lineage_and_mutations(run: Path) -> None:
    first = json.loads((run / "members.jsonl").read_text())
    second = json.loads(json.dumps(first)) | {"step": 1000, "generation": 1}
    for place, member in enumerate(second["members"]):
        member |= {"parent": 3, "mutation": None if place == 3 else "activation"}
        member["activation"] = "relu" if place == 3 else "tanh"
    (run / "members.jsonl").write_text(json.dumps(first) + "\n" + json.dumps(second) + "\n")

    page = report_page([run])
    text = text_of(page)

    assert "After 1 generation, the 4 members descend from 1 of the 4 that the run began with." in text
    assert "3 mutations" in text and re.search(r"1 1,000 0 3 activation tanh, adam, l2, layers 25x25", text)
    # beside the four of any run: the tree, and the activations, neurons (which differ from the start) over time
    assert page.count('data-root-id="') == 7


def test_speed_compilation_and_memory_are_drawn_from_progress(run: Path) -> None:
    assert "speed and memory over time are not known" in text_of(report_page([run]))
    (run / "progress.csv").write_text(
        "time/total_timesteps,time/time_elapsed,time/compile_seconds,time/memory_mb\n"
        "1000,2.0,1.0,300.5\n2000,3.0,1.0,301.0\n3000,,,\n"
    )
    page = report_page([run])
    assert page.count('data-root-id="') == 7
    assert all(word in text_of(page) for word in ("steps per second", "spent compiling", "Memory of the process"))


def test_a_film_is_embedded_unless_it_is_large_or_a_link_to_elsewhere(run: Path, tmp_path: Path) -> None:
    (run / "video.mp4").write_bytes(b"film")
    assert 'src="data:video/mp4;base64,ZmlsbQ=="' in report_page([run])
    with (run / "video.mp4").open("wb") as file:
        file.truncate(4_000_000)
    assert "larger than 3 MB" in text_of(report_page([run]))
    (run / "video.mp4").unlink()
    (tmp_path / "secret").write_text("secret")
    (run / "video.mp4").symlink_to(tmp_path / "secret")
    assert "is a link that leads outside" in text_of(report_page([run]))


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        ("episodes.csv", "step,return,length\n1,x,3\n", "must have 3 numbers"),
        ("selection.csv", "step\n1\n", "must have the columns step, target"),
        ("members.jsonl", "{\n", "is not valid JSON"),
        ("summary.json", "[1]", "must hold an object"),
        ("config.yaml", "- 1\n", "must hold a mapping"),
        ("config.yaml", b"\xff\xfe\x00", "config.yaml"),
        ("progress.csv", "a,b\n1\n", "must have 2 numbers"),
    ],
)
def test_a_damaged_run_is_said_on_the_page(run: Path, file: str, content: str | bytes, said: str) -> None:
    (run / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    text = text_of(report_page([run]))
    assert "damaged" in text and said in text


def test_parts_that_do_not_fit_together_are_said_and_the_others_are_shown(run: Path) -> None:
    line = json.loads((run / "members.jsonl").read_text())
    line["members"] = line["members"][:2]
    (run / "members.jsonl").write_text(json.dumps(line) + "\n")
    page = report_page([run])
    assert "The members cannot be shown" in text_of(page) and "has 2 members in members.jsonl" in text_of(page)
    assert page.count('data-root-id="') == 1  # the returns


def test_empty_unfinished_and_newer_inputs_are_said(run: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "has no run in it yet" in text_of(report_page([tmp_path / "empty"]))

    (run / "config.yaml").write_text((run / "config.yaml").read_text().replace("version: 1", "version: 7", 1))
    summary = json.loads((run / "summary.json").read_text())
    summary["versions"]["adaqn"] = "99.1.0"
    (run / "summary.json").write_text(json.dumps(summary))
    text = text_of(report_page([run]))
    assert "version 7, which is newer than this adaqn reads" in text and "written by adaqn 99.1.0" in text

    (run / "summary.json").unlink()
    for name in ("episodes.csv", "selection.csv", "members.jsonl"):
        (run / name).unlink()
    text = text_of(report_page([run]))
    assert "not finished, and no process is working on it" in text and "No episode has ended yet." in text
    assert "0 of 200,000 steps" in text
    assert f"adaqn resume {run}" in text


def test_the_command_writes_beside_the_run_and_replaces_only_its_own_page(run: Path, tmp_path: Path, capsys) -> None:
    assert main(["report", str(run)]) == 0
    assert capsys.readouterr().out.strip() == str(run / "report.html")
    assert (run / "report.html").read_text().startswith("<!doctype html>")
    write_report([run])  # replaces its own
    (run / "report.html").write_text("mine")
    with pytest.raises(UserError, match="no report that adaqn wrote"):
        write_report([run])
    assert (run / "report.html").read_text() == "mine"
    with pytest.raises(UserError, match="there is no directory"):
        write_report([tmp_path / "nowhere"])
    with pytest.raises(UserError, match="exists already"):
        write_report([run], output=run / "report.html")


def test_without_bokeh_one_sentence_names_the_extra(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bokeh", None)
    with pytest.raises(
        UserError, match=r'^a report needs the package bokeh, which is not installed: `pip install "adaqn\[report\]"`$'
    ):
        write_report([run])


def test_a_number_that_is_not_finite_does_not_reach_the_table_as_a_number(run: Path) -> None:
    rows = (run / "selection.csv").read_text().splitlines()
    cells = rows[-1].split(",")
    rows[-1] = ",".join([*cells[:2], "inf", *cells[3:]])
    (run / "selection.csv").write_text("\n".join(rows) + "\n")
    page = report_page([run])
    values = [float(value) for value in re.findall(r'data-value="([^"]+)"', page)]
    assert values and all(math.isfinite(value) for value in values)
    assert re.search(r"0 25x25 .* yes –", text_of(page))
    assert np.isfinite(values).all()


def test_the_darkest_colours_are_legible_on_a_dark_page() -> None:
    brown = np.array([0.478, 0.165, 0.02])
    lightened = np.array(to_rgb(colour(tuple(brown))))
    page = luminance(np.array([0x14, 0x17, 0x1A]) / 255)
    assert (luminance(brown) + 0.05) / (page + 0.05) < 2.0
    assert 3.0 < (luminance(lightened) + 0.05) / (page + 0.05) < 3.5
    assert (1.05) / (luminance(lightened) + 0.05) > 5.0, "on white, too"
    assert colour((0.0, 0.447, 0.698)) == "#0072b2"


def test_a_single_row_of_progress_is_a_point(run: Path) -> None:
    tags = "time/total_timesteps,time/time_elapsed\n"
    (run / "progress.csv").write_text(f"{tags}500,\n1000,2.0\n")
    ((_, chart),) = resource_charts(read_run(run))
    drawn: list[Any] = chart.renderers
    assert [type(renderer.glyph).__name__ for renderer in drawn] == ["Line", "Scatter"]
    assert drawn[1].data_source.data["value"].tolist() == [500.0]


def test_a_finished_run_without_recorded_target_updates_does_not_promise_any(run: Path) -> None:
    finished = read_run(run)
    empty = finished.selection._replace(step=finished.selection.step[:0])
    short = dataclasses.replace(finished, selection=empty)
    assert verdict(short, ["a", "b"]) == ["The run has 2 members, and no target update was recorded, as it is short."]
    begun = dataclasses.replace(short, summary=None)
    assert verdict(begun, ["a", "b"]) == ["The run has 2 members, and no target update has been made yet."]


def test_the_verdict_does_not_name_a_second_member_that_was_never_target(run: Path) -> None:
    rows = ["step,target,loss_0,loss_1,acted_0,acted_1", *(f"{100 * n},0,1.0,1.5,60,40" for n in range(1, 21))]
    (run / "selection.csv").write_text("\n".join(rows) + "\n")
    assert verdict(read_run(run), ["small", "large"])[0] == (
        "Member 0 (small) won: it was the target in 100% of the 20 target updates; no other member was."
    )


def test_a_member_that_was_rarely_target_is_not_said_to_have_been_it_never(run: Path) -> None:
    rows = ["step,target,loss_0,loss_1,acted_0,acted_1"]
    rows += [f"{100 * n},{int(n == 7)},1.0,1.5,60,40" for n in range(1, 301)]
    (run / "selection.csv").write_text("\n".join(rows) + "\n")
    assert verdict(read_run(run), ["small", "large"])[0] == (
        "Member 0 (small) won: it was the target in more than 99% of the 300 target updates; next is member 1 (large) "
        "with less than 1%."
    )


def test_the_two_critics_of_a_plain_actor_critic_have_no_winner(run: Path) -> None:
    line = json.loads((run / "members.jsonl").read_text())
    line["members"] = [line["members"][0]] * 2
    (run / "members.jsonl").write_text(json.dumps(line) + "\n")
    header = "step,target,loss_0,loss_1,acted_0,acted_1,selected_0,selected_1"
    (run / "selection.csv").write_text(f"{header}\n1000,0,1.0,1.5,1.0,0.0,1.0,1.0\n2000,0,1.0,1.5,1.0,0.0,1.0,1.0\n")
    summary = json.loads((run / "summary.json").read_text()) | {"selections": [2000, 2000], "updates": 2000}
    (run / "summary.json").write_text(json.dumps(summary))
    page = report_page([run])
    text = text_of(page)
    assert "This run trains a single set of hyperparameters, so there was no target to choose." in text
    assert "won" not in text and page.count('data-root-id="') == 2  # returns, losses


def test_a_search_shows_its_trials_and_which_one_is_the_best(run: Path) -> None:
    values = {"hidden": [8], "activation": "relu", "optimizer": "adam", "learning_rate": 0.001, "loss": "l2"}
    trials = [
        {"number": 0, "fidelity": 500, "fitness": 90.0},  # a short one, which the search ranks below the long ones
        {"number": 1, "fidelity": 1000, "fitness": 10.0},
        {"number": 2, "fidelity": 1000, "fitness": 20.0},
        {"number": 3, "fidelity": 1000, "fitness": None},
    ]
    span = {"first_step": 3000, "last_step": 4000, "hyperparameters": values}
    (run / "trials.jsonl").write_text("".join(json.dumps(trial | span) + "\n" for trial in trials))
    text = text_of(report_page([run]))
    best = (
        "trial 2 (relu, adam, l2, layers 8, learning rate 0.001), at steps 3,000 to 4,000, with a mean return of 20.0"
    )
    assert best in text and re.search(r"; next is trial 1 \([^)]*\) with 10\.0\. Only the 2 longest trials", text)
    rows = re.findall(r"(\d) 8 relu adam 1e-3 l2 ([\d,]+) 3,000 4,000 (\S+)", text)
    assert rows == [("2", "1,000", "20.0"), ("1", "1,000", "10.0"), ("3", "1,000", "–"), ("0", "500", "90.0")]
    # The losses are those of whichever trial was last, so there is no table of members.
    assert "last loss" not in text


def test_a_learned_discount_is_drawn(run: Path) -> None:
    before = report_page([run]).count('data-root-id="')
    (run / "progress.csv").write_text("time/total_timesteps,train/discount\n1000,0.99\n2000,0.985\n")
    page = report_page([run])
    assert "Discount that this run learns, over time" in text_of(page)
    assert page.count('data-root-id="') == before + 1
    assert "It learned its discount, which went from 0.99 to 0.985." in verdict(read_run(run), ["one"])


def test_a_finished_run_that_lost_episodes_is_said(run: Path) -> None:
    lines = (run / "episodes.csv").read_text().splitlines(keepends=True)
    (run / "episodes.csv").write_text("".join(lines[:-2]) + "200")
    assert "counts 539 episodes, but episodes.csv has 537" in text_of(report_page([run]))


def test_a_name_with_line_breaks_is_one_line_in_a_legend() -> None:
    assert short("a\nb  c") == "a b c"


def test_each_hyperparameter_of_a_space_is_drawn_over_time(run: Path) -> None:
    first = json.loads((run / "members.jsonl").read_text())
    second = json.loads(json.dumps(first)) | {"step": 1000, "generation": 1}
    for member in second["members"]:
        decay = {"optimizer": "adamw", "optimizer_options": {"weight_decay": 0.01}}
        member |= decay | {"parent": 3, "mutation": "optimizer", "max_grad_norm": 5.0, "discount": 0.98}
    (run / "members.jsonl").write_text(json.dumps(first) + "\n" + json.dumps(second) + "\n")
    page = report_page([run])
    drawn = re.findall(r'class="choice" data-label="([^"]+)"', page)
    assert drawn == ["MLP neurons", "discount", "max_grad_norm", "weight_decay", "optimizer"]
    assert "adamw weight_decay=0.01 max_grad_norm=5, l2, layers 25x25, learning rate 0.0003, discount 0.98" in text_of(
        page
    )
