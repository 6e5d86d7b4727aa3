"""The verbs together, and what becomes of errors: one sentence on stderr."""

from __future__ import annotations

import os
import sys
import traceback
from importlib.metadata import version
from pathlib import Path

import click

from gradline.installing import not_installed
from gradline.lab.cli.check import check
from gradline.lab.cli.claims import claims
from gradline.lab.cli.compare import compare
from gradline.lab.cli.data import data
from gradline.lab.cli.figures import figures
from gradline.lab.cli.listing import list_verb
from gradline.lab.cli.report import report
from gradline.lab.cli.results import results
from gradline.lab.cli.run import run_verb
from gradline.lab.cli.trace import trace


class Verbs(click.Group):
    """The verbs in the order in which one needs them."""

    def list_commands(self, context: click.Context) -> list[str]:
        """As they were added."""
        return list(self.commands)


@click.group(
    cls=Verbs,
    options_metavar="[--debug]",
    subcommand_metavar="VERB ...",
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="\b\nA model of your own:\n"
    "  gradline compare my_model.py\n\n"
    "\b\nA first study, which takes a few seconds:\n"
    "  gradline run bcwd --seeds 3 --budget 300 --out results/first\n"
    "  gradline results results/first\n\n"
    "`gradline VERB --help` explains a verb. --debug, anywhere, shows where an error comes from.",
)
@click.version_option(version("gradline"), "-V", "--version", message="gradline %(version)s")
@click.pass_context
def app(context: click.Context) -> None:
    """Compare optimizers that need no learning rate with others, on your model or on the problems of studies."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


for verb in (compare, list_verb, check, run_verb, results, claims, figures, report, trace, data):
    app.add_command(verb)


def run(arguments: list[str]) -> int:
    """Run a command line; see `gradline.lab.cli.main`."""
    debug = "--debug" in arguments or bool(os.environ.get("GRADLINE_DEBUG"))
    # "package.module:Class" of a study may be a file beside the user, as for `python -m gradline`.
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)
    try:
        rest = [text for text in arguments if text != "--debug"]
        code = app.main(rest, "gradline", standalone_mode=False, obj=arguments)
        return code if isinstance(code, int) else 0
    except BrokenPipeError:  # `gradline results out | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (KeyboardInterrupt, click.Abort):
        return _fail("interrupted", 130, debug=debug)
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else "gradline"
        return _fail(f"{_sentence(error.format_message())} ({where} --help says what there is)", 2, debug=debug)
    except click.ClickException as error:
        return _fail(error.format_message(), 2, debug=debug)
    except ModuleNotFoundError as error:
        return _fail(_missing(error), 2, debug=debug)
    except (ValueError, OSError, ImportError, RuntimeError) as error:
        return _fail(str(error) or type(error).__name__, 2, debug=debug)
    except MemoryError:
        return _fail("there is not enough memory for this: fewer runs or fewer workers need less", 2, debug=debug)
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        return _fail(f"this should not happen: {text} (--debug shows where)", 2, debug=debug)


def _missing(error: ModuleNotFoundError) -> str:
    """What to install."""
    name = (error.name or "").split(".")[0]
    if "pip install" in str(error) or name in ("", "gradline"):
        return str(error)
    return str(not_installed("this", name, "study"))


def _fail(sentence: str, code: int, *, debug: bool) -> int:
    if debug:
        traceback.print_exc()
    click.echo(f"gradline: {_sentence(sentence)}", err=True)
    return code


def _sentence(text: str) -> str:
    return text.strip().removesuffix(".")
