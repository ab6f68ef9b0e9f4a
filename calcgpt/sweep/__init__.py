"""Hyperparameter search with Ray Tune, the extra `ray`.

`space` says what is searched, `search` and `schedulers` how, `trial` is one training on a worker,
`run` puts them together, `folder` keeps what came out, `report` and `plots` show it.
"""
