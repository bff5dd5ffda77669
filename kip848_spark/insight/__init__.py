"""What the control records say about groups beyond their state: rebalances, their causes, and
patterns of rebalances."""
