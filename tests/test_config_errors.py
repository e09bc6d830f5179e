"""Mistakes in configs and on the command line: refused early, in the right words, and only they."""

import subprocess
import sys

import pytest
import yaml

from project.cli import commands, main
from project.cli.arguments import Arguments
from project.cli.config_errors import checked
from project.cli.parser_errors import explain
from project.errors import UserError
from project.runs import project_root

DIGITS = ["fit", "--config", "configs/digits.yaml"]
FILES = (project_root() / "configs").rglob("*.yaml")
CONFIGS = sorted(path for path in FILES if path.parent.name != "search")  # those are spaces


def with_file(tmp_path, text):
    path = tmp_path / "mistake.yaml"
    path.write_text(text, encoding="utf-8")
    return [*DIGITS, "--config", str(path)]


def refusal(args):
    with pytest.raises(UserError) as caught:
        checked(Arguments(args))
    return str(caught.value)


TYPED = [
    ("--trainer.max_epoch 3", ["--trainer.max_epoch ", "'max_epochs'"]),
    ("--trainer.max-epochs 3", ["--trainer.max-epochs ", "'max_epochs'"]),
    ("--seed 3", ["--seed ", "'seed_everything'"]),
    ("--ckpt runs/x", ["--ckpt ", "'ckpt_path'"]),
    ("--chekpoint.monitor val_loss", ["--chekpoint ", "'checkpoint'"]),
    ("--checkpoint.moniter val_loss", ["--checkpoint.moniter ", "'monitor'"]),
    ("--progress.refresh 1", ["--progress.refresh ", "'refresh_rate'"]),
    ("--run.nam x", ["--run.nam ", "'name'"]),
    ("--batch_size 3", ["--batch_size ", "--data.batch_size"]),
    ("--max_epochs 3", ["--max_epochs ", "--trainer.max_epochs"]),
    ("--lr 3", ["--lr ", "--model.optimizer.lr"]),
    ("--foo 3", ["--foo ", "trainer", "seed_everything"]),
    ("--data.batch_siz 3", ["--data.batch_siz ", "'batch_size'", "augmentation"]),
    ("--data.batch_siz=3", ["--data.batch_siz ", "'batch_size'"]),
    ("--data.loader.num_worker 3", ["--data.loader.num_worker ", "'num_workers'", "shuffle"]),
    ("--data.loader={num_worker:\\ 3}", ["--data.loader.num_worker ", "'num_workers'"]),
    ("--data.loader.init_args.shuffle true", ["--data.loader.init_args "]),
    ("--model.network.widht 3", ["--model.network.widht ", "ResNet", "'width'"]),
    ("--model.init_args.network.init_args.widht 3", ["--model.network.widht ", "'width'"]),
    ("--model.optimizer.lrr 3", ["--model.optimizer.lrr ", "AdamW", "'lr'"]),
    ("--model.optimizer SGD --model.optimizer.betas [0,1]", ["SGD", "momentum"]),
    ("--model.optimizer torch.optim.SGD --model.optimizer.momentm 1", ["'momentum'"]),
    ("--model.schedule Linear --model.schedule.gama 1", ["Linear", "final_fraction"]),
    ("--model.network project.models.Backbone --model.network.nam x", ["Backbone", "'name'"]),
    ("--model.network.num_outputs 3", ["--model.network.num_outputs ", "from the data"]),
    ("--model.class_names [a,b]", ["--model.class_names ", "from the data"]),
    ("--model.network ResNett", ["'ResNett'", "'project.models.ResNet'", "Backbone"]),
    (
        "--model.network project.models.Resnet",
        ["'project.models.Resnet'", "'project.models.ResNet'"],
    ),
    ("--model Clasification", ["'Clasification'", "'project.tasks.Classification'"]),
    ("--model project.tasks.Task", ["'project.tasks.Task'", "decode", "Classification"]),
    ("--data digits", ["'digits'", "'project.data.Digits'"]),
    ("--data.class_path project.data.Nothing", ["'project.data.Nothing'", "Digits"]),
    ("--model.schedule cosine", ["'cosine'", "'project.optim.Cosine'", "Linear"]),
    ("--model.optimizer SDG", ["'SDG'", "'torch.optim.SGD'"]),
    ("--model.optimizer torch.optim.AdamV", ["'torch.optim.AdamV'", "'torch.optim.Adam"]),
    ("--data.batch_size", ["--data.batch_size needs a value"]),
    ("--data.batch_size --trainer.max_epochs 3", ["--data.batch_size needs a value"]),
    ("configs/digits.yaml", ["'configs/digits.yaml'", "--config configs/digits.yaml"]),
    ("trainer.max_epochs=3", ["--trainer.max_epochs=3"]),
    ("-trainer.max_epochs 3", ["-trainer.max_epochs", "--trainer.max_epochs"]),
    ("--trainer.max_epochs 3 4", ["'4'"]),
    ("--data={class_path:\\ Digits,\\ batch_size:\\ 3}", ["--data.batch_size ", "under init_args"]),
]


@pytest.mark.parametrize(("words", "told"), TYPED)
def test_a_mistake_on_the_command_line(words, told):
    typed = [word.replace("\0", " ") for word in words.replace("\\ ", "\0").split()]
    message = refusal([*DIGITS, *typed])
    for part in told:
        assert part in message
    assert "\n" not in message


IN_FILES = [
    ("foo: 3", ["foo (", "line 1", "trainer"]),
    ("\n\ntrainer:\n  max_epoch: 3", ["trainer.max_epoch (", "line 4", "'max_epochs'"]),
    ("trainer.max_epoch: 3", ["trainer.max_epoch (", "line 1", "'max_epochs'"]),
    ("batch_size: 3", ["batch_size (", "data.batch_size"]),
    ("data:\n  init_args:\n    batch_siz: 3", ["data.batch_siz (", "line 3", "'batch_size'"]),
    ("data:\n  batch_siz: 3", ["data.batch_siz (", "line 2", "'batch_size'"]),
    (
        "data:\n  init_args:\n    loader:\n      shufle: true",
        ["data.loader.shufle (", "line 4", "'shuffle'"],
    ),
    (
        "data:\n  class_path: Digits\n  batch_size: 3",
        ["data.batch_size (", "line 3", "under init_args"],
    ),
    (
        "model:\n  init_args:\n    network:\n      init_args:\n        widht: 3",
        ["model.network.widht (", "line 5", "'width'"],
    ),
    ("model:\n  init_args.network.init_args.widht: 3", ["model.network.widht (", "line 2"]),
    (
        "model:\n  init_args:\n    network:\n      class_path: project.models.Resnet",
        ["model.network (", "line 4", "'project.models.ResNet'"],
    ),
    (
        "model:\n  init_args:\n    network: project.modls.ResNet",
        ["'project.modls.ResNet'", "'project.models.ResNet'"],
    ),
    (
        "model:\n  init_args:\n    optimizer:\n      class_path: SGD\n      init_args: {moment: 1}",
        ["SGD", "'momentum'", "line 5"],
    ),
    ("model:\n  init_args:\n    schedule: Cosin", ["'Cosin'", "'project.optim.Cosine'"]),
    (
        "trainer:\n  callbacks:\n  - class_path: project.callbacks.Progress\n    init_args: {a: 1}",
        ["trainer.callbacks.a (", "line 4", "refresh_rate"],
    ),
    ("checkpoint: {monitor: a, mod: min}", ["checkpoint.mod (", "'mode'"]),
    ("trainer:\n  max_epochs: 3\n  devices: 1\n  max_epochs: 4", ["'max_epochs'", "lines 2 and 4"]),
    ("trainer: {}\ndata: {}\ntrainer: {}", ["'trainer'", "lines 1 and 3"]),
    ("trainer:\n\tmax_epochs: 3", ["line 2, column 1", "tab", "spaces"]),
    ("trainer: [", ["not valid YAML", "line 1"]),
    ("trainer:\n  max_epochs: 3\n devices: 1", ["not valid YAML", "line 3"]),
    ("a: 1\n---\nb: 2", ["not valid YAML", "document"]),
    ("- a", ["keys with values", "a list"]),
    ("max_epochs 3", ["keys with values", "'max_epochs 3'"]),
    ("verbose: true", ["verbose (", "fit"]),
]


@pytest.mark.parametrize(("text", "told"), IN_FILES)
def test_a_mistake_in_a_file(tmp_path, text, told):
    message = refusal(with_file(tmp_path, text))
    for part in ["mistake.yaml", *told]:
        assert part in message
    assert "\n" not in message


def test_a_file_that_is_not_text(tmp_path):
    args = with_file(tmp_path, "")
    (tmp_path / "mistake.yaml").write_bytes(b"a: \xff")
    assert "mistake.yaml is not UTF-8" in refusal(args)


FINE = [
    "--trainer.callbacks+=EarlyStopping --trainer.callbacks.monitor val_loss",
    "--trainer.callbacks=[{class_path:\\ EarlyStopping,\\ init_args:\\ {monitor:\\ val_loss}}]",
    "--trainer.logger false",
    "--trainer.logger=false",
    "--trainer.max_steps -1",
    "--trainer.max_time 00:00:10:00",
    "--trainer={max_epochs:\\ 2}",
    "--trainer.strategy ddp",
    "--model.optimizer torch.optim.SGD --model.optimizer.momentum 0.9",
    "--model.optimizer SGD --model.optimizer.init_args.momentum 0.9",
    "--model.network project.models.ResNet --model.network.width 8",
    "--model.network ResNet --model.network.width 8",
    "--model.network=ResNet",
    "--model.network.class_path ResNet",
    "--model.network project.models.resnet.ResNet",
    "--model.network torch.nn.Identity",
    "--model.network Backbone --model.network.name resnet18",
    "--model.init_args.network.init_args.width 8",
    "--model.network.dict_kwargs.anything 3",
    "--model.schedule null",
    "--model.schedule Steps --model.schedule.at [0.5]",
    "--data.class_path project.data.Digits",
    "--data Digits --data.batch_size 3",
    "--data={class_path:\\ Digits,\\ init_args:\\ {batch_size:\\ 3}}",
    "--data.loader={num_workers:\\ 1}",
    "--data.loader.num_workers auto",
    "--seed_everything true",
    "--checkpoint.mode=min --run.name x --run.test_after_fit false",
]
FINE_FILES = [
    "",
    "# nothing but a comment\n",
    "trainer:\n",
    "trainer: null\ndata: null\n",
    "config: null",
    "trainer.max_epochs: 3",
    "data: Digits",
    "data:\n  batch_size: 3",
    "data:\n  init_args: {batch_size: 3, loader: {num_workers: 0}}",
    "model:\n  network:\n    width: 8",
    "model:\n  init_args.network.init_args.width: 8",
    "model:\n  init_args:\n    schedule: null",
    "model:\n  init_args:\n    optimizer: {class_path: SGD, init_args: {lr: 1e-3}}",
    "model:\n  init_args:\n    network: {class_path: torch.nn.Linear, init_args: {bias: true}}",
    "trainer:\n  callbacks+:\n  - class_path: EarlyStopping\n    init_args: {monitor: val_loss}",
    "trainer: &same {max_epochs: 3}\n",
]


def parses(arguments, capsys):
    """Whether jsonargparse takes it as well; it stops after printing."""
    arguments.options.append("--print_config")
    with pytest.raises(SystemExit) as stopped:
        commands.run(arguments)
    assert stopped.value.code in (0, None)
    return yaml.safe_load(capsys.readouterr().out)


@pytest.mark.slow
@pytest.mark.parametrize("words", FINE)
def test_no_false_alarm_on_the_command_line(words, capsys):
    typed = [word.replace("\0", " ") for word in words.replace("\\ ", "\0").split()]
    assert parses(checked(Arguments([*DIGITS, *typed])), capsys)


@pytest.mark.slow
@pytest.mark.parametrize("text", FINE_FILES)
def test_no_false_alarm_in_a_file(text, tmp_path, capsys):
    assert parses(checked(Arguments(with_file(tmp_path, text))), capsys)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.name)
def test_no_false_alarm_on_our_configs_and_their_full_dump(path, tmp_path, capsys):
    full = parses(checked(Arguments(["fit", "--config", str(path)])), capsys)
    dump = tmp_path / "full.yaml"
    dump.write_text(yaml.safe_dump(full), encoding="utf-8")
    assert parses(checked(Arguments(["fit", "--config", str(dump)])), capsys) == full
    checked(Arguments(["fit", "--config", str(dump), *DIGITS[1:], "--print_config"]))


@pytest.mark.parametrize("verb", ["validate", "test", "predict"])
def test_keys_below_a_model_that_only_the_checkpoint_knows_are_left_alone(verb):
    checked(Arguments([verb, "--config", "configs/digits.yaml", "--model.network.anything", "3"]))
    checked(Arguments([verb, "--ckpt_path", "best", "--data.whatever", "3"]))
    assert "'batch_size'" in refusal([verb, *DIGITS[1:], "--data.batch_siz", "3"])


def test_a_short_name_that_torchvision_has_too_is_ours():
    words = checked(Arguments([*DIGITS, "--model.network", "ResNet"])).options
    assert words == ["--model.network", "project.models.ResNet"]


WRONG_VALUES = [
    ("--trainer.max_epochs x", ["--trainer.max_epochs is 'x'", "a whole number"]),
    ("--data.batch_size big", ["--data.batch_size is 'big'", "a whole number", "64"]),
    ("--data.splits.seed 1.5", ["--data.splits.seed is '1.5'", "a whole number"]),
    (
        "--data.augmentation lite",
        ["--data.augmentation is 'lite'", "'light'", "medium, none, strong"],
    ),
    (
        "--data.loader.num_workers many",
        ["--data.loader.num_workers is 'many'", "whole number", "'auto'"],
    ),
    ("--model.network.width wide", ["--model.network.width is 'wide'", "a whole number", "32"]),
    ("--model.network.depths [1,x]", ["--model.network.depths is '[1,x]'", "'x'", "[1, 1, 1]"]),
    ("--model.optimizer.lr fast", ["--model.optimizer.lr is 'fast'", "a number"]),
    ("--checkpoint.mode mix", ["--checkpoint.mode is 'mix'", "auto, max, min"]),
    ("--run.test_after_fit 3", ["--run.test_after_fit is '3'", "true or false"]),
    ("--seed_everything x", ["--seed_everything is 'x'", "a whole number"]),
    ("--trainer.precision 17", ["--trainer.precision is '17'", "16-mixed"]),
    ("--trainer.callbacks EarlyStoppin", ["'EarlyStoppin'", "EarlyStopping"]),
    ("--trainer.callbacks+=EarlyStopping", ["EarlyStopping", "--trainer.callbacks.monitor"]),
    ("--trainer.logger.foo 3", ["--trainer.logger.foo", "--trainer.logger CLASS"]),
    ("--model.schedule Steps", ["Steps", "--model.schedule.at"]),
    ("--model.network Backbone", ["Backbone", "--model.network.name"]),
    ("--model.network Linear", ["'Linear'", "torch.nn.Linear"]),
    ("--model.network torchvision.models.Foo", ["'torchvision.models.Foo'", "no such class"]),
    (
        "--model.network torch.nn.Linear --model.network.foo 3",
        ["--model.network.foo", "torch.nn.Linear"],
    ),
    ("--model nopackage.Nope", ["'nopackage.Nope'", "no such module"]),
]


def explained(args):
    arguments = checked(Arguments(args))
    with pytest.raises(UserError) as caught:
        commands.run(arguments)
    already = str(caught.value)
    return str(explain(caught.value, arguments)) if "\n" in already else already


@pytest.mark.parametrize(("words", "told"), WRONG_VALUES)
def test_a_wrong_value_on_the_command_line(words, told):
    message = explained([*DIGITS, *words.split()])
    for part in told:
        assert part in message
    assert "\n" not in message
    assert "Union" not in message


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("trainer:\n  max_epochs: x", ["trainer.max_epochs (", "line 2", "'x'", "a whole number"]),
        (
            "data:\n  init_args:\n    augmentation: lite",
            ["data.augmentation (", "line 3", "'light'"],
        ),
        (
            "model:\n  init_args:\n    network:\n      init_args:\n        width: wide",
            ["model.network.width (", "line 5", "'wide'"],
        ),
        (
            "data:\n  init_args:\n    loader: {num_workers: many}",
            ["data.loader.num_workers (", "'auto'"],
        ),
        (
            "model:\n  init_args:\n    network: {class_path: ResNet}",
            ["model.network (", "project.models.ResNet"],
        ),
    ],
)
def test_a_wrong_value_in_a_file(text, told, tmp_path):
    message = explained(with_file(tmp_path, text))
    for part in ["mistake.yaml", *told]:
        assert part in message
    assert "\n" not in message


def test_what_is_not_understood_is_passed_on_shortened():
    arguments = Arguments(DIGITS)
    assert (
        str(explain(ValueError("A new\n  kind of message"), arguments)) == "A new kind of message"
    )
    assert len(str(explain(ValueError("x " * 5000), arguments))) < 500


def test_the_answer_comes_without_torch_and_with_exit_code_2():
    code = (
        "import sys; from project.cli import main; "
        "code = main(['fit', '--config', 'configs/digits.yaml', '--trainer.max_epoch', '3']); "
        "assert 'torch' not in sys.modules; sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=project_root(),
        check=False,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: --trainer.max_epoch ")


def test_the_command_line_refuses_before_a_run_is_made(tmp_path, capsys):
    args = [*DIGITS, "--run.root", str(tmp_path), "--model.network.widht", "3"]
    assert main(args) == 2
    assert "'width'" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "words",
    ["--data.help", "--trainer.callbacks.help EarlyStopping", "--model.help=Classification"],
)
def test_the_parsers_own_help_on_a_class_is_let_through(words):
    assert checked(Arguments([*DIGITS, *words.split()])).options == words.split()
