"""Finds the reason of a failure in Spark's output, and returns the reason as one line."""

import re

from py4j.protocol import Py4JJavaError, Py4JNetworkError

from assignor.errors import Unavailable

LONGEST_REASON = 400
_JAVA_EXCEPTION = re.compile(
    r'^(?:Exception in thread "[^"]*" |Caused by: )?(?:[a-z]\w*\.)+[A-Z][\w$]*: (?P<text>\S.*)$'
)
_JAVA_FRAME = re.compile(r"^\s*(?:at |\.\.\. \d+ more|Caused by: )")
# in a traceback, only the line of the error is not indented
_PYTHON_EXCEPTION = re.compile(r"^(?P<text>[A-Za-z_][\w.]*(?:: .*)?)$")
_DRIVER_STACK = re.compile(r"\s*Driver stacktrace:.*", re.DOTALL)
_ABORTED = re.compile(r"Job aborted due to stage failure: .*?Lost task \S+ in stage \S+ \(TID \d+\) ", re.DOTALL)
_PYTHON_TRACEBACK = "Traceback (most recent call last):"


class SparkNotStarted(Unavailable):
    """Raised if the JVM or the Spark context did not start. The message has Spark's reason, and names the log file with
    the details.
    """


def reason_of(fault: BaseException) -> str:
    """Returns the reason why a call to Spark failed, in one line, without Java stack frames."""
    if isinstance(fault, Py4JJavaError):
        thrown = innermost = fault.java_exception
        while (cause := innermost.getCause()) is not None:
            innermost = cause
        reasons = [reason_in(str(each.toString())) for each in (thrown, innermost)]
        return reasons[0] if reasons[1] in reasons[0] else f"{reasons[0]} ({reasons[1]})"
    if isinstance(fault, Py4JNetworkError | ConnectionError):
        return "Spark's JVM has ended"
    return reason_in(str(fault)) or type(fault).__name__


def reason_in(text: str) -> str:
    """Returns the line of Spark's error text that has the reason. If the text contains a Python error and a Java error,
    the line of the Python error is returned.
    """
    if _PYTHON_TRACEBACK in text and (reason := _python_reason(text)):
        return _short(reason)
    text = _DRIVER_STACK.sub("", _ABORTED.sub("", text))
    lines = [line for line in text.splitlines() if line.strip() and not _JAVA_FRAME.match(line)]
    if not lines:
        return ""
    named = _JAVA_EXCEPTION.match(lines[0].strip())
    return _short(named["text"] if named else lines[0])


def reason_in_log(output: str) -> str:
    """Returns the line of a JVM's output that has the reason why the JVM ended. The reason is in the line of the first
    exception. If the output has no exception, the reason is in the line of the first error. If the output has neither
    an exception nor an error, the reason is in the last line.
    """
    lines = [line.strip() for line in output.splitlines() if line.strip() and not _JAVA_FRAME.match(line)]
    for line in lines:
        if (named := _JAVA_EXCEPTION.match(line)) is not None:
            return _short(named["text"])
    errors = [line for line in lines if line.startswith(("Error:", "Error occurred", "Invalid ", "Unrecognized "))]
    return _short((errors or lines[-1:] or ["it said nothing"])[0])


def _python_reason(text: str) -> str:
    """Returns the line of the error in the last Python traceback. Java stack frames may follow this line."""
    of_python = text.rpartition(_PYTHON_TRACEBACK)[2]
    found = [named["text"] for line in of_python.splitlines() if (named := _PYTHON_EXCEPTION.match(line)) is not None]
    return found[0] if found else ""


def _short(line: str) -> str:
    line = " ".join(line.split())
    return line if len(line) <= LONGEST_REASON else f"{line[: LONGEST_REASON - 1]}…"
