"""Sphinx configuration. `make docs` builds the pages with warnings as errors; nothing is fetched from a network."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

import adaqn

project = "adaqn"
author = "The adaqn developers"
copyright = author
release = version = adaqn.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.viewcode", "reference_tables"]
exclude_patterns = ["_build"]

myst_heading_anchors = 3
smartquotes = False  # dashes of flags stay as they are

# A reference to a function or module that does not exist is an error; types in signatures need no link.
nitpicky = True
nitpick_ignore_regex = [("py:(class|obj|data|exc|attr)", ".*"), ("py:meth", r"(jax|gymnasium|numpy)\..*")]

default_role = "code"  # docstrings have code in single backquotes
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
maximum_signature_line_length = 88
python_display_short_literal_types = True
python_use_unqualified_type_names = True
add_module_names = False
viewcode_line_numbers = True

html_theme = "furo"
html_title = f"adaqn {release}"
html_static_path = ["_static"]
html_css_files = ["adaqn.css"]
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {"navigation_with_keys": True}
