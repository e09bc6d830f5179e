"""Networks known by name, made to fit; pretrained weights that really arrive."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torchvision import models as torchvision_models

from project.errors import UserError
from project.models import Backbone, ResNet
from project.models import backbone as module

SMALL = "shufflenet_v2_x0_5"
"""Of torchvision's networks the quickest to make."""


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v3_small", "efficientnet_b0", "vit_b_32"])
@pytest.mark.parametrize("in_channels", [1, 3])
def test_first_and_last_layer_fit(name: str, in_channels: int) -> None:
    if name == "vit_b_32" and in_channels == 3:
        pytest.skip("one large transformer is enough")
    network = Backbone(in_channels, 7, name=name).eval()
    with torch.no_grad():
        assert network(torch.zeros(2, in_channels, 224, 224)).shape == (2, 7)
    assert torch.count_nonzero(network.head.bias) == 0
    assert network.loaded == ""
    assert network.expects == {}


def test_unknown_name_suggests_one() -> None:
    with pytest.raises(UserError, match=r"'resnet81'.*Did you mean 'resnet18'"):
        Backbone(3, 2, name="resnet81")


def test_a_network_without_a_linear_end_is_refused() -> None:
    with pytest.raises(UserError, match=r"squeezenet1_0 does not end in a linear layer"):
        Backbone(3, 2, name="squeezenet1_0")
    with pytest.raises(UserError, match=r"There is no torchvision model 'googlenet'"):
        Backbone(3, 2, name="googlenet")


def test_pretrained_weights_want_colour() -> None:
    with pytest.raises(UserError, match="3 channels; these have 1"):
        Backbone(1, 2, name="resnet18", weights="torchvision")


def test_the_word_for_a_download_is_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match=r"weights is 'timm', but resnet18 is of torchvision"):
        Backbone(3, 2, name="resnet18", weights="timm")
    asked: list[str | None] = []
    original = torchvision_models.get_model

    def get_model(name: str, *, weights: str | None) -> nn.Module:
        asked.append(weights)
        return original(name, weights=None)

    monkeypatch.setattr(module.torchvision_models, "get_model", get_model)
    network = Backbone(3, 2, name=SMALL, weights="torchvision")
    assert asked == ["DEFAULT"]
    assert network.loaded == f"weights of torchvision's {SMALL}"


def foreign(num_classes: int = 4) -> dict[str, Tensor]:
    """Weights as torchvision itself would save them, none of which is as it is initialised."""
    torch.manual_seed(1)
    state = torchvision_models.get_model(SMALL, weights=None, num_classes=num_classes).state_dict()
    return {n: t + torch.rand_like(t) if t.is_floating_point() else t + 3 for n, t in state.items()}


def stored(folder: Path, state: dict[str, Tensor], name: str = "weights.pth") -> str:
    path = folder / name
    (save_file if name.endswith("safetensors") else torch.save)(state, path)
    return str(path)


def with_prefix(prefix: str) -> dict[str, Tensor]:
    return {prefix + name: tensor for name, tensor in foreign().items()}


@pytest.mark.parametrize("name", ["weights.pth", "weights.safetensors"])
def test_the_body_is_the_files_and_the_head_is_new(tmp_path: Path, name: str) -> None:
    state = foreign()
    network = Backbone(3, 2, name=SMALL, weights=stored(tmp_path, state, name))
    for key, tensor in network.body.state_dict().items():
        assert torch.equal(tensor, state[key]), key  # no initialisation ran over it
    assert torch.count_nonzero(network.head.bias) == 0
    assert f"matched {len(state) - 2} of {len(state)} tensors" in network.loaded
    assert "left out: fc." in network.loaded
    assert "the head is a new one, of 2 outputs instead of 4" in network.loaded
    assert network.expects == {"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]}


def test_a_head_of_the_same_size_is_taken_too(tmp_path: Path) -> None:
    state = foreign()
    network = Backbone(3, 4, name=SMALL, weights=stored(tmp_path, state))
    assert torch.equal(network.head.weight, state["fc.weight"])
    assert "new" not in network.loaded


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "model.", "network.", "body.",
                                    "model.module._orig_mod.", "network.body."])  # fmt: skip
def test_prefixes_of_what_held_it_are_seen_through(tmp_path: Path, prefix: str) -> None:
    network = Backbone(3, 2, name=SMALL, weights=stored(tmp_path, with_prefix(prefix)))
    assert torch.equal(network.body.get_parameter("conv1.0.weight"), foreign()["conv1.0.weight"])


@pytest.mark.parametrize("key", ["state_dict", "model_state_dict", "model"])
def test_weights_within_a_checkpoint_of_others(tmp_path: Path, key: str) -> None:
    path = tmp_path / "checkpoint.pt"
    torch.save({"epoch": 3, key: foreign()}, path)
    assert "matched" in Backbone(3, 2, name=SMALL, weights=str(path)).loaded


def test_half_precision_becomes_single_and_counters_stay_whole(tmp_path: Path) -> None:
    state = {n: t.half() if t.is_floating_point() else t for n, t in foreign().items()}
    network = Backbone(3, 2, name=SMALL, weights=stored(tmp_path, state, "half.safetensors"))
    for name, tensor in network.body.state_dict().items():
        assert tensor.dtype in (torch.float32, torch.int64)
        assert torch.equal(tensor, state[name].to(tensor.dtype)), name


def test_old_files_lack_the_counters_of_batch_norm(tmp_path: Path) -> None:
    state = {n: t for n, t in foreign().items() if not n.endswith("num_batches_tracked")}
    assert "new: fc" in Backbone(3, 2, name=SMALL, weights=stored(tmp_path, state)).loaded


def test_our_own_weights_go_round(tmp_path: Path) -> None:
    torch.manual_seed(0)
    trained = Backbone(3, 2, name=SMALL)
    again = Backbone(3, 2, name=SMALL, weights=stored(tmp_path, trained.state_dict()))
    for name, tensor in trained.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name]), name


def test_the_statistics_are_those_our_checkpoint_was_trained_with(tmp_path: Path) -> None:
    preprocessing = {"size": [8, 8], "mean": [0.1] * 3, "std": [0.2] * 3}
    checkpoint = {
        "state_dict": {
            f"network.{n}": t for n, t in Backbone(3, 2, name=SMALL).state_dict().items()
        },
        "Images": {"description": {"preprocessing": preprocessing}},
    }
    path = tmp_path / "best.ckpt"
    torch.save(checkpoint, path)
    network = Backbone(3, 2, name=SMALL, weights=str(path))
    assert network.expects == {"mean": [0.1] * 3, "std": [0.2] * 3}


def test_weights_of_another_network_are_an_error_with_both_sides(tmp_path: Path) -> None:
    path = stored(tmp_path, ResNet(3, 4).state_dict())
    with pytest.raises(UserError, match=r"has 0 of \d+ tensors") as error:
        Backbone(3, 2, name=SMALL, weights=path)
    for part in (path, "missing: conv1.0.weight", "unexpected: stem.0.weight", "Likely cause"):
        assert part in str(error.value)


def test_most_of_the_tensors_but_not_of_the_numbers_is_too_little(tmp_path: Path) -> None:
    state = foreign()
    largest = max(state, key=lambda name: state[name].numel())
    state[largest] = torch.zeros(3)
    with pytest.raises(UserError, match=rf"1 of another shape: {largest}"):
        Backbone(3, 2, name=SMALL, weights=stored(tmp_path, state))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"nonsense", r"can't be read as a weights file"),
        (None, r"There is no weights file .*weights\.pth"),
        ({"epoch": 3}, r"holds no weights"),
    ],
)
def test_a_file_that_is_none(tmp_path: Path, content: bytes | dict | None, said: str) -> None:
    path = tmp_path / "weights.pth"
    if isinstance(content, bytes):
        path.write_bytes(content)
    elif content is not None:
        torch.save(content, path)
    with pytest.raises(UserError, match=said):
        Backbone(3, 2, name=SMALL, weights=str(path))


def test_timm_missing_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "timm", None)
    with pytest.raises(UserError, match=r"timm/resnet10t needs .* pip install -e '\.\[timm\]'"):
        Backbone(3, 2, name="timm/resnet10t")


class TestTimm:
    """Against a stand-in where the point is ours; against timm itself where it is installed."""

    def test_a_download_is_asked_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[dict] = []

        def create_model(name: str, **arguments: object) -> nn.Module:
            asked.append({"name": name, **arguments})
            body = nn.Sequential(nn.Flatten(), nn.Linear(12, 5))
            body.pretrained_cfg = {"classifier": "1", "mean": (0.5,) * 3, "std": (0.25,) * 3}
            return body

        fake = SimpleNamespace(is_model=lambda name: True, create_model=create_model)
        monkeypatch.setitem(__import__("sys").modules, "timm", fake)
        network = Backbone(3, 2, name="timm/some", weights="timm")
        assert asked == [{"name": "some", "pretrained": True, "in_chans": 3}]
        assert network.expects == {"mean": [0.5] * 3, "std": [0.25] * 3}
        assert network(torch.zeros(4, 3, 2, 2)).shape == (4, 2)

    @pytest.mark.parametrize(
        "name", ["tf_efficientnet_lite0", "convnext_atto", "vit_tiny_patch16_224"]
    )
    def test_head_and_channels_fit(self, name: str) -> None:
        pytest.importorskip("timm")
        network = Backbone(1, 5, name=f"timm/{name}").eval()
        with torch.no_grad():
            assert network(torch.zeros(2, 1, 224, 224)).shape == (2, 5)

    def test_unknown_name_suggests_one(self) -> None:
        pytest.importorskip("timm")
        with pytest.raises(UserError, match=r"timm model 'resnet81'.*Did you mean 'resnet\d+"):
            Backbone(3, 2, name="timm/resnet81")


@pytest.mark.parametrize(
    "wrong", [{"width": 0}, {"depths": ()}, {"depths": (1, 0)}, {"dropout": 1.0}]
)
def test_resnet_refuses_nonsense(wrong: dict) -> None:
    with pytest.raises(UserError, match=next(iter(wrong))):
        ResNet(1, 2, **wrong)


def test_resnet_shape_arithmetic() -> None:
    network = ResNet(1, 3, width=8, depths=(1, 2, 1))
    assert [block.residual[0].stride[0] for block in network.blocks] == [1, 2, 1, 2]
    assert network.head[-1].in_features == 32
    assert network.eval()(torch.zeros(1, 1, 1, 1)).shape == (1, 3)
