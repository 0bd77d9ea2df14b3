"""Tools for recorded rebalances: read, run again, compare, change (what-if), forecast and explain them."""
