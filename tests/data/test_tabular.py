"""Tables: what a column is taken for, what is learnt from the training rows alone, what is said."""

import csv
from pathlib import Path

import numpy as np
import pytest
import torch

from project.data import Fields, Tabular
from project.errors import UserError
from project.findings import Finding

COLOURS = ("red", "blue", "green")
HEADER = ["id", "size", "colour", "note", "same", "price"]


def rows_of(count: int = 60, seed: int = 0) -> list[list[str]]:
    draw = np.random.default_rng(seed)
    rows = []
    for row in range(count):
        size, colour = draw.normal(100, 20), COLOURS[row % 3]
        price = 200_000 + 1000 * size + 5000 * (colour == "red") + draw.normal(0, 500)
        rows.append([str(row), f"{size:.3f}", colour, f"note {row} {draw.random()}", "x",
                     f"{price:.0f}"])  # fmt: skip
    return rows


def write(path: Path, rows: list[list[str]], header: list[str] = HEADER) -> str:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return str(path)


def tabular(path: Path, rows: list[list[str]], header: list[str] = HEADER, **options) -> Tabular:
    columns = options.pop("columns", Fields(target="price"))
    return Tabular(write(path / "table.csv", rows, header), columns=columns, **options)


def found(module: Tabular) -> dict[str, Finding]:
    return {each.title: each for each in module.audit(seconds=None)}


def test_columns_are_judged_by_their_cells(tmp_path: Path) -> None:
    module = tabular(tmp_path, rows_of())
    assert [field["name"] for field in module.fields] == ["size", "colour"]
    reasons = dict(found(module)["columns that the network is not given"].items)
    assert reasons == {
        "id": "counts the rows", "note": "text that hardly repeats",
        "same": "the same in all training rows",
    }  # fmt: skip
    assert module.sizes == {"num_features": 4, "num_outputs": 1}
    assert module.target_names == ["price"]


def test_what_the_user_says_of_columns_holds(tmp_path: Path) -> None:
    columns = Fields(target="price", categories=("size",), numbers=("id",), ignored=("colour",))
    module = tabular(tmp_path, rows_of(), columns=columns)
    assert [field["name"] for field in module.fields] == ["id", "size"]
    assert "values" in module.fields[1]


def test_statistics_come_from_the_training_split(tmp_path: Path) -> None:
    rows = rows_of()
    module = tabular(tmp_path, rows)
    module.setup("fit")
    train = module.rows.of_split["train"]
    sizes = np.array([float(row[1]) for row in rows])[train]
    prices = np.array([float(row[5]) for row in rows])[train]
    assert module.fields[0]["mean"] == pytest.approx(sizes.mean(), rel=1e-2)
    assert module.fields[0]["std"] == pytest.approx(sizes.std(), rel=5e-2)
    assert module.target_mean == pytest.approx([prices.mean()])
    assert module.target_std == pytest.approx([prices.std()])
    for row in set(range(len(rows))) - set(train.tolist()):  # others change nothing
        rows[row][1], rows[row][2] = "1e6", "violet"
    changed = tabular(tmp_path, rows)
    assert changed.preprocessing.description() == module.preprocessing.description()


def test_a_slip_does_not_stretch_the_scale(tmp_path: Path) -> None:
    rows = rows_of(2000)
    rows[int(tabular(tmp_path, rows).rows.of_split["train"][0])][1] = "1000000000"
    assert tabular(tmp_path, rows).fields[0]["std"] < 25  # it is 20 without


def test_targets_are_in_the_users_units(tmp_path: Path) -> None:
    rows = rows_of()
    module = tabular(tmp_path, rows)
    module.setup("fit")
    target = module.datasets["test"][0]["target"]
    row = int(module.names("test")[0].partition(":")[2]) - 2
    assert target.dtype == torch.float32
    assert target.tolist() == [float(rows[row][5])]


def test_missing_and_unseen_cells(tmp_path: Path) -> None:
    rows = rows_of()
    split = tabular(tmp_path, rows).rows.of_split
    blank, new = split["train"][:3].tolist(), int(split["test"][0])
    for row in blank:
        rows[row][1] = "NA"
        rows[row][2] = ""
    rows[new][2], rows[new][1] = "violet", "twelve"
    module = tabular(tmp_path, rows)
    module.setup("fit")
    assert module.sizes["num_features"] == 6  # a flag for size, a category for no colour
    count = len(split["train"])
    features = torch.stack(
        [module.datasets["train"][n]["inputs"]["features"] for n in range(count)]
    )
    flagged = features[:, 1] == 1
    assert int(flagged.sum()) == 3
    median, mean, std = (module.fields[0][key] for key in ("median", "mean", "std"))
    assert features[flagged][:, 0].tolist() == pytest.approx([(median - mean) / std] * 3, abs=1e-5)
    position = module.names("test").index(f"table.csv:{new + 2}")
    unknown = module.datasets["test"][position]["inputs"]["features"]
    assert unknown[1:].tolist() == [1, 0, 0, 0, 0]  # size is missing, no colour is known
    told = found(module)
    shares = dict(told["columns with missing cells in training"].items)
    assert shares == {"size": f"{3 / count:.1%}", "colour": f"{3 / count:.1%}"}
    unseen = dict(told["columns with cells in test that no training row has"].items)
    assert unseen == {"size": "1 cells, such as 'twelve'", "colour": "1 cells, such as 'violet'"}


def test_a_column_written_in_another_way_is_warned_of(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    others = [[row[0], row[1] + " kg", *row[2:]] for row in rows_of()]
    others[0][2] = "violet"
    new = write(tmp_path / "new.csv", others)
    tabular(tmp_path, rows_of(), predict_table=new).setup("predict")
    said = capsys.readouterr().err
    assert (
        "warning: columns of which most cells in new.csv say what no training row says: size"
        in said
    )
    assert "note: columns with cells in new.csv that no training row has: colour" in said


def test_rare_values_teach_what_an_unknown_one_is(tmp_path: Path) -> None:
    rows = rows_of()
    train = tabular(tmp_path, rows).rows.of_split["train"].tolist()
    rows[train[0]][2] = rows[train[1]][2] = "violet"
    module = tabular(tmp_path, rows)
    assert sorted(module.fields[1]["values"]) == sorted(COLOURS)


def test_rows_without_a_target_are_refused_or_left_out(tmp_path: Path) -> None:
    rows = rows_of()
    rows[3][5], rows[7][5] = "", "many"
    with pytest.raises(UserError, match=r"rows without a target \(2\): table.csv:5, table.csv:9"):
        tabular(tmp_path, rows).setup("fit")
    module = tabular(tmp_path, rows, on_bad="skip")
    module.setup("fit")
    assert sum(map(len, module.datasets.values())) == 58
    assert dict(found(module)["targets in 'price' that are no number"].items) == {
        "table.csv:9": "'many'"
    }


def test_classes_and_several_targets(tmp_path: Path) -> None:
    module = tabular(tmp_path, rows_of(), columns=Fields(target="colour"))
    assert module.class_names == ["blue", "green", "red"]
    assert sum(module.class_counts) == len(module.rows.of_split["train"])
    assert not hasattr(module, "target_names")
    module = tabular(tmp_path, rows_of(), columns=Fields(target=["price", "size"]))
    module.setup("fit")
    assert module.target_names == ["price", "size"]
    assert module.datasets["val"][0]["target"].shape == (2,)
    with pytest.raises(UserError, match=r"\['price', 'colour'\] are not all numbers"):
        tabular(tmp_path, rows_of(), columns=Fields(target=["price", "colour"]))


def test_numbers_may_be_classes(tmp_path: Path) -> None:
    rows = [[*row, str(n % 3)] for n, row in enumerate(rows_of())]
    columns = Fields(target="grade")
    module = tabular(tmp_path, rows, [*HEADER, "grade"], columns=columns)
    assert "'grade' has 3 different values, taken for amounts" in found(module)
    module = tabular(tmp_path, rows, [*HEADER, "grade"], columns=columns, target_kind="classes")
    assert module.class_names == ["0", "1", "2"]


def test_a_column_that_gives_the_target_away_is_said(tmp_path: Path) -> None:
    rows = [[*row, f"{float(row[5]) * 0.9:.0f}"] for row in rows_of()]
    module = tabular(tmp_path, rows, [*HEADER, "before tax"])
    told = found(module)["columns that give the target away"]
    assert told.items == [("before tax", "tells price")]
    assert told.severity == "warning"


def test_equal_rows_in_several_splits_are_said(tmp_path: Path) -> None:
    rows = [[*row, ("train", "val", "test")[n % 3]] for n, row in enumerate(rows_of())]
    rows[5][1:6] = rows[0][1:6]  # of test and of train
    rows[3][1:6] = rows[6][1:6]  # both of train
    told = found(tabular(tmp_path, rows, [*HEADER, "split"]))["equal rows in several splits"]
    assert told.items == [("table.csv:7", "test, as table.csv:2, train")]


def test_wild_targets_are_said(tmp_path: Path) -> None:
    rows = rows_of()
    row = int(tabular(tmp_path, rows).rows.of_split["train"][5])
    rows[row][5] = "90000000"
    told = found(tabular(tmp_path, rows))
    assert told["targets far from all others"].items[0][0] == f"table.csv:{row + 2}"


def test_a_split_column_and_another_table_are_followed(tmp_path: Path) -> None:
    rows = [[*row, ("train", "dev", "test")[n % 3]] for n, row in enumerate(rows_of())]
    module = tabular(tmp_path, rows, [*HEADER, "split"])
    assert module.rows.of_split["val"].tolist() == list(range(1, 60, 3))
    assert "split" not in [field["name"] for field in module.fields]
    other = write(tmp_path / "other.csv", rows_of(9, seed=1))
    module = tabular(tmp_path, rows_of(), test_table=other)
    assert module.names("test")[0] == "other.csv:2"
    assert len(module.names("test")) == 9


def test_groups_are_not_divided(tmp_path: Path) -> None:
    rows = [[*row, f"street {n // 6}"] for n, row in enumerate(rows_of())]
    columns = Fields(target="price", group="street")
    module = tabular(tmp_path, rows, [*HEADER, "street"], columns=columns)
    streets = [
        {module.rows.rows.cells["street"][row] for row in rows.tolist()}
        for rows in module.rows.of_split.values()
    ]
    assert sum(map(len, streets)) == 10


def test_prediction_needs_no_target(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [["twelve", "violet"], ["100", "red"]]
    new = write(tmp_path / "new.csv", rows, ["size", "colour"])
    module = tabular(tmp_path, rows_of(), predict_table=new)
    module.setup("predict")
    batch = next(iter(module.predict_dataloader()))
    assert "target" not in batch
    assert module.names("predict") == ["new.csv:2", "new.csv:3"]
    said = capsys.readouterr().err
    assert "colour (1 cells, such as 'violet')" in said
    without = write(tmp_path / "less.csv", [["100"]], ["size"])
    with pytest.raises(UserError, match=r"less.csv lacks the columns \['colour'\]"):
        tabular(tmp_path, rows_of(), predict_table=without).setup("predict")


def test_what_training_began_with_holds_on_resume(tmp_path: Path) -> None:
    module = tabular(tmp_path, rows_of())
    module.setup("fit")
    state = module.state_dict()
    rows = rows_of()
    rows[0][1] = "1000000"
    later = tabular(tmp_path, rows)
    later.setup("fit")
    with pytest.warns(UserWarning, match="data have changed"):
        later.load_state_dict(state)
    assert later.preprocessing.description() == module.preprocessing.description()
    expected = module.preprocessing(later.datasets["train"].raw)
    actual = torch.stack([s["inputs"]["features"] for s in later.datasets["train"]])
    torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize(
    ("columns", "options", "said"),
    [
        (Fields(target="prize"), {}, r"columns\.target names 'prize'.*Did you mean 'price'"),
        (Fields(), {}, r"which column is to be predicted\? Found id, size"),
        (Fields(target="same"), {}, "one class, 'x'"),
        (Fields(target="price", numbers=("weight",)), {}, r"columns\.numbers names 'weight'"),
        (Fields(target="price"), {"bins": -1}, r"data\.bins is -1"),
        (Fields(target="price", ignored=("size", "colour")), {}, "No column is left"),
        (Fields(target="price"), {"rows": 2}, "of 2 rows with a target none is left for"),
    ],
)
def test_what_is_refused(tmp_path: Path, columns: Fields, options: dict, said: str) -> None:
    rows = rows_of(options.pop("rows", 60))
    with pytest.raises(UserError, match=said):
        tabular(tmp_path, rows, columns=columns, **options)
