"""The command `gradline`: its verbs, which are the modules of `gradline.lab.cli.verbs`, and its error messages."""

from __future__ import annotations

import os
import pkgutil
import sys
import traceback
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import version
from pathlib import Path

import click

from gradline.installing import not_installed
from gradline.lab.cli import verbs

NAMES = [module.name for module in pkgutil.iter_modules(verbs.__path__)]
ORDER = ("compare", "list", "check", "run", "results", "claims", "figures", "report", "trace", "data")
"""The verbs as the help lists them; others follow."""


class Verbs(click.Group):
    """The verbs: each is the click command `verb` of its module. `gradline run` imports the module `run` alone."""

    def list_commands(self, context: click.Context) -> list[str]:
        return list(dict.fromkeys((*ORDER, *NAMES)))

    def get_command(self, context: click.Context, name: str) -> click.Command:
        if name not in NAMES:
            near = get_close_matches(name, NAMES, 1)
            raise click.UsageError(f"there is no verb {name!r}" + "".join(f"; did you mean {one!r}?" for one in near))
        verb: click.Command = import_module(f"{verbs.__name__}.{name}").verb
        verb.name = name
        return verb


@click.group(
    cls=Verbs,
    options_metavar="[--debug]",
    subcommand_metavar="VERB ...",
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100, "show_default": True},
    epilog="\b\nA model of your own:\n"
    "  gradline compare my_model.py\n\n"
    "\b\nThe paper's first study, shortened to a few seconds:\n"
    "  gradline run bcwd --seeds 3 --budget 300 --out results/first\n"
    "  gradline results results/first\n\n"
    "`gradline VERB --help` explains a verb. --debug, anywhere, prints the traceback of an error.",
)
@click.version_option(version("gradline"), "-V", "--version", message="gradline %(version)s")
@click.pass_context
def app(context: click.Context) -> None:
    """Compare optimizers on your own model, and run the experiments of the paper and other studies."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


def run(arguments: list[str]) -> int:
    """Run a command line and return its exit code; see `gradline.lab.cli.main`."""
    # "package.module:Class" of a study may be a file in the current directory, as for `python -m gradline`.
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)
    try:
        code = app.main(
            [text for text in arguments if text != "--debug"], "gradline", standalone_mode=False, obj=arguments
        )
        return code if isinstance(code, int) else 0
    except BrokenPipeError:  # `gradline results out | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (Exception, KeyboardInterrupt) as error:
        if "--debug" in arguments or os.environ.get("GRADLINE_DEBUG"):
            traceback.print_exc()
        click.echo(f"gradline: {_message(error)}", err=True)
        return 130 if isinstance(error, (KeyboardInterrupt, click.Abort)) else 2


def _message(error: BaseException) -> str:
    """Return what is printed of an error: one sentence without its full stop."""
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        return "interrupted"
    if isinstance(error, MemoryError):
        return "there is not enough memory for this: fewer runs or fewer workers need less"
    text = (error.format_message() if isinstance(error, click.ClickException) else str(error)).strip().removesuffix(".")
    if isinstance(error, click.UsageError):
        return f"{text} ({error.ctx.command_path if error.ctx else 'gradline'} --help lists what can be given)"
    if isinstance(error, ModuleNotFoundError):
        name = (error.name or "").split(".")[0]
        return text if "pip install" in text or name in ("", "gradline") else str(not_installed("this", name, "study"))
    if isinstance(error, (click.ClickException, ValueError, OSError, ImportError, RuntimeError)):
        return text or type(error).__name__
    return f"this should not happen: {type(error).__name__}: {text} (--debug shows where)"
