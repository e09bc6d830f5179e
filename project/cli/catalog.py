"""What classes take, read from their sources: names, types, defaults, meanings.

Nothing is imported, for importing torch takes seconds: help, and mistakes in a config, are answered
at once. And nothing is kept by hand: what stands in a signature is what is shown and checked.
"""

import ast
import re
from dataclasses import dataclass
from functools import cache

from project.cli.sources import Source, source_of


@dataclass(frozen=True)
class Parameter:
    """One argument, as the source has it.

    Args:
        name: Its name.
        type: Its annotation, aliases and literals written out: `int | auto`.
        default: Source text of the default; None where a value is required.
        meaning: What its line in the docstring says.
        refers_to: Dotted paths of what the annotation names.
        is_group: Its keys stand directly below it, without a class path, whatever it is.
    """

    name: str
    type: str = ""
    default: str | None = None
    meaning: str = ""
    refers_to: tuple[str, ...] = ()
    is_group: bool = False

    @property
    def example(self) -> str | None:
        """The default as it is typed or written in YAML; None where there is none to show."""
        try:
            value = ast.literal_eval(self.default or "None")
        except ValueError:  # an expression: a class, or a call
            return self.default
        if isinstance(value, tuple):
            value = list(value)
        return (
            str(value).lower() if isinstance(value, bool) else None if value is None else str(value)
        )


@dataclass(frozen=True)
class Class:
    """What is known of a class.

    Args:
        path: Where it is defined.
        summary: First sentence of its docstring.
        parameters: What it is made with, by name.
        takes_all: It takes arguments by names that do not stand in its source.
        unimplemented: Abstract methods that it leaves open.
        is_dataclass: It is one.
        bases: Dotted paths of its base classes.
    """

    path: str
    summary: str
    parameters: dict[str, Parameter]
    takes_all: bool = False
    unimplemented: frozenset[str] = frozenset()
    is_dataclass: bool = False
    bases: tuple[str, ...] = ()


@cache
def find(path: str) -> Class | None:
    """The class a dotted path leads to; None where the sources do not tell.

    Raises:
        LookupError: There is nothing of that name.
    """
    module, _, name = path.rpartition(".")
    source = source_of(module)
    if source is None:
        raise LookupError(path)
    definition, origin = source.defined.get(name), source.imported.get(name, path)
    if isinstance(definition, ast.ClassDef):
        return _class(definition, source)
    if definition is None and origin != path:  # a submodule may be imported under its own path
        return find(origin)
    names = {*source.imported, *source.defined}
    if not names & {name, "*", "__getattr__"}:
        raise LookupError(path)
    return None


def known(path: str) -> Class | None:
    """As `find`, but None as well where there is nothing of that name."""
    try:
        return find(path)
    except LookupError:
        return None


def _class(node: ast.ClassDef, source: Source) -> Class:
    bases = tuple(source.path_of(base) for base in node.bases)
    methods = {item.name: item for item in node.body if isinstance(item, ast.FunctionDef)}
    is_dataclass = any("dataclass" in ast.unparse(each) for each in node.decorator_list)
    document = ast.get_docstring(node) or ""
    takes_all = False
    if is_dataclass:
        parameters = {**_inherited(bases).parameters, **_fields(node, source, document)}
    elif "__init__" in methods:
        init = methods["__init__"]
        document_of_init = ast.get_docstring(init) or ""
        parameters = _parameters(init, source, f"{document}\n\n{document_of_init}")
        takes_all = bool(init.args.kwarg or init.args.vararg)
    else:
        parent = _inherited(bases)
        parameters, takes_all = parent.parameters, parent.takes_all
    abstract = {
        name
        for name, function in methods.items()
        if any("abstractmethod" in ast.unparse(each) for each in function.decorator_list)
    }
    open_in_bases = {n for b in bases if b.startswith("project.") for n in _unimplemented(b)}
    return Class(
        path=f"{source.module}.{node.name}",
        summary=first_sentence(document),
        parameters=parameters,
        takes_all=takes_all,
        unimplemented=frozenset(open_in_bases - set(methods) | abstract),
        is_dataclass=is_dataclass,
        bases=bases,
    )


def _unimplemented(path: str) -> frozenset[str]:
    found = known(path)
    return found.unimplemented if found else frozenset()


def _inherited(bases: tuple[str, ...]) -> Class:
    """The first base whose source is at hand; without one, anything may be taken."""
    found = [known(base) for base in bases]
    return next(filter(None, found), Class("", "", {}, takes_all=bool(bases)))


def _parameters(function: ast.FunctionDef, source: Source, document: str) -> dict[str, Parameter]:
    arguments = function.args
    positional = [*arguments.posonlyargs, *arguments.args]
    missing = [None] * (len(positional) - len(arguments.defaults))
    defaults = [*missing, *arguments.defaults, *arguments.kw_defaults]
    pairs = zip([*positional, *arguments.kwonlyargs], defaults, strict=True)
    return _described([(a.arg, a.annotation, d) for a, d in pairs][1:], source, document)


def _fields(node: ast.ClassDef, source: Source, document: str) -> dict[str, Parameter]:
    fields = [f for f in node.body if isinstance(f, ast.AnnAssign)]
    return _described(
        [
            (ast.unparse(f.target), f.annotation, f.value)
            for f in fields
            if "ClassVar" not in ast.unparse(f.annotation)
        ],
        source,
        document,
    )


def _described(
    items: list[tuple[str, ast.expr | None, ast.expr | None]], source: Source, document: str
) -> dict[str, Parameter]:
    meanings = meanings_in(document)
    return {
        name: Parameter(
            name=name,
            type=source.words(annotation),
            default=ast.unparse(default) if default else None,
            meaning=meanings.get(name, ""),
            refers_to=tuple(
                source.path_of(part)
                for part in ast.walk(annotation or ast.Constant(None))
                if isinstance(part, ast.Name | ast.Attribute)
            ),
        )
        for name, annotation, default in items
    }


def first_sentence(document: str) -> str:
    """The first sentence of a docstring, in one line."""
    paragraph = " ".join(document.partition("\n\n")[0].split())
    return re.split(r"(?<=[.!?])\s", paragraph)[0]


def meanings_in(document: str) -> dict[str, str]:
    """What the `Args` of a docstring say, by name."""
    meanings: dict[str, str] = {}
    name, inside = "", False
    for line in document.splitlines():
        if line and not line.startswith(" "):
            inside = line.startswith("Args:")
        elif inside and (started := re.match(r" {4}(\w+)[^:]*:\s*(.*)", line)):
            name = started[1]
            meanings[name] = started[2]
        elif inside and name and line.strip():
            meanings[name] += " " + line.strip()
    return meanings


def classes_in(module: str) -> dict[str, Class]:
    """The classes a module exports (or defines, where it has no `__all__`), by full path."""
    source = source_of(module)
    names = (source.exported or list(source.defined)) if source else []
    found = {f"{module}.{name}": known(f"{module}.{name}") for name in names}
    return {path: each for path, each in found.items() if each}


def method(path: str, name: str) -> dict[str, Parameter] | None:
    """What a method of a class, or of what it derives from, takes; None if there is none."""
    found = known(path)
    if found is None:
        return None
    module, _, class_name = found.path.rpartition(".")
    source = source_of(module)
    assert source is not None  # the class was found in it
    for item in getattr(source.defined[class_name], "body", []):
        if isinstance(item, ast.FunctionDef) and item.name == name:
            return _parameters(item, source, ast.get_docstring(item) or "")
    inherited = (method(base, name) for base in found.bases)
    return next((each for each in inherited if each is not None), None)
