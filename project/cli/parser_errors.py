"""What jsonargparse says about a wrong value, in one paragraph.

Its message is a page: every alternative of every type on the way, with the reason why each was
refused. The first chain of keys in it leads to the value; what stands there is what matters.
"""

import ast
import re
from dataclasses import dataclass

from yaml import ScalarNode

from project.cli import catalog, config_files, options
from project.cli.arguments import Arguments
from project.cli.catalog import Parameter
from project.cli.config_errors import class_hint
from project.cli.config_files import Entry
from project.errors import UserError, suggestion

WORDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "text",
    "list": "a list",
    "Iterable": "a list",
}
CALLBACKS = "lightning.pytorch.callbacks"


def explain(error: Exception, arguments: Arguments) -> UserError:
    """A short message for an error of the parser.

    Args:
        error: What jsonargparse raised.
        arguments: The command it was raised for.
    """
    key, reason = _innermost(str(error))
    name = _refused_option(reason)
    place = _place(".".join(filter(None, [key, name])), arguments)
    for answer in (_ambiguous, _missing, _unknown_key, _unknown_class, _wrong_type):
        message = answer(reason, key, place)
        if message:
            return UserError(message)
    lines = [line.strip(" -") for line in reason.splitlines() if line.strip(" -")]
    told = " ".join(lines[-3:] if key else lines)
    return UserError((f"{place.shown}: " if key else "") + told[:400])


@dataclass(frozen=True)
class _Found:
    """Where the value stands, as shown, what was written, what is known of the parameter."""

    shown: str
    written: str | None
    parameter: Parameter | None


def _innermost(message: str) -> tuple[str, str]:
    """The dotted key that the first chain leads to, and what is said about it."""
    keys: list[str] = []
    depth, start = -1, 0
    for match in re.finditer(r'^( *).*?Parser key "([^"]+)":', message, re.MULTILINE):
        if len(match[1]) > depth:
            keys.append(match[2])
            depth, start = len(match[1]), match.end()
    return ".".join(keys), message[start:].split("\nGiven value type")[0].strip("\n")


def _place(key: str, arguments: Arguments) -> _Found:
    parameter = _parameter(key, arguments)
    for option, value in _typed(arguments.options):
        if option == key:
            return _Found(f"--{key}", value, parameter)
    for path in reversed(arguments.configs):
        whole = Entry(path, None, config_files.read(path))
        found = [entry for dotted, entry in config_files.entries(whole) if dotted == key]
        for entry in found[-1:]:
            value = entry.value.value if isinstance(entry.value, ScalarNode) else None
            return _Found(entry.shown(key), value, parameter)
    return _Found(key, None, parameter)


def _typed(words: list[str]) -> list[tuple[str, str]]:
    """The options typed with their values, the last one first, keys without `init_args`."""
    pairs = []
    for position, word in enumerate(words):
        option, equals, value = word.partition("=")
        if option.startswith("--"):
            following = words[position + 1] if position + 1 < len(words) else ""
            parts = [p for p in option[2:].split(".") if p not in ("init_args", "class_path")]
            pairs.append((".".join(parts).removesuffix("+"), value if equals else following))
    return pairs[::-1]


def _parameter(key: str, arguments: Arguments) -> Parameter | None:
    """What the catalog knows of the last part of a key, of the chosen class if that is known."""
    owners = [options.of_verb(arguments.verb)]
    *parents, name = key.split(".")
    for depth, parent in enumerate(parents, 1):
        slots = [owner.parameters[parent] for owner in owners if parent in owner.parameters]
        groups = [options.group(slot) for slot in slots]
        found = {path: c for slot in slots for path, c in (options.choices(slot) or {}).items()}
        named = _class_named(".".join(parents[:depth]), arguments)
        chosen = [c for path, c in found.items() if path.rpartition(".")[2] == named]
        owners = [each for each in [*groups, *(chosen or found.values())] if each]
    return next((o.parameters[name] for o in owners if name in o.parameters), None)


def _class_named(key: str, arguments: Arguments) -> str | None:
    """The short name of the class that the command, else the last config file, has at a key."""
    names = [value for option, value in _typed(arguments.options) if option == key]
    for path in reversed(arguments.configs):
        for dotted, entry in config_files.entries(Entry(path, None, config_files.read(path))):
            if dotted in (key, f"{key}.class_path") and isinstance(entry.value, ScalarNode):
                names.append(entry.value.value)
    return names[0].rpartition(".")[2] if names else None


def _ambiguous(reason: str, key: str, place: _Found) -> str | None:
    found = re.search(r"Multiple subclasses with name (\w+)\. .*?: (.*)\.", reason)
    if not found:
        return None
    return f"{place.shown} is {found[1]!r}, a name of several classes. Write which: {found[2]}."


def _missing(reason: str, key: str, place: _Found) -> str | None:
    found = re.search(r"arguments are required: ([\w., ]+)", reason)
    if not found:
        found = re.search(r'Key "([\w.]+)" is required', reason)
    if not found:
        return None
    names = [f"--{key}.{name.strip()}" if key else f"--{name}" for name in found[1].split(",")]
    owner = _class_path(reason)
    whose = f"{owner} needs" if owner else "The command needs"
    values = " and ".join(f"{name} VALUE" for name in names)
    return f"{whose} a value that has no default: give {values}, or set it in the config file."


def _class_path(reason: str) -> str | None:
    paths = re.findall(r"given class_path '([\w.]+)'", reason)
    return paths[0] if paths else None


def _unknown_key(reason: str, key: str, place: _Found) -> str | None:
    name = _refused_option(reason)
    if name is None:
        return None
    owner = _class_path(reason)
    help_option = f" --{key}.help {owner} lists what it takes." if key and owner else ""
    return f"{place.shown} is not an option{f' of {owner}' if owner else ''}.{help_option}"


def _refused_option(reason: str) -> str | None:
    found = re.search(r"[Oo]ption '([^']+)'", reason)
    return found[1] if found and "not accept" in reason else None


def _unknown_class(reason: str, key: str, place: _Found) -> str | None:
    callback = key == "trainer.callbacks" and (place.written or "").isidentifier()
    if _expected(reason) and "has no attribute" not in reason and not callback:
        return None
    reasons = {
        r"module '[\w.]+' has no attribute '\w+'": "there is no such class",
        r"No module named '[\w.]+'": "there is no such module",
        r"but [\w.]+ is abstract": "it is abstract; choose a class that derives from it",
        r"Expected a dot import path string: \S+": "there is no such class",
        r"Not a valid subclass of \w+": "it is not a class that can be used here",
    }
    why = next((told for pattern, told in reasons.items() if re.search(pattern, reason)), None)
    if why is None:
        return None
    written = re.search(r"dot import path string: (\S+)|given class_path '([\w.]+)'", reason)
    name = place.written or (written[1] or written[2] if written else "?")
    paths = list(options.choices(place.parameter) or {}) if place.parameter else []
    if key == "trainer.callbacks":
        paths = list(catalog.classes_in(CALLBACKS))
    return f"{place.shown} is {name!r}, but {why}.{class_hint(name, paths)}"


def _expected(reason: str) -> list[str]:
    """The types a value was tried as, as source text."""
    types = re.findall(
        r"Expected an? (<class '[\w.]+'>|typing\.Literal\[.*?\]|[\w.]+\[.*\])", reason
    )
    plain = [re.sub(r"<class '(?:\w+\.)*(\w+)'>", r"\1", each) for each in types]
    return [each for each in dict.fromkeys(plain) if each != "NoneType"]


def _wrong_type(reason: str, key: str, place: _Found) -> str | None:
    expected = _expected(reason)
    if not expected or not key:
        return None
    got = re.search(r"(?:Got value|Given value): (\S+?)\.?(?:\s|$)", reason)
    nested = re.search(r"NestedArg\(key='([\w.]+)'", got[1]) if got else None
    if nested:
        return f"--{key}.{nested[1]} belongs to a class that is not chosen. First: --{key} CLASS."
    literals = [
        str(value)
        for each in expected
        if each.startswith("typing.Literal")
        for value in ast.literal_eval(each.removeprefix("typing.Literal"))
    ]
    words = [WORDS.get(each, each) for each in expected if not each.startswith("typing.Literal")]
    value = place.written if place.written is not None else got[1] if got else "?"
    if literals and not words:
        return f"{place.shown} is {value!r}.{suggestion(value, literals)}"
    if key.startswith("trainer.") and "dot import path" in reason:
        words.append("the path of a class")
    allowed = " or ".join([*dict.fromkeys(words), *map(repr, literals)])
    part = f" ({got[1]!r} in it)" if got and got[1] != value and len(got[1]) < 30 else ""
    example = place.parameter.example if place.parameter else None
    typed = f"--{key} {example}" if place.shown.startswith("--") else f"{key}: {example}"
    such_as = f" Such as: {typed}" if example else ""
    return f"{place.shown} is {value!r}{part}; allowed is {allowed}.{such_as}"
