"""The commands by name and in a line each; a command's module is imported when it is called."""

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
    "demo": "Rank ten items from one answer per round, by today's learners and the first paper's; write a report.",
    "advise": "Tell before the first round what to expect, which learner to use, and what would help.",
    "list": "List all learners, measures, surrogates and streams, with a line on each.",
    "data": "Describe a file of judged documents with features, and convert it into a form that opens at once.",
    "train": "Train rankers on judged documents, revealing k judgements per round, and save them.",
    "rank": "Rank the documents of each query by a learned model; print qid, document, position and score.",
    "serve": "Run a ranking service that learns from answers.",
    "simulate": "Run learners over a stream, and compare their regret.",
    "sweep": "Run learners over all combinations of streams, measures, k and horizons, and tell which are better.",
    "compare": "Tell which learners are better, over runs or folds, and which differences may be chance.",
    "study": "Measure how fast regret grows: the worst of a family of streams, for horizons from short to long.",
    "reproduce": "Reproduce the figures, tables and claims of the papers, and our own, each with a verdict.",
    "evaluate": "Estimate what other rankings would have been worth, from a log, with confidence intervals.",
    "position-bias": "Estimate how likely people are to look at each position, from items shown at several of them.",
    "monitor": "Watch a log for faults: lists shown otherwise, answers that change, too little exploration.",
    "game": "Tell how fast regret must grow, and why: whether a problem can be learned at all.",
    "log audit": "Rebuild a service's state from its log, and check that it is identical.",
    "log backup": "Copy a service's log while the service runs.",
    "log export": "Write the decisions of a slot to a file for `peekrank evaluate`.",
    "precompile": "Compile learners and measures ahead of time, so that no process has to wait: for container images.",
}
GROUPS = {
    "Start": ("demo", "advise", "list"),
    "Learn from judged documents": ("data", "train", "rank"),
    "Serve": ("serve",),
    "Experiment": ("simulate", "sweep", "compare", "study", "reproduce"),
    "Evidence": ("evaluate", "position-bias", "monitor"),
    "Theory": ("game",),
    "Service": ("log audit", "log backup", "log export"),
    "Machine": ("precompile",),
}


def command_module(name: str) -> Any:
    """Import the module of a command: `log audit` is in `log_audit.py`."""
    return import_module(f"peekrank.cli.{name.replace(' ', '_').replace('-', '_')}")


def command_named(name: str) -> Any:
    """The command of this name, whole, from the module of this name."""
    module = command_module(name)
    one = typer.Typer(add_completion=False, rich_markup_mode=None)
    one.command(name.rpartition(" ")[2], cls=Command)(exit_on_error()(module.command))
    made = typer.main.get_command(one)
    made.complete(module.command, module.EXAMPLES)  # type: ignore[attr-defined] # a Command
    return made


class LazyCommand(TyperCommand):
    """A command as ``peekrank --help`` needs it: its name and a line; what is parsed and run is the whole one."""

    def make_context(self, info_name: Any, args: Any, parent: Any = None, **extra: Any) -> Any:
        """Import the command's module and hand over to it."""
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
    """Run the command line; of a file name that is not UTF-8, what can be shown is shown.

    Runs are what is done in parallel: threads of the linear algebra below them would stand in their way, and take
    a tenth of a second of the processor to start.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when NumPy is imported, which is later
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    app()
