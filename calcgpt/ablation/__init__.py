"""Ablations: every variant of a suite trained under one budget, with several seeds, and compared.

suite.py    what a suite is; the shipped ones are in calcgpt/suites/
job.py      one run of it: a variant, a task, a seed; trained, then scored
score.py    what a run is scored by, when its training is done
pool.py     many jobs, in processes beside each other
ablate.py   all of it, from a suite to its report
summary.py  scores of several seeds to means and standard deviations
report.py   report.md and report.json
plots.py    the pictures
"""
