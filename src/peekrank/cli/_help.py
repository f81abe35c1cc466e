"""Help of commands: usage, arguments, options and examples, for the terminal and the documentation."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import copy_context
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_type_hints

from typer.core import TyperCommand, TyperGroup

from peekrank.cli._errors import plain_usage

_VALUES = {int: "N", float: "X", Path: "FILE"}  # other values are named after their option


class ParameterHelp(NamedTuple):
    """Spelling, description and default of an argument or option."""

    spelled: str
    what: str
    default: str

    @property
    def line(self) -> str:
        """Description and default, as ``--help`` prints them."""
        if self.default == "required":
            return f"{self.what} [required]"
        return f"{self.what} [default: {self.default}]" if self.default else self.what


def explained(parameter: Any) -> ParameterHelp:
    """Return the help of an argument or option."""
    if parameter.param_type_name == "argument":
        spelled = _argument(parameter)
    else:
        spelled = " / ".join([*parameter.opts, *parameter.secondary_opts])
        spelled += "" if parameter.is_flag else f" {parameter.metavar}"
    return ParameterHelp(spelled, parameter.help, _default(parameter))


def _argument(parameter: Any) -> str:
    return f"{parameter.metavar}{'...' if parameter.nargs == -1 else ''}"


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    if isinstance(parameter.show_default, str):
        return parameter.show_default
    flag = getattr(parameter, "is_flag", False)
    if parameter.default is None or not parameter.show_default or (flag and not parameter.secondary_opts):
        return ""
    if flag:
        return str((parameter.opts if parameter.default else parameter.secondary_opts)[0])
    return f"{parameter.default:g}" if isinstance(parameter.default, float) else str(parameter.default)


class Command(TyperCommand):
    """A command with examples in its help, run in its own copy of the context."""

    examples: list[str]  # shell lines: comments and commands

    def complete(self, function: Callable[..., None], examples: str) -> None:
        """Set the examples, and the placeholders of values: N, X, FILE, or the name of the option."""
        self.examples = examples.splitlines()
        hints = get_type_hints(function)
        for one in self.params:
            kinds = (hints[one.name], *get_args(hints[one.name]))
            words = [word for kind, word in _VALUES.items() if kind in kinds and one.param_type_name == "option"]
            one.metavar = one.metavar or (words[0] if words else one.name.upper().replace("_", "-"))

    def invoke(self, ctx: Any) -> Any:
        """Run the command in a copy of the context, so that --quiet does not affect the next command."""
        return copy_context().run(super().invoke, ctx)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return [OPTIONS], the required arguments, and the optional ones in brackets."""
        arguments = [one for one in self.get_params(ctx) if one.param_type_name == "argument"]
        spelled = [_argument(one) if one.required else f"[{_argument(one)}]" for one in arguments]
        return [str(self.options_metavar), *spelled]

    def get_usage(self, ctx: Any) -> str:
        """Return the usage line and an example, which usage errors begin with."""
        return f"{super().get_usage(ctx)}\nExample: {self.examples[1]}"

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, then the options."""
        for title, kind in (("Arguments", "argument"), ("Options", "option")):
            _write_parameters(formatter, title, [o for o in self.get_params(ctx) if o.param_type_name == kind])

    def format_epilog(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        """Write the examples without wrapping, so that they can be copied."""
        with formatter.section("Examples"):
            for line in self.examples:
                formatter.write(f"  {line}\n")


class Group(TyperGroup):
    """All commands, in groups.

    ``help COMMAND`` means ``COMMAND --help``, and no arguments mean ``--help``.
    """

    def make_context(self, info_name: Any, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Parse the arguments before the name of the command."""
        with plain_usage():
            return super().make_context(info_name, args, parent, **extra)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, and turn ``help`` into ``--help``."""
        return super().parse_args(ctx, [*args[1:], "--help"] if args[:1] in ([], ["help"]) else args)

    def invoke(self, ctx: Any) -> Any:
        """Find the command, parse its arguments and run it."""
        with plain_usage():
            return super().invoke(ctx)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the commands of each group, then the options."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for name, command in self.commands.items():
            panels.setdefault(str(getattr(command, "rich_help_panel", "")), []).append((name, str(command.help)))
        width = max(map(len, self.commands))
        for panel, rows in panels.items():
            with formatter.section(panel):
                formatter.write_dl([(f"{name:<{width}}", what) for name, what in rows])
        _write_parameters(formatter, "Options", self.get_params(ctx))


def _write_parameters(formatter: Any, title: str, parameters: list[Any]) -> None:
    rows = [(one.spelled, one.line) for one in map(explained, parameters)]
    if rows:
        with formatter.section(title):
            formatter.write_dl(rows)
