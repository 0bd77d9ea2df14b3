"""What a call costs that reaches a coordinator which does not own its group: sent on to the owner, or passed on."""
