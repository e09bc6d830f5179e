"""What happened, in a sentence, from where it happened."""

from collections.abc import Callable

from torch import Tensor, nn

from project.doctor.scene import Scene, described


def given(scene: Scene) -> str:
    """What the module was given, for the end of a sentence; empty if unknown."""
    args = scene.local("args") if scene.module is not None else None
    given = [v for v in args or () if isinstance(v, Tensor)]
    local = scene.local("input")
    given = given or ([local] if isinstance(local, Tensor) else [])
    return f"; it was given {', '.join(map(described, given))}" if given else ""


def elsewhere(scene: Scene) -> str:
    """Which tensors are on which device."""
    tensors = scene.tensors()
    devices: dict[str, list[str]] = {}
    for name, tensor in tensors.items():
        devices.setdefault(str(tensor.device), []).append(name)
    told = "; ".join(f"on {device}: {', '.join(names)}" for device, names in devices.items())
    return (
        f"Two tensors of one operation are on different devices, {scene.where}"
        f"{f' ({told})' if told else ''}."
    )


def misfit(scene: Scene) -> str:
    """Which module was given which shape."""
    return f"Shapes don't fit, {scene.where}{given(scene)}: {first_line(scene)}."


def types(scene: Scene) -> str:
    """Which tensors are of which number type."""
    kinds = {name: str(t.dtype).removeprefix("torch.") for name, t in scene.tensors().items()}
    told = ", ".join(f"{name} is {kind}" for name, kind in kinds.items())
    return f"Two number types meet, {scene.where}: {told or first_line(scene)}."


def first_line(scene: Scene) -> str:
    """The message's first line."""
    lines = str(scene.error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(scene.error).__name__


def target_range(scene: Scene) -> str:
    """From where to where the class numbers go, and what is allowed."""
    target, inputs = scene.local("target"), scene.local("input")
    batch = scene.local("batch")
    if not isinstance(target, Tensor) and isinstance(batch, dict):
        target = batch.get("target")
    if not isinstance(target, Tensor):
        return f"A class number in the target has no output of the network: {first_line(scene)}."
    try:
        low, high = int(target.min()), int(target.max())
    except RuntimeError:  # after a device-side assert nothing can be read from the device
        return "A class number in the target has no output of the network."
    classes = inputs.shape[1] if isinstance(inputs, Tensor) and inputs.ndim > 1 else None
    allowed = f"; the network's output has {classes} classes, 0 to {classes - 1}" if classes else ""
    from_one = " They look as if counted from 1." if low == 1 and high == classes else ""
    return f"Class numbers of this batch go from {low} to {high}{allowed}.{from_one}"


def token_range(scene: Scene) -> str:
    """How large the table is, and what it was asked for."""
    module, tokens = scene.module, scene.local("input")
    if isinstance(module, nn.Embedding) and isinstance(tokens, Tensor):
        return (
            f"{scene.module_name} has {module.num_embeddings} rows, and was asked for numbers from "
            f"{int(tokens.min())} to {int(tokens.max())}."
        )
    return f"An index is outside of its table, {scene.where}."


def unpicklable(scene: Scene) -> str:
    """What could not be pickled, and why that matters."""
    return (
        f"A worker can't be given the data set: {first_line(scene)}. Workers that are started by "
        "spawn or forkserver get a pickled copy, and a lambda, a local function or an open file "
        "can't be pickled."
    )


def memory(scene: Scene) -> str:
    """With which batch memory ran out."""
    batch = scene.local("batch")
    size = len(batch["index"]) if isinstance(batch, dict) and "index" in batch else None
    told = f" with a batch of {size} samples" if size else ""
    return f"Memory ran out{told}, {scene.where}."


def said(sentence: str) -> Callable[[Scene], str]:
    """A fixed sentence, with the place."""
    return lambda scene: f"{sentence}{f' ({scene.where})' if scene.where else ''}."
