"""Tests of the installed package: its version and its data files."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import adaqn

ROOT = Path(__file__).parents[1]
BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"


def test_the_wheel_has_the_version_of_the_package_and_its_presets(tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("*.egg-info", "__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    # A version other than the installed one, changed in the only place that defines it.
    package = source / "src" / "adaqn" / "__init__.py"
    text, changes = re.subn(
        rf'(?m)^__version__ = "{adaqn.__version__}"$', '__version__ = "98.7.6"', package.read_text()
    )
    assert changes == 1
    package.write_text(text)
    subprocess.run([sys.executable, "-c", BUILD, str(tmp_path)], cwd=source, check=True, capture_output=True)
    with zipfile.ZipFile(tmp_path / "adaqn-98.7.6-py3-none-any.whl") as wheel:
        assert "\nVersion: 98.7.6\n" in wheel.read("adaqn-98.7.6.dist-info/METADATA").decode()
        files = set(wheel.namelist())
    modules = {str(path.relative_to(source / "src")) for path in (source / "src").rglob("*.py")}
    assert modules <= files
    assert {f"adaqn/analysis/report/page.{kind}" for kind in ("css", "js")} <= files
    presets = {str(path.relative_to(source / "src")) for path in (source / "src").rglob("*.yaml")}
    assert len(presets) > 10 and presets <= files
