"""Starting with the weights of another training, and nothing else of it."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from project.checkpoints import load_task, read_checkpoint, start_from
from project.errors import UserError
from project.models import Backbone, ResNet
from project.runs import Run
from project.tasks import Classification

SMALL = ["--config", "configs/digits.yaml", "--model.network.width", "4",
         "--trainer.limit_train_batches", "2", "--trainer.limit_val_batches", "1",
         "--trainer.max_epochs", "1", "--run.test_after_fit", "false"]  # fmt: skip


def task(network: nn.Module | None = None, num_classes: int = 3, seed: int = 0) -> Classification:
    torch.manual_seed(seed)
    network = network or ResNet(1, num_classes, width=4, depths=(1,))
    return Classification(network, [f"class {number}" for number in range(num_classes)])


def same(first: nn.Module, second: nn.Module) -> set[str]:
    others = second.state_dict()
    return {n for n, tensor in first.state_dict().items() if torch.equal(tensor, others[n])}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A state dictionary for three classes, no tensor of which is as initialised."""
    path = tmp_path / "source.pt"
    state = task(seed=1).network.state_dict()
    torch.save(
        {n: t + 1 + torch.rand(t.shape) if t.ndim else t + 7 for n, t in state.items()}, path
    )
    return path


@pytest.mark.parametrize("prefix", ["", "network.", "module.", "model._orig_mod."])
@pytest.mark.parametrize("kind", ["pt", "safetensors", "ckpt"])
def test_every_kind_of_file_and_prefix(source: Path, prefix: str, kind: str) -> None:
    state = torch.load(source)
    renamed = {prefix + name: tensor for name, tensor in state.items()}
    path = source.with_name(f"weights.{kind}")
    if kind == "safetensors":
        save_file(renamed, path)
    else:
        torch.save({"state_dict": renamed} if kind == "ckpt" else renamed, path)
    started = task()
    start_from(started, path, "keep")
    for name, tensor in started.network.state_dict().items():
        assert torch.equal(tensor, state[name]), name
    assert f"matched {len(state)} of {len(state)} tensors (100% of the numbers)" in started.loaded


def test_another_number_of_classes_is_an_error_that_names_the_way_out(source: Path) -> None:
    with pytest.raises(
        UserError, match=r"2 of another shape: head\.3\.weight \[3, 4\] in the"
    ) as e:
        start_from(task(num_classes=5), source, "keep")
    assert "--init_head replace" in str(e.value)


def test_a_head_is_replaced_on_request_even_one_that_fits(source: Path) -> None:
    for num_classes in (3, 5):
        started, fresh = task(num_classes=num_classes), task(num_classes=num_classes)
        start_from(started, source, "replace")
        assert same(started.network, fresh.network) == {"head.3.weight", "head.3.bias"}
        assert f"the head is a new one, of {num_classes} outputs" in started.loaded


def test_another_network_is_an_error_in_both_ways(source: Path) -> None:
    other = task(ResNet(1, 3, width=8, depths=(1,)))
    with pytest.raises(UserError, match=r"of another shape: stem\.0\.weight"):
        start_from(other, source, "keep")
    with pytest.raises(UserError, match=r"has 3 of \d+ tensors .*below 90%.*stem\.0\.weight"):
        start_from(other, source, "replace")
    with pytest.raises(UserError, match=r"Linear has no part `head`"):
        start_from(task(nn.Linear(2, 3)), source, "replace")


def test_the_same_number_of_other_classes_is_an_error(source: Path) -> None:
    path = source.with_name("best.ckpt")
    described = {"description": {"class_names": ["cat", "dog", "cow"], "preprocessing": None}}
    torch.save({"state_dict": torch.load(source), "Images": described}, path)
    with pytest.raises(UserError, match=r"classes \['cat', .*this data has \['class 0', .*replace"):
        start_from(task(), path, "keep")
    start_from(task(), path, "replace")


class TestCommand:
    @pytest.mark.slow
    def test_weights_only_fresh_optimizer(
        self, command: Callable[..., int], latest: Callable[[], Run], capsys: pytest.CaptureFixture
    ) -> None:
        assert command("fit", *SMALL) == 0
        first = latest()
        frozen = ["--freezing.freeze", "[stem, blocks, head]", "--freezing.unfreeze", "{0: [head]}"]
        assert command("fit", *SMALL, *frozen, "--init_from", str(first.path)) == 0
        assert re.search(r"matched (\d+) of \1 tensors", capsys.readouterr().out)
        second = latest()
        assert second.path != first.path
        assert second.config["run"]["init_from"] == str(first.path)
        kept, now = (read_checkpoint(run.checkpoint("best")) for run in (first, second))
        for name, tensor in kept["state_dict"].items():
            if name.startswith(("network.stem", "network.blocks")):
                assert torch.equal(tensor, now["state_dict"][name]), name
        assert now["global_step"] == 2
        state = now["optimizer_states"][0]["state"]
        assert {int(each["step"]) for each in state.values()} == {2}

        # going on takes the run's own weights, whatever has become of the others
        first.checkpoint("best").unlink()
        assert command("fit", "--resume", str(second.path), "--trainer.max_epochs", "2") == 0
        assert Run(second.path).config["run"]["init_from"] == str(first.path)

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["fit", "--resume", "--init_from", "x"], "starts a new training"),
            (["fit", "--ckpt_path", "x", "--init_from=x"], "starts a new training"),
            (["test", "--init_from", "x"], "--init_from goes with fit, not with test"),
            (["fit", *SMALL, "--init_from", "gone.pt"], "There is no weights file"),
            (["fit", *SMALL, "--init_from", "x", "--init_head", "drop"], "init_head"),
        ],
    )
    def test_what_can_not_be_meant(
        self,
        command: Callable[..., int],
        capsys: pytest.CaptureFixture,
        tmp_path: Path,
        words: list[str],
        said: str,
    ) -> None:
        assert command(*words) == 2
        assert said in capsys.readouterr().err
        assert not list((tmp_path / "runs").glob("digits/2*"))  # no trace of a run


class TestPretrainedFile:
    """A network made with `weights` is loaded where that file is not."""

    @pytest.mark.slow
    def test_the_file_is_needed_to_start_and_never_again(
        self, command: Callable[..., int], latest: Callable[[], Run], tmp_path: Path,
        capsys: pytest.CaptureFixture,
    ) -> None:  # fmt: skip
        weights = tmp_path / "weights.safetensors"
        save_file(Backbone(3, 10, name="shufflenet_v2_x0_5").state_dict(), weights)
        config = tmp_path / "colour.yaml"
        config.write_text(CONFIG.format(weights=weights))
        assert command("fit", "--config", str(config)) == 0
        said = capsys.readouterr()
        assert "expect images normalised with mean [0.485" in said.err
        assert f"weights from {weights}: matched" in said.out
        path = latest().checkpoint("best")
        weights.unlink()

        assert load_task(path).network.loaded == ""
        for verb in ("test", "validate", "predict"):
            assert command(verb, "--ckpt_path", str(path)) == 0, capsys.readouterr().err
        assert command("fit", "--resume", str(latest().path), "--trainer.max_epochs", "2") == 0
        assert latest().config["model"]["init_args"]["network"]["init_args"]["weights"] == str(
            weights
        )
        assert "network.init_args.weights" not in capsys.readouterr().err  # nothing has changed
        assert command("fit", "--config", str(config)) == 2
        assert "There is no weights file" in capsys.readouterr().err

    @pytest.mark.slow
    def test_images_as_they_are_expected_are_not_warned_about(
        self, command: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture
    ) -> None:
        weights = tmp_path / "weights.safetensors"
        save_file(Backbone(3, 10, name="shufflenet_v2_x0_5").state_dict(), weights)
        config = tmp_path / "colour.yaml"
        config.write_text(CONFIG.format(weights=weights))
        assert command("fit", "--config", str(config), "--data.normalization", "imagenet") == 0
        assert "normalised with" not in capsys.readouterr().err


CONFIG = """
model:
  class_path: project.tasks.Classification
  init_args:
    network:
      class_path: project.models.Backbone
      init_args: {{name: shufflenet_v2_x0_5, weights: {weights}}}
data:
  class_path: project.data.Images
  init_args: {{size: 32, batch_size: 8}}
trainer: {{max_epochs: 1, limit_train_batches: 2, limit_val_batches: 1, limit_test_batches: 1,
          limit_predict_batches: 1}}
"""
