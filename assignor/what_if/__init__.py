"""A recorded round under other conditions: `Changes` say which, `changed` makes the round, `difference` compares two.

The changed round goes through the very code that decides (`assignor.rounds`); nothing of it is estimated.
"""
