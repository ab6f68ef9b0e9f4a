"""The laboratory: ablations, sweeps, comparisons of runs, a look inside a model."""
