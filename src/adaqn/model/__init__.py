"""The public class: training, prediction, saving, loading."""

from adaqn.model.model import Model

__all__ = ["Model"]
