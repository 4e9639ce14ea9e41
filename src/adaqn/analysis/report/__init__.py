"""`adaqn report`: one self-contained HTML page about a run, several runs or a study.

`sources` reads what is below the given paths, one file per part of the page turns it into HTML, `document` puts the
parts together, and `live` serves the page while a run is in progress.
"""
