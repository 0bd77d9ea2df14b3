"""The parts that all commands share: the program `assignor`, terminal output, options, tables and exit codes."""
