"""An error on its way from one process to another: with its class, its fields, its causes, and its traceback as text.

Rule: an error that cannot be made again arrives as StreamsRuntimeError that says which one it was. Its own constructor
is not called, because it may take other arguments than the error has.
"""

from __future__ import annotations

import os
import traceback
from dataclasses import dataclass

from streams_runtime.common.errors import StreamsRuntimeError
from streams_runtime.thread_processes.pickling import pickled, unpickled

_MOST_CAUSES = 5


@dataclass(frozen=True, slots=True)
class CarriedError:
    """`content`: class, arguments and fields, pickled; None when they cannot be. `text`: class and message.

    `trace`: where it was raised, for people.
    """

    content: bytes | None
    text: str
    trace: str
    cause: CarriedError | None

    def error(self) -> BaseException:
        """The error again, with its traceback in the other process as a note."""
        error = self._again()
        error.add_note(self.trace)
        if self.cause is not None:
            error.__cause__ = self.cause.error()
        return error

    def exception(self) -> Exception:
        """The same; what is no Exception, as a SystemExit of user code, as one that says so."""
        error = self.error()
        return error if isinstance(error, Exception) else StreamsRuntimeError(f"ended by {error!r}")

    def _again(self) -> BaseException:
        if self.content is not None:
            try:
                kind, arguments, fields = unpickled(self.content)
                error: BaseException = _made(kind, arguments)
                vars(error).update(fields)
                str(error)
                return error
            except Exception:  # noqa: S110 (its class may do anything; what it was is said below)
                pass
        return StreamsRuntimeError(self.text)


def carried(error: BaseException, causes: int = _MOST_CAUSES) -> CarriedError:
    """So that `error()` gives it again, wherever that is called."""
    cause = error.__cause__
    return CarriedError(
        _content(error),
        f"{type(error).__name__}: {error}",
        f"in process {os.getpid()}:\n" + "".join(traceback.format_tb(error.__traceback__)).rstrip(),
        None if cause is None or causes == 0 else carried(cause, causes - 1),
    )


def _content(error: BaseException) -> bytes | None:
    arguments = _arguments(error)
    for kept in (vars(error), {}):
        try:
            return pickled((type(error), arguments, kept))
        except Exception:  # noqa: S112 (its fields may be locks and connections, and are not worth an error)
            continue
    return None


def _arguments(error: BaseException) -> tuple[object, ...]:
    try:
        reduced = error.__reduce__()  # an OSError has more than its `args`
    except Exception:
        return error.args
    return reduced[1] if isinstance(reduced, tuple) and reduced[0] is type(error) else error.args


def _made(kind: type[BaseException], arguments: tuple[object, ...]) -> BaseException:
    if hasattr(kind.__init__, "__code__"):  # written in Python: what it wants, nobody knows here
        return kind.__new__(kind, *arguments)
    return kind(*arguments)
