"""Mistakes in the network: structure, gradients, devices, evaluation."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tests.checks.cases import Columns, Net, Pool, Project, fault, images, numbers, texts


class Hidden(Net):
    """Layers in a plain list."""

    def __init__(self) -> None:
        super().__init__()
        self.more = [nn.Linear(64, 64) for _ in range(2)]

    def forward(self, image: Tensor) -> Tensor:
        features = self.body(image)
        for layer in self.more:
            features = layer(features).relu()
        return self.head(features)


@fault("network", "model.hidden", r"hidden from the network: network.more \(Linear in a list\)")
def a_list_of_layers() -> Project:
    return images(Hidden())


@fault("network", "model.hidden", r"network.scales \(Parameter in a tuple\)")
def parameters_in_a_tuple() -> Project:
    network = Net()
    network.scales = (nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1)))
    return images(network)


@fault("network", "model.hidden", r"network.heads \(Linear in a dict\)")
def modules_in_a_dict() -> Project:
    network = Net()
    network.heads = {"one": nn.Linear(64, 4)}
    return images(network)


@fault("network", "model.hidden", r"tensors that are no buffers: network.mean \(tensor \[1, 8, 8\]")
def a_tensor_that_is_no_buffer() -> Project:
    network = Net()
    network.mean = torch.zeros(1, 8, 8)
    return images(network)


@fault("network", "model.step", "all parameters are frozen")
def everything_is_frozen() -> Project:
    task, data = images()
    task.network.requires_grad_(False)
    return task, data


class Unused(Net):
    """A layer that forward forgets."""

    def __init__(self) -> None:
        super().__init__()
        self.extra = nn.Linear(64, 64)


@fault("network", "model.gradients", r"get no gradient: network.extra.weight")
def a_layer_that_is_not_used() -> Project:
    return images(Unused())


class Cut(Net):
    """The graph ends before the head."""

    def forward(self, image: Tensor) -> Tensor:
        return self.head(self.body(image).detach())


@fault("network", "model.gradients", "cut between network.body.7 and network.head: network.body.0")
def a_detached_body() -> Project:
    return images(Cut())


class NoGradient(nn.Module):
    """A layer under no_grad."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(64, 64)

    def forward(self, features: Tensor) -> Tensor:
        with torch.no_grad():
            return self.layer(features)


@fault("network", "model.gradients", r"cut in network.body.8.layer \(Linear\)")
def a_block_without_gradients() -> Project:
    network = Net()
    network.body.append(NoGradient())
    return images(network)


class Detached(Net):
    """Nothing can be learnt."""

    def forward(self, image: Tensor) -> Tensor:
        return super().forward(image).data


@fault(
    "network", "model.step", r"the loss has no gradient: the graph is cut in network \(Detached\)"
)
def a_detached_output() -> Project:
    return images(Detached())


class InPlace(Net):
    """Changes what the sigmoid's gradient needs."""

    def forward(self, image: Tensor) -> Tensor:
        gate = self.body(image).sigmoid()
        gate *= 2
        return self.head(gate)


@fault(
    "network", "model.step", r"backward pass fails: .*planted_in_networks.py:\d+ \(\w+ on \[2, 64\]"
)
def in_place_damage() -> Project:
    return images(InPlace())


class Leaf(Net):
    """Changes a parameter in forward."""

    def forward(self, image: Tensor) -> Tensor:
        self.head.bias += 1
        return super().forward(image)


@fault("network", "model.step", r"in-place operation .*planted_in_networks.py:\d+, in forward")
def in_place_on_a_leaf() -> Project:
    return images(Leaf())


class Writes(Net):
    """Changes its input."""

    def forward(self, image: Tensor) -> Tensor:
        image -= image.mean()
        return super().forward(image)


@fault("network", "model.step", "forward writes into its input image")
def forward_changes_its_input() -> Project:
    return images(Writes())


@fault(
    "network",
    "model.step",
    r"Shapes don't fit, in network.head \(Linear\(in_features=63.*float32 \[2, 64\]",
)
def a_head_of_another_size() -> Project:
    network = Net()
    network.head = nn.Linear(63, 4)
    return images(network)


@fault(
    "network",
    "model.step",
    r"forward pass fails: .*\(1\).* in body.0 \(Conv2d\(3|expected input.*3 channels",
)
def channels_that_do_not_fit() -> Project:
    network = Net()
    network.body[0] = nn.Conv2d(3, 8, 3, padding=1)
    return images(network)


class OnTheCPU(Net):
    """Makes a tensor on the default device."""

    def forward(self, image: Tensor) -> Tensor:
        return super().forward(image) + torch.zeros(4)


@fault(
    "network",
    "model.devices",
    r"stays on the CPU when the network moves: in add at .*networks.py:\d+",
)
def a_tensor_made_on_the_default_device() -> Project:
    return images(OnTheCPU())


class Constant(Net):
    """Multiplies with a matrix that does not move along."""

    def __init__(self) -> None:
        super().__init__()
        self.mix = [torch.eye(4)]

    def forward(self, image: Tensor) -> Tensor:
        return super().forward(image) @ self.mix[0]


@fault(
    "network", "model.devices", r"stays on the CPU when the network moves: in mm at .*networks.py"
)
def a_matrix_that_does_not_move_along() -> Project:
    return images(Constant())


class Cuda(Net):
    """Names a device."""

    def forward(self, image: Tensor) -> Tensor:
        return super().forward(image) + torch.zeros(4, device="cuda")


@fault("network", "model.step", r"can't use a GPU here .*planted_in_networks.py|different devices")
def a_device_by_name() -> Project:
    return images(Cuda())


class Stuck(Net):
    """Stays in training mode."""

    def train(self, mode: bool = True) -> "Stuck":
        return super().train(True)


@fault(
    "evaluation",
    "model.modes",
    r"stay in training mode after eval\(\): network.body.1 \(BatchNorm2d",
)
def batch_norm_left_in_training_mode() -> Project:
    return images(Stuck())


class AlwaysDropout(Net):
    """Dropout without a look at the mode."""

    def forward(self, image: Tensor) -> Tensor:
        return self.head(F.dropout(self.body(image), 0.5))


@fault(
    "evaluation", "model.modes", r"in evaluation mode network.head \(Linear\) gives another output"
)
def dropout_in_evaluation() -> Project:
    return images(AlwaysDropout())


class Mates(Net):
    """Centres over the batch."""

    def forward(self, image: Tensor) -> Tensor:
        features = self.body(image)
        return self.head(features - features.mean(0))


@fault(
    "evaluation", "model.batch_mates", r"depends on its batch mates, first in network.head \(Linear"
)
def a_mean_over_the_batch() -> Project:
    return images(Mates())


class Reshaped(Columns):
    """Mixes samples up by a view after a transpose."""

    def forward(self, features: Tensor) -> Tensor:
        hidden = self.layers[1](self.layers[0](features))
        return self.layers[2](hidden.T.reshape(hidden.shape))


@fault("evaluation", "model.batch_mates", r"depends on its batch mates, first in network.layers.2")
def a_reshape_over_the_batch() -> Project:
    return numbers(Reshaped())


class Unmasked(Pool):
    """Takes the mean over the padding, too."""

    def forward(self, tokens: Tensor, padding: Tensor) -> Tensor:
        return self.head(self.embedding(tokens).mean(1))


@fault("evaluation", "model.padding", "the output changes by up to .* with more padding")
def padding_in_the_mean() -> Project:
    return texts(Unmasked())


class WrongWay(Pool):
    """Takes the mask for its opposite."""

    def forward(self, tokens: Tensor, padding: Tensor) -> Tensor:
        return super().forward(tokens, ~padding & (padding.sum(1, keepdim=True) > 0))


@fault("evaluation", "model.padding", "padding is True where padded")
def a_network_with_the_wrong_polarity() -> Project:
    return texts(WrongWay())


@fault("network", "model.symmetry", r"network.head \(all 4 units have the same weights\)")
def weights_that_are_all_alike() -> Project:
    network = Net()
    nn.init.constant_(network.head.weight, 0.1)
    return images(network)


class Ignores(nn.Module):
    """Uses one of two inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.columns = Net(), Columns(2, 4)

    def forward(self, image: Tensor, features: Tensor) -> Tensor:
        return self.net(image) + 0 * self.columns(features)


@fault("network", "learning.uses_inputs", "an input that changes nothing: features")
def an_input_that_is_ignored() -> Project:
    task, data = images(Ignores())
    for split in data.splits.values():
        split.inputs["features"] = list(torch.randn(len(split), 2))
    return task, data


class Fixed(Net):
    """Answers without a look."""

    def __init__(self) -> None:
        super().__init__()
        self.answer = nn.Parameter(torch.zeros(4))

    def forward(self, image: Tensor) -> Tensor:
        return super().forward(image) * 0 + self.answer


@fault("network", "learning.uses_inputs", "the output is the same for every sample")
def an_output_that_is_a_parameter() -> Project:
    return images(Fixed())


@fault("network", "layers.dead_units", r"dead ReLUs: 0 for every sample: network.body.4 \(100%")
def dead_relus() -> Project:
    network = Net()
    nn.init.constant_(network.body[3].bias, -100.0)
    return images(network)


class Deep(nn.Module):
    """Many layers with one activation."""

    def __init__(self, activation: nn.Module, gain: float) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            *(nn.Sequential(nn.Linear(64, 64), activation) for _ in range(9))
        )
        self.head = nn.Linear(64, 4)
        for parameter in self.parameters():
            if parameter.ndim == 2:
                nn.init.normal_(parameter, std=gain / 8)

    def forward(self, image: Tensor) -> Tensor:
        return self.head(self.layers(image.flatten(1)))


@fault("network", "layers.gradients", r"vanishing: .*network.layers.0.0")
def vanishing_gradients() -> Project:
    return images(Deep(nn.Sigmoid(), 0.5))


@fault("network", "layers.gradients", r"exploding: ")
def exploding_activations() -> Project:
    return images(Deep(nn.ReLU(), 6.0))
