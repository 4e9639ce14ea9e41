"""The public class: training, prediction, saving, loading."""
