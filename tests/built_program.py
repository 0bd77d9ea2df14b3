"""Whoever imports this has all commands built. The process that others are forked from does, so that they need not."""

from __future__ import annotations

from assignor.commands import program

program()
