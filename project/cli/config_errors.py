"""Mistakes in configs and on the command line, in words.

`checked` finds them in the sources' terms before torch is imported and before jsonargparse, which
would complete an abbreviated key silently, sees them. It only refuses what it is sure of; what is
left to jsonargparse comes back through `project.cli.parser_errors`.
"""

import difflib
import re
from pathlib import Path

import yaml
from yaml import MappingNode, Node, ScalarNode, SequenceNode

from project.cli import catalog, config_files, options
from project.cli.arguments import Arguments
from project.cli.catalog import Class, Parameter
from project.cli.config_files import Entry
from project.cli.sources import source_of
from project.errors import UserError, suggestion

WITHOUT_VALUE = ("--print_config",)
OURS = ("project.", f"{options.OPTIMIZERS}.")
"""Packages whose sources say what exists. All others are jsonargparse's to judge."""


def checked(arguments: Arguments) -> Arguments:
    """A command whose keys and class names exist, as jsonargparse understands it.

    Config files without content are left out, and the short name of one of our networks is written
    in full, as torchvision may have one of the same name.

    Args:
        arguments: The command; changed in place.

    Raises:
        UserError: Something in it or in its config files can't be meant.
    """
    check = _Check(arguments)
    for path in list(arguments.configs):
        content = config_files.read(path)
        if content is None or _only_a_key(content):
            arguments.configs.remove(path)
        else:
            check.tree(Entry(path, None, content))
    check.forget_what_the_checkpoint_decides()
    arguments.options = check.typed(arguments.options)
    return arguments


class _Check:
    """Walks over the config files and the options in the order in which they win.

    Args:
        arguments: The command.
    """

    def __init__(self, arguments: Arguments) -> None:
        self.verb = arguments.verb
        self.root = options.of_verb(arguments.verb)
        self.chosen: dict[str, Class | None] = {}  # by dotted key; None: a class we know nothing of
        given = arguments.option("--ckpt_path")
        self.from_scratch = arguments.verb == "fit" and arguments.resume is None and not given

    def forget_what_the_checkpoint_decides(self) -> None:
        """Except in training, the model is the checkpoint's, whatever the files say."""
        if self.verb != "fit":
            self.chosen = {
                key: found for key, found in self.chosen.items() if key.partition(".")[0] != "model"
            }

    def tree(self, whole: Entry) -> None:
        """Check a whole config file."""
        for key, entry in whole.below():
            if key != "config":
                self._key(self.root, "", key.split("."), entry)

    def typed(self, words: list[str]) -> list[str]:
        """Check the options typed; returns them as jsonargparse is to see them."""
        kept: list[str] = []
        rest = list(words)
        while rest:
            option, equals, value = rest.pop(0).partition("=")
            if not option.startswith("-"):
                raise UserError(_stray_word(option + equals + value, self.verb))
            follows = bool(rest) and not _is_option(rest[0])
            if option in WITHOUT_VALUE or option.endswith(".help"):
                takes_next = follows and not equals and option not in WITHOUT_VALUE
                kept += [option + equals + value, *([rest.pop(0)] if takes_next else [])]
                continue
            if not equals and follows:
                value = rest.pop(0)
            key = option.lstrip("-")
            node = _node(value) if equals or follows else None
            if not option.startswith("--"):
                raise UserError(f"There is no option {option}. Options start with '--': --{key}.")
            self._key(self.root, "", key.split("."), Entry(None, None, node))
            if node is None:
                raise UserError(f"{option} needs a value: {option} VALUE.")
            parts = [part for part in key.split(".") if part not in ("init_args", "class_path")]
            if parts == ["model", "network"] and value in _short_names(options.NETWORKS):
                value = f"{options.NETWORKS}.{value}"
            kept += [f"{option}={value}"] if equals else [option, value]
        return kept

    def _key(self, owner: Class, path: str, keys: list[str], entry: Entry) -> None:
        """Check a key of a class, and what stands below it.

        Args:
            owner: The class at `path`.
            path: Dotted key so far, without `init_args`.
            keys: The rest of the key.
            entry: The whole key's value and place.
        """
        name, deeper = keys[0].removesuffix("+"), keys[1:]
        dotted = f"{path}.{name}" if path else name
        parameter = owner.parameters.get(name)
        if parameter is None:
            if not owner.takes_all and name != "help":
                raise UserError(self._unknown(owner, path, name, entry))
            return
        if path in ("model", "model.network") and name in options.supplied():
            _refuse_what_the_data_say(dotted, entry)
        group = options.group(parameter)
        if group is not None:
            self._below(group, dotted, deeper, entry)
        elif options.choices(parameter) is not None:
            self._choice(parameter, dotted, deeper, entry)
        elif not deeper:
            self._anything(dotted, entry)

    def _below(self, owner: Class, path: str, keys: list[str], entry: Entry) -> None:
        if keys:
            self._key(owner, path, keys, entry)
            return
        for key, inner in entry.below():
            self._key(owner, path, key.split("."), inner)

    def _choice(self, parameter: Parameter, path: str, keys: list[str], entry: Entry) -> None:
        """Check a key whose value is a class: its name, or something below it."""
        names_class = keys == ["class_path"] or not keys
        if names_class and isinstance(entry.value, ScalarNode):
            self.chosen[path] = self._class(parameter, path, entry)
        elif not keys and isinstance(entry.value, MappingNode):
            items = sorted(entry.below(), key=lambda item: item[0] != "class_path")  # that first
            for key, inner in items:
                self._choice(parameter, path, key.split("."), inner)
            if self.chosen.get(path):
                _refuse_beside_class_path(path, dict(items))
        elif keys and keys[0] not in ("class_path", "dict_kwargs", "help"):
            owner = self.chosen[path] if path in self.chosen else self._default(parameter)
            if owner is not None:
                self._below(owner, path, keys[1:] if keys[0] == "init_args" else keys, entry)

    def _default(self, parameter: Parameter) -> Class | None:
        default = parameter.default or ""
        return catalog.known(default) if self.from_scratch and default.startswith(OURS) else None

    def _class(self, parameter: Parameter, path: str, entry: Entry) -> Class | None:
        """The class a value names; None if it names none, or one whose source we don't know."""
        assert entry.value is not None
        name, paths = entry.value.value, list(options.choices(parameter) or {})
        if entry.value.tag != "tag:yaml.org,2002:str":
            return None
        if "/" in name or Path(name).is_file():  # a file to read the value from
            return None
        try:
            found = self._named(name, parameter, paths)
        except LookupError:
            raise UserError(
                f"{entry.shown(path)} is {name!r}, and there is no such class."
                f"{class_hint(name, paths)}"
            ) from None
        if found is not None and found.unimplemented:
            raise UserError(
                f"{entry.shown(path)} is {name!r}, which lacks "
                f"{' and '.join(sorted(found.unimplemented))}; choose a class that derives from it."
                f"{class_hint('', paths)}"
            )
        return found

    def _named(self, name: str, parameter: Parameter, paths: list[str]) -> Class | None:
        """As `_class`, for the name alone; raises LookupError if there surely is no such class."""
        short = {path.rpartition(".")[2]: path for path in paths}
        if "." in name:
            return catalog.find(name) if name.startswith(OURS) else None
        if name in short:
            return catalog.known(short[name])
        if not _defined_somewhere(name) and _is_surely_wrong(name, parameter, list(short)):
            raise LookupError(name)
        return None

    def _anything(self, path: str, entry: Entry) -> None:
        """Check the classes of ours named inside a value of another kind, such as callbacks."""
        if isinstance(entry.value, SequenceNode):
            for item in entry.value.value:
                self._anything(path, Entry(entry.file, entry.at, item))
        items = dict(entry.below())
        if "class_path" in items and "init_args" in items:
            named = items["class_path"].value
            ours = isinstance(named, ScalarNode) and named.value.startswith("project.")
            found = catalog.known(named.value) if ours and named else None
            if found:
                self._below(found, path, [], items["init_args"])

    def _unknown(self, owner: Class, path: str, name: str, entry: Entry) -> str:
        shown = entry.shown(f"{path}.{name}" if path else name)
        allowed = [n for n in owner.parameters if n not in options.supplied() | {"params"}]
        elsewhere = [f"{key}.{name}" for key, c in self._owners().items() if name in c.parameters]
        dashes = "" if entry.file else "--"
        if elsewhere:
            homes = " or ".join(f"{dashes}{home}" for home in elsewhere)
            return f"{shown} does not exist. Did you mean {homes}?"
        name_of_owner = owner.path.rpartition(".")[2]
        whole = f"{shown} is not an option of {name_of_owner if path else self.verb}."
        longer = [each for each in allowed if each.startswith(name)]
        near = difflib.get_close_matches(name.lower(), allowed, 1, 0.6) or longer
        if len(allowed) <= 16:
            return whole + suggestion(near[0] if near else name, allowed)
        guess = f" Did you mean {near[0]!r}?" if near else ""
        return f"{whole}{guess} --print_config shows all that there are."

    def _owners(self) -> dict[str, Class]:
        groups = {name: options.group(each) for name, each in self.root.parameters.items()}
        return {key: each for key, each in {**groups, **self.chosen}.items() if each}


def class_hint(name: str, paths: list[str]) -> str:
    """The end of a message about a class that does not exist: the nearest one, all, and others.

    Args:
        name: What was written, a short name or a path.
        paths: Full paths of the classes to choose from.
    """
    short = {path.rpartition(".")[2].lower(): path for path in paths}
    near = difflib.get_close_matches(name.rpartition(".")[2].lower(), short, 1, 0.5)
    guess = f" Did you mean {short[near[0]]!r}?" if near else ""
    names = sorted(path.rpartition(".")[2] for path in paths)
    listed = f" Allowed: {', '.join(names)}," if names else " Allowed:"
    return f"{guess}{listed} or the full path of a class from elsewhere, package.module.Class."


def _only_a_key(content: MappingNode) -> bool:
    """One key without a value, which jsonargparse takes for text."""
    return len(content.value) == 1 and config_files.is_null(content.value[0][1])


def _is_option(word: str) -> bool:
    """As argparse sees it: a dash, unless a number or words with a space follow."""
    return word.startswith("-") and " " not in word and not re.match(r"-\.?\d|-$", word)


def _node(text: str) -> Node:
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        node = None
    return node or ScalarNode("tag:yaml.org,2002:str", text)


def _stray_word(word: str, verb: str) -> str:
    if word.endswith((".yaml", ".yml")):
        return f"{word!r} stands alone. A config file is given as --config {word}."
    key, equals, _ = word.partition("=")
    if equals and key.partition(".")[0] in options.of_verb(verb).parameters:
        return f"{word!r} lacks its dashes: --{word}."
    return f"{word!r} belongs to no option: each takes one value. Text with spaces needs quotes."


def _is_surely_wrong(name: str, parameter: Parameter, allowed: list[str]) -> bool:
    """Any network that torch or torchvision knows has a short name; only a slip is sure."""
    if "torch.nn.Module" not in parameter.refers_to:
        return True
    near = difflib.get_close_matches(name.lower(), [each.lower() for each in allowed], 1, 0.75)
    torch = source_of("torch.nn.modules")
    return bool(near) and torch is not None and name not in torch.exported


def _refuse_what_the_data_say(path: str, entry: Entry) -> None:
    if entry.value is not None and not config_files.is_null(entry.value):
        raise UserError(f"{entry.shown(path)} is known from the data, which say it: leave it out.")


def _refuse_beside_class_path(path: str, items: dict[str, Entry]) -> None:
    beside = {key.partition(".")[0] for key in items} - {"class_path", "init_args", "dict_kwargs"}
    if "class_path" in items and beside:
        name = min(beside)
        raise UserError(
            f"{items[name].shown(f'{path}.{name}')} stands beside class_path. Put it one level "
            "deeper, under init_args."
        )


def _short_names(module: str) -> set[str]:
    return {path.rpartition(".")[2] for path in catalog.classes_in(module)}


def _defined_somewhere(name: str) -> bool:
    """Whether a file of ours, exported or not, has a class of that name."""
    files = Path(__file__).parent.parent.rglob("*.py")
    return any(re.search(rf"^class {re.escape(name)}\b", f.read_text("utf-8"), re.M) for f in files)
