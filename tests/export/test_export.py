"""The bundle: every format answers as the trained model does, and says what it takes and gives."""

import ast
import contextlib
import hashlib
import io
import json
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from PIL import Image
from safetensors import safe_open
from safetensors.torch import load_file
from torch import nn
from torch.nn import functional as F

from project import batches, runs
from project.checkpoints import load_task, read_checkpoint
from project.cli import main
from project.data import Digits
from project.errors import UserError
from project.export import FORMATS, REDUCED, bundle, formats, inputs, reduced, replay
from project.export.samples import Samples
from project.export.served import Served, evaluating

pytestmark = pytest.mark.slow  # each needs a bundle, which takes seconds to make

RUNNABLE = [name for name in FORMATS if name != "safetensors"]
TINY = [
    "--config", "configs/digits.yaml",
    "--trainer.max_epochs", "1",
    "--trainer.limit_train_batches", "2",
    "--trainer.limit_val_batches", "2",
    "--model.network.width", "4",
    "--model.network.dropout", "0.5",
    "--data.batch_size", "32",
]  # fmt: skip


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """Where two runs lie; the latest that can be exported is not the latest."""
    root = tmp_path_factory.mktemp("runs")
    assert main(["fit", *TINY, "--run.root", str(root), "--run.name", "trained"]) == 0
    (root / "digits" / "later").mkdir()  # began, and ended before its first checkpoint
    later = json.dumps({"started": "2999-01-01T00:00:00+00:00"})
    (root / "digits" / "later" / "environment.json").write_text(later, encoding="utf-8")
    return root


@pytest.fixture(scope="module")
def run(root):
    return runs.Run(root / "digits" / "trained")


@pytest.fixture(scope="module")
def exported(root, run):
    """The folder and what was printed; no checkpoint, output or format was named."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert main(["export", "--run.root", str(root)]) == 0
    return run.path / "export", printed.getvalue()


@pytest.fixture(scope="module")
def folder(exported):
    return exported[0]


@pytest.fixture(scope="module")
def task(run):
    return load_task(run.checkpoint("best"))


def export(run, output, *options):
    checkpoint = str(run.checkpoint("best"))
    return main(["export", "--ckpt_path", checkpoint, "--output", str(output), *options])


def contract_of(folder):
    return json.loads((folder / "contract.json").read_text(encoding="utf-8"))


def pixels(*shape):
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


def probabilities(task, numbers, image):
    """By hand, from the checkpoint's numbers: nothing of project/export has a part in it."""
    scaled = torch.from_numpy(image).permute(0, 3, 1, 2).float() / 255
    resized = F.interpolate(scaled, numbers["size"], mode="bilinear", antialias=True)
    with torch.no_grad():
        logits = task.network((resized - numbers["mean"][0]) / numbers["std"][0])
    return logits.softmax(1).numpy()


# The formats


def test_every_format_has_a_writer_and_every_input_a_name():
    assert list(formats.WRITERS) == list(FORMATS)
    assert set(inputs.INPUTS) == set(batches.INPUTS)
    assert list(reduced.WRITERS) == list(REDUCED)
    assert {suffix.removeprefix(".") for suffix in replay.RUNNERS} == set(RUNNABLE)


@pytest.mark.parametrize("shape", [(1, 8, 8), (5, 3, 4), (4, 31, 64), (1, 1, 200)], ids=str)
@pytest.mark.parametrize("name", RUNNABLE)
def test_answers_as_the_trained_model_at_any_size(folder, run, task, name, shape):
    image = pixels(*shape, 1)
    numbers = read_checkpoint(run.checkpoint("best"))["Digits"]["description"]["preprocessing"]
    (given,) = replay.RUNNERS[f".{name}"](folder / f"model.{name}")({"image": image})
    assert given.shape == (shape[0], 10)
    np.testing.assert_allclose(given, probabilities(task, numbers, image), atol=1e-5)


def test_weights_are_those_of_the_network(folder, task):
    saved = load_file(folder / "model.safetensors")
    state = task.network.state_dict()
    assert sorted(saved) == sorted(state)
    assert all(torch.equal(saved[name], state[name]) for name in state)


def test_onnx_is_one_file_that_works_alone(folder, tmp_path):
    alone = shutil.copy(folder / "model.onnx", tmp_path)
    session = onnxruntime.InferenceSession(alone)
    (given,), (answer,) = session.get_inputs(), session.get_outputs()
    assert (given.name, given.type) == ("image", "tensor(uint8)")
    assert given.shape == ["batch", "height", "width", 1]
    assert (answer.name, answer.shape) == ("probabilities", ["batch", 10])
    assert session.run(None, {"image": pixels(2, 9, 9, 1)})[0].shape == (2, 10)


def test_onnx_has_the_opset_the_contract_says(folder):
    model = onnx.load(folder / "model.onnx")
    opsets = {entry.domain: entry.version for entry in model.opset_import}
    assert opsets[""] == contract_of(folder)["opset"] == formats.OPSET


def test_every_file_carries_the_contract(folder):
    inside = {entry.key: entry.value for entry in onnx.load(folder / "model.onnx").metadata_props}
    carried = {"onnx": inside[formats.CONTRACT]}
    for name, load in {"pt2": torch.export.load, "ts": torch.jit.load}.items():
        keyword = "extra_files" if name == "pt2" else "_extra_files"
        files = {formats.CONTRACT: ""}
        load(str(folder / f"model.{name}"), **{keyword: files})
        carried[name] = files[formats.CONTRACT]
    with safe_open(folder / "model.safetensors", framework="pt") as file:
        carried["safetensors"] = file.metadata()[formats.CONTRACT]
    assert set(carried) == set(FORMATS)
    for text in carried.values():
        assert json.loads(text)["class_names"] == [str(digit) for digit in range(10)]


# The contract


def test_the_contract_says_what_a_user_can_not_guess(folder, run):
    contract = contract_of(folder)
    assert contract["task"] == "Classification"
    assert contract["class_names"] == [str(digit) for digit in range(10)]
    image = contract["inputs"]["image"]
    assert (image["dtype"], image["shape"]) == ("uint8", ["batch", "height", "width", 1])
    numbers = read_checkpoint(run.checkpoint("best"))["Digits"]["description"]["preprocessing"]
    assert {name: image["preprocessing"][name] for name in numbers} == numbers
    assert contract["outputs"]["probabilities"]["shape"] == ["batch", 10]
    assert contract["outputs"]["probabilities"]["dtype"] == "float32"
    assert contract["metrics"] == run.metrics
    assert "test_accuracy" in contract["metrics"]["test"]
    assert contract["network"]["class_path"] == "project.models.ResNet"
    sha256 = hashlib.sha256(run.checkpoint("best").read_bytes()).hexdigest()
    assert contract["checkpoint"]["sha256"] == sha256
    assert contract["checkpoint"]["run"] == "digits/trained"
    assert contract["versions"]["torch"] == torch.__version__.partition("+")[0]
    assert all(contract["versions"].values())


def test_the_contract_lists_every_format_and_how_it_was_checked(folder):
    contract = contract_of(folder)
    assert contract["tried_on"] == "32 samples of the validation split of Digits"
    assert list(contract["formats"]) == list(FORMATS)
    for name, entry in contract["formats"].items():
        assert (folder / entry["file"]).stat().st_size == entry["bytes"]
        assert entry["verification"]["largest_difference"] <= 1e-4
        if name in RUNNABLE:
            shapes = entry["verification"]["shapes"]
            assert [text.split()[1] for text in shapes] == ["1", "2", "7", "32"]
            assert len(set(shapes)) == len(shapes)
            assert entry["verification"]["rows"] == 42


def test_a_bundle_holds_nothing_else(folder):
    expected = {"contract.json", "example.py", *(f"model.{name}" for name in FORMATS)}
    assert {path.name for path in folder.iterdir()} == expected


def test_the_command_shows_every_format_and_where_the_bundle_is(exported):
    folder, printed = exported
    for name in FORMATS:
        assert re.search(rf"^{name} +\d+\.\d+ MB +\d\.\de", printed, flags=re.MULTILINE)
    assert str(folder) in printed


# Another process, another machine


def test_the_example_names_the_class_of_a_picture(folder, task, tmp_path):
    data = Digits()
    data.setup("validate")
    sample = data.datasets["val"][0]["inputs"]
    batch = {"inputs": sample, "index": torch.zeros(1)}
    (expected,) = task.decode(task(image=sample["image"][None]).detach(), batch)["prediction"]
    raw = data.shown("val", 0)
    Image.fromarray(raw[:, :, 0]).save(tmp_path / "digit.png")
    moved = shutil.copytree(folder, tmp_path / "moved")
    command = [sys.executable, moved / "example.py", tmp_path / "digit.png"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert json.loads(done.stdout.splitlines()[1])["prediction"] == expected


@pytest.mark.parametrize("script", ["replay.py", "example.py"])
def test_scripts_import_nothing_of_this_project(script):
    source = (Path(bundle.__file__).parent / script).read_text(encoding="utf-8")
    imported = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module.partition(".")[0])
    allowed = {"numpy", "torch", "onnxruntime", "PIL"}
    assert imported - set(sys.stdlib_module_names) <= allowed


@pytest.mark.parametrize("name", RUNNABLE)
def test_the_checking_process_loads_neither_project_nor_lightning(folder, tmp_path, name):
    recorded = tmp_path / "recorded.npz"
    answer = np.zeros((1, 10), np.float32)
    np.savez(recorded, **{"0/inputs/image": pixels(1, 8, 8, 1), "0/outputs/probabilities": answer})
    command = [sys.executable, "-P", "-X", "importtime", replay.__file__]
    command += [str(folder / f"model.{name}"), str(recorded)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert 0 < json.loads(done.stdout)[0]["difference"] <= 1
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "numpy" in loaded
    assert not {module.partition(".")[0] for module in loaded} & {"project", "lightning"}


# What goes wrong


def test_a_network_in_training_mode_is_exported_in_evaluation_mode(run, tmp_path):
    path = run.checkpoint("best")
    task = load_task(path)
    task.train()
    task.network.stem.eval()  # frozen: a mode of its own
    before = {name: part.training for name, part in task.named_modules()}
    bundle.write(task, read_checkpoint(path), path, tmp_path / "export", ["ts"])
    assert {name: part.training for name, part in task.named_modules()} == before
    model = torch.jit.load(tmp_path / "export" / "model.ts")
    image = torch.from_numpy(pixels(4, 8, 8, 1))
    first, second = model(image), model(image)
    assert torch.equal(first, second), "dropout is alive"
    task.eval()
    served = Served(task, read_checkpoint(path)["Digits"]["description"])
    torch.testing.assert_close(first, served(image))


def test_modes_come_back_after_an_error():
    module = torch.nn.Sequential(torch.nn.Dropout(), torch.nn.Dropout().eval())
    with contextlib.suppress(ZeroDivisionError), evaluating(module):
        assert not any(part.training for part in module)
        raise ZeroDivisionError
    assert [part.training for part in module] == [True, False]


def test_a_format_that_can_not_be_made_says_why_and_the_others_are_made(
    run, tmp_path, monkeypatch, capsys
):
    def broken(served, example, contract, path):
        path.write_bytes(b"half")
        raise RuntimeError("no operator for it\nand more")

    monkeypatch.setitem(formats.WRITERS, "onnx", broken)
    assert export(run, tmp_path / "out", "--formats", "onnx,safetensors") == 0
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "contract.json", "model.safetensors",
    }  # fmt: skip
    entry = contract_of(tmp_path / "out")["formats"]["onnx"]
    assert entry == {"file": None, "reason": "RuntimeError: no operator for it"}
    assert "not made: RuntimeError: no operator for it" in capsys.readouterr().out


def test_no_format_at_all_is_an_error(run, tmp_path, monkeypatch, capsys):
    def missing(served, example, contract, path):
        raise ModuleNotFoundError("No module named 'onnxscript'", name="onnxscript")

    monkeypatch.setitem(formats.WRITERS, "onnx", missing)
    assert export(run, tmp_path / "out", "--formats", "onnx") == 2
    assert "onnx: the package onnxscript is not installed" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def changed_weights(served, example, contract, path, name="ts"):
    bias = served.network.head[-1].bias
    kept = bias.detach().clone()
    with torch.no_grad():
        bias[0] += 1
        {"ts": formats.torchscript, "onnx": formats.onnx}[name](served, example, contract, path)
        bias.copy_(kept)


def garbage(served, example, contract, path):
    path.write_bytes(b"not a model")


@pytest.mark.parametrize(
    ("name", "writer", "message"),
    [
        (
            "ts",
            changed_weights,
            r"The ts export .* 1 x 8 x 8 x 1 it differs by 0\.\d+, allowed",
        ),
        ("onnx", garbage, r"The onnx export can't be read back: .*model\.onnx failed"),
        (
            "onnx",
            partial(changed_weights, name="onnx"),
            r"The onnx export .* differs by 0\.\d+, .*, first in network\.head\.3 \(Linear\), by 1",
        ),
    ],
)
def test_a_wrong_file_fails_the_command_and_leaves_the_old_bundle(
    run, tmp_path, monkeypatch, capsys, name, writer, message
):
    old = tmp_path / "out"
    assert export(run, old, "--formats", "safetensors") == 0
    before = {path.name: path.read_bytes() for path in old.iterdir()}
    monkeypatch.setitem(formats.WRITERS, name, writer)
    assert export(run, old, "--formats", f"{name},safetensors") == 2
    assert re.search(message, capsys.readouterr().err)
    assert {path.name: path.read_bytes() for path in old.iterdir()} == before
    assert list(tmp_path.iterdir()) == [old]


def test_weights_that_differ_fail_the_command(run, tmp_path, monkeypatch, capsys):
    from safetensors.torch import save_file

    def other(served, example, contract, path):
        save_file({k: v * 0 for k, v in served.network.state_dict().items()}, path)

    monkeypatch.setitem(formats.WRITERS, "safetensors", other)
    assert export(run, tmp_path / "out", "--formats", "safetensors") == 2
    assert "holds another stem.0.weight" in capsys.readouterr().err


def test_a_batch_size_that_was_baked_in_is_found(run, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(formats, "_free", lambda served: None)
    assert export(run, tmp_path / "out", "--formats", "pt2") == 2
    assert "The pt2 export is not the trained model: for image 1 x" in capsys.readouterr().err


def test_preprocessing_that_is_not_the_training_s_fails_the_command(
    run, tmp_path, monkeypatch, capsys
):
    upside_down = lambda self, image: self.preprocessing(image.flip(1).permute(0, 3, 1, 2))  # noqa: E731
    monkeypatch.setattr(inputs.Image, "forward", upside_down)
    assert export(run, tmp_path / "out", "--formats", "ts") == 2
    assert "does not prepare its input as the data module does" in capsys.readouterr().err


def test_without_the_data_it_is_tried_on_noise_and_says_so(run, tmp_path, monkeypatch):
    def gone(self):
        raise FileNotFoundError("data/digits is not on this machine")

    monkeypatch.setattr(Digits, "load", gone)
    assert export(run, tmp_path / "out", "--formats", "safetensors") == 0
    tried_on = contract_of(tmp_path / "out")["tried_on"]
    assert tried_on.startswith("made up")
    assert tried_on.endswith("data/digits is not on this machine")


def test_data_that_changed_since_are_not_tried_on(run, task, monkeypatch):
    checkpoint = read_checkpoint(run.checkpoint("best"))
    description = checkpoint["Digits"]["description"]
    description["preprocessing"]["mean"] = [0.25]
    from project.export.samples import samples

    tried = samples(Served(task, description), checkpoint, description)
    assert isinstance(tried, Samples)
    assert "the data have changed" in tried.source
    assert not tried.prepared


def test_the_reason_for_made_up_samples_is_ours(run, task):
    checkpoint = read_checkpoint(run.checkpoint("best"))
    checkpoint["config"]["data"] = {
        "class_path": "project.data.Images", "init_args": {"root": "/nowhere/at/all"}
    }  # fmt: skip
    from project.export.samples import samples

    description = checkpoint["Digits"]["description"]
    assert "'/nowhere/at/all'" in samples(Served(task, description), checkpoint, description).source


def test_an_older_bundle_is_replaced_with_what_it_held(run, tmp_path):
    for name in ("contract.json", "model.onnx", "example.py"):
        (tmp_path / name).write_text("{}", encoding="utf-8")
    assert export(run, tmp_path, "--formats", "safetensors") == 0
    assert {path.name for path in tmp_path.iterdir()} == {"contract.json", "model.safetensors"}
    assert list(contract_of(tmp_path)["formats"]) == ["safetensors"]


def test_a_folder_with_other_files_is_not_replaced(run, tmp_path, capsys):
    (tmp_path / "thesis.tex").write_text("three years", encoding="utf-8")
    assert export(run, tmp_path, "--formats", "safetensors") == 2
    assert "holds thesis.tex, which no export wrote" in capsys.readouterr().err
    assert (tmp_path / "thesis.tex").read_text(encoding="utf-8") == "three years"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--formats", "onx"], "There is no format 'onx'. Did you mean 'onnx'?"),
        (["--formats", ","], "--formats names none"),
        (["--format", "onnx"], "unrecognized arguments: --format onnx"),
        (["--ckpt_path", "gone.ckpt"], "There is no checkpoint 'gone.ckpt'"),
    ],
)
def test_mistakes_are_named(options, message, capsys):
    assert main(["export", *options]) == 2
    assert message in capsys.readouterr().err


def test_a_checkpoint_without_a_description_is_refused():
    with pytest.raises(UserError, match="no description of its data"):
        bundle.data_description({"state_dict": {}, "config": {}})


def test_an_input_nothing_prepares_is_named(task, monkeypatch):
    monkeypatch.setattr(task.network, "forward", lambda voltage: voltage)
    with pytest.raises(UserError, match="The network takes 'voltage'"):
        Served(task, {})


def test_the_preprocessing_must_be_known(task):
    with pytest.raises(UserError, match="says of its preprocessing None; size, mean and std"):
        Served(task, {"preprocessing": None})


@pytest.mark.parametrize("crop", [None, 0.875])
def test_the_aspect_is_kept_in_every_format_and_in_words(run, tmp_path, crop):
    path = run.checkpoint("best")
    checkpoint = read_checkpoint(path)
    preprocessing = checkpoint["Digits"]["description"]["preprocessing"]
    if crop is not None:
        preprocessing["crop"] = crop
    names = RUNNABLE if crop else ["ts"]
    bundle.write(load_task(path), checkpoint, path, tmp_path / "out", names)  # compares at 4 shapes
    told = contract_of(tmp_path / "out")["inputs"]["image"]["preprocessing"]
    assert told.get("crop") == crop
    if crop is None:
        assert told["steps"][0].endswith("antialiased, the aspect ratio not kept")
    else:
        assert "cut out the centre" in told["steps"][0]
        assert "0.875 of each side" in told["steps"][0]
        assert told["steps"][1].endswith("the aspect ratio kept")
    assert told["steps"][-2:] == [
        "divide by 255", "subtract the mean and divide by the std of each channel",
    ]  # fmt: skip


class Branching(nn.Module):
    """Bright pictures get another answer than dark ones."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(64, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        logits = self.head(image.flatten(1))
        if float(image.sum()) > 0:
            return logits
        return -logits


def test_a_network_with_branches_is_scripted_and_the_choice_is_said(run, tmp_path):
    path = run.checkpoint("best")
    task = load_task(path)
    task.network = Branching()
    made = bundle.write(task, read_checkpoint(path), path, tmp_path / "out", ["ts", "onnx"])
    assert made["formats"]["ts"]["how"].startswith("network scripted")
    assert made["formats"]["onnx"]["file"] is None  # it says why, and TorchScript is still made
    assert isinstance(task.network, Branching)


def test_a_straight_network_is_traced(folder):
    assert contract_of(folder)["formats"]["ts"]["how"] == "traced"
