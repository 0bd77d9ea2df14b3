"""Modules that all packages of the runtime share, such as errors, clock, states and records."""
