"""Groups command-line options into values. The function of a command has only a few parameters. A callable makes the
value of a parameter from several command-line options. The parameters of the callable are the options. The callable can
be a frozen dataclass: its annotated fields are the options, and `__post_init__` checks them. The callable can also be a
function that returns the value. If several commands share an option, the option is declared once, in one callable. A
test can call the callable without a command line.
"""

import inspect
from collections.abc import Callable

Command = Callable[..., None]


def options_of(**groups: Callable[..., object]) -> Callable[[Command], Command]:
    """A decorator for a command. `groups`: for each parameter of the command, the callable that makes its value. The
    parameters of the callable become options of the command.
    """
    signatures = {name: inspect.signature(make, eval_str=True) for name, make in groups.items()}

    def decorate(command: Command) -> Command:
        parameters: list[inspect.Parameter] = []
        for name, parameter in inspect.signature(command, eval_str=True).parameters.items():
            parameters += signatures[name].parameters.values() if name in groups else [parameter]

        def run(**values: object) -> None:
            made = {
                name: make(**{option: values.pop(option) for option in signatures[name].parameters})
                for name, make in groups.items()
            }
            command(**values, **made)

        run.__name__, run.__doc__ = command.__name__, command.__doc__
        # typer reads the options from `__signature__` and `__annotations__`
        keyword_only = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
        run.__signature__ = inspect.Signature(keyword_only)  # type: ignore[attr-defined]
        run.__annotations__ = {each.name: each.annotation for each in parameters}
        return run

    return decorate
