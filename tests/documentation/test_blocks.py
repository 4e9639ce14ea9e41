"""Every code block of the README and of docs/ runs, page by page."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from adaqn.cli import main
from tests.documentation.blocks import Block, Session, blocks_of, matches

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if "_build" not in page.parts),
]


def blocks_on(page: Path) -> list[Block]:
    return blocks_of(str(page.relative_to(ROOT)), page.read_text())


def test_every_block_says_how_it_is_tested() -> None:
    found = [block for page in PAGES for block in blocks_on(page)]
    assert len(found) > 20
    assert [block.fault() for block in found if block.fault()] == []


@pytest.mark.thorough
@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if any(not block.idle for block in blocks_on(page))],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_the_blocks_of_a_page_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(ROOT / "results", tmp_path / "results")  # pages refer to the runs in the repository
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    session = Session(lambda: "".join(capsys.readouterr()))
    for block in blocks_on(page):
        session.run(block)


def test_marks_change_a_block_or_keep_it_from_running() -> None:
    page = """text
<!-- test: 300 instead of 100_000 -->
<!-- test: 5 instead of 20 -->
```python
learn(100_000)
evaluate(20)
```

<!-- test: skip, needs a cluster -->
```bash
sbatch job
```
  ```yaml
  a:
    b: 1
  ```
```{toctree}
index
```
"""
    first, second, third, fourth = blocks_of("page.md", page)
    assert first.runnable == "learn(300)\nevaluate(5)\n" and not first.skipped
    assert (first.line, second.skipped, third.text) == (4, True, "a:\n  b: 1\n")
    assert [block.fault() for block in (first, second, fourth)] == [None] * 3
    assert third.fault() == "page.md:13: no block uses this one; mark it `file NAME`, or `skip, REASON`"
    (silent,) = blocks_of("page.md", "<!-- test: skip -->\n```python\n1 / 0\n```\n")
    assert silent.fault() == "page.md:2: unknown mark 'skip'"  # a reason is missing
    (unnamed,) = blocks_of("page.md", "```\nadaqn train\n```\n")
    assert unnamed.fault() is not None
    (stale,) = blocks_of("page.md", "<!-- test: 300 instead of 100_000 -->\n```python\nlearn(50_000)\n```\n")
    with pytest.raises(AssertionError, match="has no '100_000' to replace by '300'"):
        _ = stale.runnable
    with pytest.raises(AssertionError, match="must be directly before a block"):
        blocks_of("page.md", "<!-- test: fails -->\ntext\n```python\n```\n")


def test_a_session_notices_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    session = Session(lambda: "".join(capsys.readouterr()))

    def run(text: str) -> None:
        for block in blocks_of("page.md", text):
            session.run(block)

    run("```python\nx = 3\n```\n```python\nprint('x is', x)\n```\n<!-- test: output -->\n```text\nx ... 3\n```\n")
    run("<!-- test: file notes/run.yaml -->\n```yaml\nenv: CartPole-v1\n```\n")
    assert (tmp_path / "notes" / "run.yaml").read_text() == "env: CartPole-v1\n"
    with pytest.raises(AssertionError, match=r"page\.md:5: this was printed instead"):
        run("```python\nprint(x)\n```\n<!-- test: output -->\n```text\n4\n```\n")
    with pytest.raises(NameError):
        run("```python\ny\n```\n")
    with pytest.raises(AssertionError, match="`adaqn trian  # a typo` ended with status 1"):
        run("```bash\nadaqn trian  # a typo\n```\n")
    run(
        "<!-- test: fails -->\n```bash\nadaqn trian\n```\n"
        "<!-- test: output -->\n```text\nunknown command 'trian'\n```\n"
    )
    with pytest.raises(AssertionError, match="it did not fail"):
        run("<!-- test: fails -->\n```bash\nadaqn --version\n```\n")
    with pytest.raises(AssertionError, match="not 'pip'"):
        run("```bash\npip install .\n```\n")


@pytest.mark.thorough
def test_the_commands_that_a_run_proposes_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also in an environment of one's own: the tutorial's, whose module the run has to be allowed to import."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    session = Session(lambda: "".join(capsys.readouterr()))
    session.run(next(block for block in blocks_on(ROOT / "docs" / "tutorial.md") if block.file == "parking.py"))
    train = ["train", "--env", "parking:Parking-v0", "--steps", "300", "--learning-starts", "200", "--grid", "hidden=8"]
    assert main([*train, "--run-dir", "run"]) == 0
    printed = capsys.readouterr().out
    proposed = [line.split() for line in printed[printed.index("next ") + len("next ") :].splitlines()]
    assert [command[:2] for command in proposed] == [["adaqn", "evaluate"], ["adaqn", "evaluate"], ["adaqn", "picture"]]
    assert [main(command[1:]) for command in proposed] == [0, 0, 0]


def test_output_may_leave_parts_out() -> None:
    assert matches("return ... over\n...\nend", "header  \nreturn -3.1 over\n1\n2\nend\n")
    assert not matches("return ... over", "return -3.1")
