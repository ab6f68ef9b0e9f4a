"""The trainer and the folder of a run."""
