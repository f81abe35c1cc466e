"""All commands with their help lines. The module of a command is imported when it is called."""

from __future__ import annotations

import io
import os
import sys
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from peekrank import __version__
from peekrank.cli._errors import exit_on_error
from peekrank.cli._help import Command, Group
from peekrank.cli._outputs import echo

COMMANDS = {
    "demo": "Compare learners on ten items with one answer per round, and write an HTML report.",
    "advise": "Say whether a measure can be learned from k answers, how fast, and with which learner.",
    "list": "List all learners, measures, surrogates and streams.",
    "data": "Describe a file of judged documents, or convert it to a form that opens instantly.",
    "train": "Train rankers on judged documents, revealing k judgements per round.",
    "rank": "Rank the documents of each query with a trained model.",
    "serve": "Run a ranking service that learns from answers.",
    "simulate": "Run learners on a stream and compare their regret.",
    "sweep": "Run learners on all combinations of streams, measures, k and horizons, and compare them.",
    "compare": "Compare learners over runs or folds, with significance tests.",
    "study": "Measure how the worst regret over a family of streams grows with the horizon.",
    "reproduce": "Reproduce the papers' figures, tables and claims, and ours, with a verdict on each.",
    "evaluate": "Estimate from a log the value that other rankings would have had, with confidence intervals.",
    "judge": "Choose the documents to have judged next, and say from judgements which of two runs is better.",
    "position-bias": "Estimate from a click log how likely people are to look at each position.",
    "monitor": "Check a log for faults: altered lists, changed answers, too little exploration.",
    "game": "Say how fast regret must grow in a game, and why.",
    "log audit": "Rebuild a service's state from its log, and check that it is identical.",
    "log backup": "Copy a service's log while the service runs.",
    "log export": "Write the decisions of a slot to a file or folder for `peekrank evaluate`.",
    "precompile": "Compile learners and measures in advance, for example in a container image.",
}
GROUPS = {
    "Start": ("demo", "advise", "list"),
    "Judged documents": ("data", "train", "rank"),
    "Serve": ("serve",),
    "Experiment": ("simulate", "sweep", "compare", "study", "reproduce"),
    "Evaluation": ("evaluate", "judge", "position-bias", "monitor"),
    "Theory": ("game",),
    "Service": ("log audit", "log backup", "log export"),
    "Machine": ("precompile",),
}


def command_module(name: str) -> Any:
    """Import the module of a command: `log audit` is in `log_audit.py`."""
    return import_module(f"peekrank.cli.{name.replace(' ', '_').replace('-', '_')}")


def command_named(name: str) -> Any:
    """Import the module of a command and return the complete command."""
    module = command_module(name)
    one = typer.Typer(add_completion=False, rich_markup_mode=None)
    one.command(name.rpartition(" ")[2], cls=Command)(exit_on_error()(module.command))
    command = typer.main.get_command(one)
    command.complete(module.command, module.EXAMPLES)  # type: ignore[attr-defined] # a Command
    return command


class LazyCommand(TyperCommand):
    """A placeholder with the name and help line of a command, which imports the command when it is called."""

    def make_context(self, info_name: Any, args: Any, parent: Any = None, **extra: Any) -> Any:
        """Import the command and delegate to it."""
        group = f"{parent.info_name} " if parent is not None and parent.parent is not None else ""
        return command_named(f"{group}{self.name}").make_context(info_name, args, parent, **extra)


app = typer.Typer(
    cls=Group,
    help="Learn a whole ranking from a peek at its top.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
log_app = typer.Typer(cls=Group, add_completion=False, rich_markup_mode=None)
for _group, _names in GROUPS.items():
    for _name in _names:
        _app = log_app if _name.startswith("log ") else app
        _last = _name.rpartition(" ")[2]
        _app.command(_last, cls=LazyCommand, help=COMMANDS[_name], rich_help_panel=_group)(lambda: None)
app.add_typer(log_app, name="log", help="Audit, back up or export a service's log.", rich_help_panel="Service")


@app.callback(invoke_without_command=True)
def _options(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        echo(f"peekrank {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line. Bytes of a file name that are not UTF-8 are printed as replacement characters.

    Commands run in parallel by runs, so linear algebra uses one thread: more would slow the runs down and take a
    tenth of a second of CPU time to start.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # NumPy reads it when imported, which happens later
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    app()
