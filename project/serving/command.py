"""`python -m project serve`: what is typed."""

from pathlib import Path

from project import runs
from project.errors import UserError
from project.parsing import Parser


def parser() -> Parser:
    """Of the options; `format_help` is the text of `--help`."""
    result = Parser(
        "python -m project serve",
        description="Serve an exported model: a page to try it, and JSON at /predict.",
        add_help=False,
        allow_abbrev=False,
    )
    add = result.add_argument
    add("bundle", nargs="?", help="the folder that export wrote; by default the newest run's")
    add("--host", default="127.0.0.1", help="by default this machine alone; 0.0.0.0 for everyone")
    add("--port", type=int, default=8000, help="by default 8000; 0 takes a free one")
    add("--max_megabytes", type=float, default=10.0, help="of a request, by default 10")
    add("--run.root", dest="root", default="runs", help="where all runs lie, by default runs")
    return result


def serve(words: list[str]) -> None:
    """Serve a bundle until interrupted.

    Raises:
        UserError: An option is wrong, there is no bundle, or the packages are not installed.
    """
    typed = parser().parse_args(words)
    folder = bundle_folder(typed.bundle, typed.root)
    try:
        import uvicorn

        from project.serving.app import Limits, application
    except ModuleNotFoundError as error:
        raise UserError(
            f"serve needs the package {error.name}, which is not installed: "
            'pip install -e ".[serve]".'
        ) from None
    app = application(folder, Limits(megabytes=typed.max_megabytes))
    config = uvicorn.Config(app, host=typed.host, port=typed.port, log_level="warning")
    server = uvicorn.Server(config)
    with config.bind_socket() as socket:
        socket.listen()  # who comes before the server runs waits instead of being turned away
        host, port = socket.getsockname()[:2]
        print(f"serving {folder} at http://{host}:{port} (stop with Ctrl-C)", flush=True)
        server.run(sockets=[socket])


def bundle_folder(named: str | None, root: str) -> Path:
    """The bundle that is meant.

    Args:
        named: As typed: a bundle, or a run that has one; None for the newest run that has one.
        root: Where all runs lie.

    Raises:
        UserError: There is none.
    """
    if named is not None:
        given = Path(named).expanduser()
        tried = [given, given / "export", runs.rooted(named), runs.rooted(named) / "export"]
    else:
        tried = [run.path / "export" for run in reversed(runs.runs_in(runs.rooted(root)))]
    for folder in tried:
        if (folder / "contract.json").is_file() and (folder / "model.onnx").is_file():
            return folder
    what = f"{named!r} holds no bundle" if named else f"No run in {root} has been exported"
    raise UserError(
        f"{what} (contract.json and model.onnx). Make one: python -m project export "
        "--ckpt_path best."
    )
