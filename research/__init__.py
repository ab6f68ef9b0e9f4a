"""Experiments that ran once, each at the commit that it names. The product imports none of them."""
