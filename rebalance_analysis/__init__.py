"""Tools for recorded rebalances: they read, rerun, compare, change, forecast and explain them."""
