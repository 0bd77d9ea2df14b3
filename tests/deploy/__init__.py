"""What deploy/ gives to other systems."""
