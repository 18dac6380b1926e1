"""The main job on real data: ``ivjoin demo``."""
