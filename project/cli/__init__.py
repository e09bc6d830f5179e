"""The command line: a function of its arguments.

What needs no torch (help, mistakes in a path or a verb, listing runs) is answered before torch is
imported, which takes seconds.
"""

import os
import sys

from project.cli.arguments import Arguments
from project.errors import ChecksFailed, Interrupted, NothingToDo, UserError, suggestion

LIGHTNING_VERBS = {
    "fit": "train, then test the best checkpoint",
    "validate": "metrics of a checkpoint on the validation split",
    "test": "metrics of a checkpoint on the test split",
    "predict": "a table of predictions",
    "check": "what would go wrong in training, found before it",
    "tune": "which loader settings are fastest here, measured",
    "export": "a trained model as files that run without this project",
}
OTHER_VERBS = {
    "runs": "list the runs, or show what differs between two",
    "repeat": "the same config with several seeds or folds: mean ± sd of every metric",
    "search": "hyper-parameters that do best, found by Optuna",
    "serve": "a page to try an exported model, and JSON for programs",
    # starter: template
    "new": "a project of your own made from this one, renamed, with the problems you choose",
    "rename": "this checkout itself made into a project of your own",
    # /starter
}


def main(args: list[str] | None = None) -> int:
    """Run one command.

    Args:
        args: Arguments as typed after `python -m project`; None takes the process' own.

    Returns:
        The exit code: 0 done, 1 a check found errors, 2 something the user can put right, said on
        standard error; 128 and the signal's number after an interruption.
    """
    try:
        _dispatch(list(sys.argv[1:] if args is None else args))
        sys.stdout.flush()
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except NothingToDo as done:
        print(done, file=sys.stderr)
    except ChecksFailed:
        return 1
    except Interrupted as interrupted:
        return 128 + interrupted.signum
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # whoever read our output, such as `head`, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except Exception as error:
        _explain(error)
        raise
    return 0


def _explain(error: Exception) -> None:
    """Have what a well-known error means here stand below its traceback."""
    if "torch" in sys.modules:
        from project import doctor

        if paragraph := doctor.explain(error):
            error.add_note(f"\n{paragraph}")


def _dispatch(args: list[str]) -> None:
    from project import __version__
    from project.cli import help

    verb = args[0] if args else "--help"
    # starter: template
    if verb in ("new", "rename", "update", "render") and not {"-h", "--help"} & set(args[1:]):
        from project.starter import command

        command.run(args)
        return
    # /starter
    if verb in ("-h", "--help", "help"):
        print(help.overview())
    elif verb == "--version":
        print(__version__)
    elif verb not in {**LIGHTNING_VERBS, **OTHER_VERBS}:
        allowed = [*LIGHTNING_VERBS, *OTHER_VERBS]
        raise UserError(f"There is no command {verb!r}.{suggestion(verb, allowed)}")
    elif {"-h", "--help"} & set(args[1:]):
        of_bundle = verb == "predict" and not args[1].startswith("-")
        print(help.of_verb("predict BUNDLE" if of_bundle else verb))
    elif verb == "runs":
        from project import compare

        print(compare.report(args[1:]))
    elif verb == "export":
        _export(Arguments(args))
    elif verb == "repeat":
        from project.studies.repeat import repeat

        repeat(args[1:])
    elif verb == "search":
        from project.studies.search import search

        search(args[1:])
    elif verb == "predict" and len(args) > 1 and not args[1].startswith("-"):
        from project.serving.predict import predict

        predict(args[1:])
    elif verb == "serve":
        from project.serving.command import serve

        serve(args[1:])
    else:
        from project.cli.config_errors import checked

        arguments = checked(Arguments(args))  # a wrong key is answered before torch is imported
        from project.cli.commands import run

        run(arguments)


def _export(arguments: Arguments) -> None:
    from project.export import command

    options = command.parsed(arguments.options)  # a mistake is answered before torch is imported
    from project.cli.start import Start

    start = Start(arguments)
    assert start.checkpoint is not None  # it raises where there is none
    command.run(options, start.checkpoint)
