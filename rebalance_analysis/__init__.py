"""What one does with recorded rebalances: read, run again, compare, ask what if, forecast, tell."""
