"""Time that only tests move."""


class ManualClock:
    def __init__(self, now_ms: int = 1_000_000) -> None:
        self.ms = now_ms

    def now_ms(self) -> int:
        return self.ms

    def monotonic_ms(self) -> int:
        return self.ms

    def advance(self, ms: int) -> None:
        self.ms += ms
