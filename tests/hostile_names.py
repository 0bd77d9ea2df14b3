"""Names that mean harm: to paths, to lines of text, to terminals. None of them is a name of Kafka's."""

HOSTILE_NAMES = (
    "",
    ".",
    "..",
    "../../etc/x",
    "/etc/x",
    "a/b",
    "a\\b",
    "a\0b",
    "%2e%2e%2fx",
    "\uff0e\uff0e",
    "\u2024\u2024",
    "a b",
    "a\n2026-01-01 [info] forged",
    "name\n",
    "\x1b[31mred\x1b[0m",
    "\x9b31m",
    "\u202egpj.exe",
    "[red]x[/red]",
    "\u0661",
    "n" * 250,
)
