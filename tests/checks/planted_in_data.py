"""Mistakes in the data: values, labels, splits, loading."""

import random

import torch
from torch import Tensor, nn

from project.data.loader import Loader
from tests.checks.cases import Columns, Project, drawn, fault, images, masks, numbers, texts


@fault("data", "data.finite", r"1 samples are not finite: val\[5\] \(inputs.image: 1 NaN of 64")
def nan_in_one_sample() -> Project:
    task, data = images()
    data.splits["val"].inputs["image"][5][0, 3, 3] = torch.nan
    return task, data


@fault("data", "data.finite", r"train\[7\] \(inputs.features: 1 infinite of 5")
def infinity_in_one_row() -> Project:
    task, data = numbers()
    data.splits["train"].inputs["features"][7][2] = torch.inf
    return task, data


@fault("data", "data.finite", r"train\[9\] \(target: 1 NaN")
def nan_in_a_target() -> Project:
    task, data = numbers()
    data.splits["train"].target[9] = torch.tensor([torch.nan])
    return task, data


@fault("data", "data.ranges", "un-normalised, 0 to 255")
def pixels_from_0_to_255() -> Project:
    task, data = images()
    for split in data.splits.values():
        split.inputs["image"] = [(x + 2).clamp(0, 4) * 63 for x in split.inputs["image"]]
    return task, data


@fault("data", "data.ranges", r"columns of features that are not scaled: column 3")
def one_column_not_scaled() -> Project:
    task, data = numbers()
    for row in data.splits["train"].inputs["features"]:
        row[3] *= 1e4
    return task, data


@fault("data", "data.types", r"image is float64 .*should be float")
def images_in_double() -> Project:
    task, data = images()
    for split in data.splits.values():
        split.inputs["image"] = [x.double() for x in split.inputs["image"]]
    return task, data


@fault("data", "data.types", r"image is uint8")
def images_in_bytes() -> Project:
    task, data = images()
    for split in data.splits.values():
        split.inputs["image"] = [(x * 50 + 100).byte() for x in split.inputs["image"]]
    return task, data


@fault("data", "data.constant", "most samples are constant")
def black_images() -> Project:
    task, data = images()
    for split in data.splits.values():
        split.inputs["image"] = [
            torch.zeros_like(x) - n for n, x in enumerate(split.inputs["image"])
        ]
    return task, data


@fault("data", "data.constant", "every sample has the same inputs")
def the_same_image_always() -> Project:
    task, data = images()
    for split in data.splits.values():
        split.inputs["image"] = [data.splits["train"].inputs["image"][0]] * len(split)
    return task, data


@fault("data", "data.constant", r"1 samples are constant: train\[3\]")
def one_blank_image() -> Project:
    task, data = images()
    data.splits["train"].inputs["image"][3].fill_(-0.5)
    return task, data


@fault("data", "data.tokens", r"outside of 0 to 11 \(num_tokens\): train\[4\]")
def a_token_beyond_the_vocabulary() -> Project:
    task, data = texts()
    data.splits["train"].inputs["tokens"][4][0] = 12
    return task, data


@fault("data", "data.padding", "wrong polarity")
def mask_polarity() -> Project:
    task, data = texts()
    collate = data.collate

    def inverted(samples: list) -> dict:
        batch = collate(samples)
        batch["inputs"]["padding"] = ~batch["inputs"]["padding"]
        return batch

    data.collate = inverted
    return task, data


@fault("labels", "data.labels", "from 1 to 4, expected is 0 to 3: they look as if counted from 1")
def labels_from_one() -> Project:
    task, data = images()
    for split in data.splits.values():
        split.target = [y + 1 for y in split.target]
    return task, data


@fault("labels", "data.labels", r"negative labels, .*: train\[11\] \(class -1\)")
def a_negative_label() -> Project:
    task, data = images()
    data.splits["train"].target[11] = torch.tensor(-1)
    return task, data


@fault("labels", "data.labels", r"labels beyond the 4 classes: test\[20\] \(class 9\)")
def a_rare_label_beyond_the_classes() -> Project:
    task, data = images()
    data.splits["test"].target[20] = torch.tensor(9)
    return task, data


@fault("labels", "data.labels", "class numbers are floats")
def float_labels() -> Project:
    task, data = images()
    for split in data.splits.values():
        split.target = [y.float() for y in split.target]
    return task, data


@fault("labels", "data.labels", r"labels beyond the 2 classes: train\[6\] \(class 7\)")
def a_value_in_a_mask_that_is_no_class() -> Project:
    task, data = masks()
    data.splits["train"].target[6][0, 0] = 7
    return task, data


@fault("labels", "data.labels", "a target is the same for every sample: target 0 .300")
def a_constant_target() -> Project:
    task, data = numbers()
    data.splits["train"].target = [torch.tensor([300.0])] * 120
    return task, data


@fault("labels", "data.balance", "classes without a training sample: d")
def a_class_that_training_lacks() -> Project:
    task, data = images()
    data.splits["train"].target = [y.clamp(max=2) for y in data.splits["train"].target]
    return task, data


@fault("labels", "data.balance", "very uneven: .*117 samples of the largest class, 1 of")
def very_uneven_classes() -> Project:
    task, data = images()
    data.splits["train"].target = [torch.tensor(max(0, n - 116)) for n in range(120)]
    return task, data


@fault("labels", "data.balance", "all samples looked at are of one class")
def one_class_only() -> Project:
    task, data = images()
    data.splits["train"].target = [torch.tensor(2)] * 120
    task.class_names = ["a", "b", "c"]
    return task, data


@fault("labels", "data.meaning", "training labels do not belong to their inputs")
def shuffled_labels() -> Project:
    task, data = images()
    order = torch.randperm(120, generator=drawn(0)).tolist()
    data.splits["train"].target = [data.splits["train"].target[n] for n in order]
    return task, data


@fault("labels", "data.meaning", "labels of val do not mean what those of train mean")
def class_numbers_differ_between_splits() -> Project:
    task, data = images()
    data.splits["val"].target = [(y + 1) % 4 for y in data.splits["val"].target]
    return task, data


@fault("labels", "data.meaning", "training labels do not belong to their inputs")
def shuffled_numbers() -> Project:
    task, data = numbers()
    data.splits["train"].target.reverse()
    return task, data


@fault("labels", "data.meaning", "training labels do not belong to their inputs")
def images_and_masks_paired_by_position() -> Project:
    task, data = masks()
    target = data.splits["train"].target
    data.splits["train"].target = [*target[1:], target[0]]
    return task, data


@fault("labels", "data.contradictions", "equal inputs with different targets")
def equal_inputs_with_different_labels() -> Project:
    task, data = images()
    train = data.splits["train"]
    train.inputs["image"][:40] = [train.inputs["image"][0]] * 40
    return task, data


@fault(
    "splits",
    "data.leakage",
    r"10 samples are in the training split as well.*val\[(\d)\] \(is train\[\1\]\)",
)
def a_leaking_split() -> Project:
    task, data = images()
    data.splits["val"].inputs["image"][:10] = data.splits["train"].inputs["image"][:10]
    return task, data


@fault(
    "splits",
    "data.leakage",
    r"1 samples are in the training split as well.*: test\[3\] \(is train\[0\]\)",
)
def one_duplicate_in_the_test_split() -> Project:
    task, data = texts()
    data.splits["train"].inputs["tokens"][0] = data.splits["test"].inputs["tokens"][3]
    return task, data


@fault(
    "splits", "data.evaluation", r"image of val\[\d+\] is another one each time: a random transf"
)
def a_random_transform_in_validation() -> Project:
    task, data = images()
    data.splits["val"].transform = lambda image: image + 0.1 * torch.randn(1, 8, 8)
    return task, data


@fault("splits", "data.evaluation", r"image of test\[\d+\] is another one each time")
def pythons_randomness_in_the_test_split() -> Project:
    task, data = images()
    data.splits["test"].transform = lambda image: image * random.random()
    return task, data


@fault("loading", "data.batches", "fewer than one batch of data.batch_size=256")
def drop_last_drops_everything() -> Project:
    task, data = images()
    data.batch_size, data.loader = 256, Loader(num_workers=0, drop_last=True)
    return task, data


@fault("loading", "data.batches", "only 64 of 120 samples are used")
def drop_last_drops_half() -> Project:
    task, data = images()
    data.batch_size, data.loader = 64, Loader(num_workers=0, drop_last=True)
    return task, data


@fault("loading", "data.batches", r"takes the inputs \['tokens', 'padding'\].* gives \['image'\]")
def a_network_for_other_data() -> Project:
    from tests.checks.cases import Pool

    return images(Pool())


class Normalised(Columns):
    """Batch normalisation of single numbers."""

    def forward(self, features: Tensor) -> Tensor:
        return self.layers[2](self.norm(self.layers[1](self.layers[0](features))))

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(32)


@fault("loading", "data.batch_of_one", r"batch of 1 sample, of which network.norm .*one value")
def batches_of_one() -> Project:
    task, data = numbers(Normalised())
    data.batch_size = 1
    return task, data


@fault("loading", "data.batch_of_one", r"network.norm .* sees 3 values of a channel in a")
def tiny_batches_with_batch_norm() -> Project:
    task, data = numbers(Normalised())
    data.batch_size = 3
    return task, data


@fault("loading", "data.pickling", r"train\.transform \(Can't pickle|train\.transform")
def a_lambda_in_the_data_set() -> Project:
    task, data = images()
    data.splits["train"].transform = lambda image: image
    return task, data


@fault("loading", "data.pickling", r"collate")
def a_local_collate_function() -> Project:
    task, data = images()
    collate = data.collate
    data.collate = lambda samples: collate(samples)
    return task, data


class Jitter:
    """Draws from a generator of its own."""

    def __init__(self) -> None:
        self.random = random.Random(0)

    def __call__(self, image: Tensor) -> Tensor:
        return image + self.random.random()


@fault("loading", "data.randomness", "every worker has the same copy")
def workers_draw_the_same() -> Project:
    task, data = images()
    data.splits["train"].augmentation = Jitter()
    return task, data


class Unseeded:
    """Draws from the system."""

    def __call__(self, image: Tensor) -> Tensor:
        return image + random.SystemRandom().random()


@fault("loading", "data.randomness", "another one with the same seed")
def augmentation_without_a_seed() -> Project:
    task, data = images()
    data.splits["train"].augmentation = Unseeded()
    return task, data


@fault("loading", "data.order", "sorted by their label")
def not_shuffled() -> Project:
    task, data = images()
    train = data.splits["train"]
    order = sorted(range(120), key=lambda n: int(train.target[n]))
    train.inputs["image"] = [train.inputs["image"][n] for n in order]
    train.target = [train.target[n] for n in order]
    data.loader = Loader(num_workers=0, shuffle=False)
    return task, data
