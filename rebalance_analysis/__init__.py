"""Tools that read recorded rebalances, run them again, compare, change (what-if), forecast and explain them."""
