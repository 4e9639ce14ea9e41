"""Observers that write the files of a run directory; `composition.recorders_for` assembles them."""
