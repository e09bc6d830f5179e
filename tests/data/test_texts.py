"""Tables of texts: what is read, divided, refused and told."""

from pathlib import Path

import pytest
import torch

from project.data import Columns, Splits, Texts, Vocabulary
from project.data.example_names import LANGUAGES, names_by_language
from project.data.labels import classes
from project.data.splits import joined
from project.errors import UserError

COLOURS = {"red": "warm", "orange": "warm", "blue": "cold", "green": "cold"}


def table(
    folder: Path, rows: list[str], name: str = "texts.csv", header: str = "text,label"
) -> str:
    path = folder / name
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return str(path)


def rows(count: int = 40, start: int = 0) -> list[str]:
    words = list(COLOURS)
    return [
        f"{words[n % 4]} thing number {n},{COLOURS[words[n % 4]]}"
        for n in range(start, start + count)
    ]


def make(path: str, **options: object) -> Texts:
    return Texts(path, **{"batch_size": 8, "vocabulary": Vocabulary(min_count=1), **options})


def titles(module: Texts, severity: str) -> dict[str, int]:
    found = module.audit(seconds=None)
    return {f.title: len(f.items) for f in found if f.severity == severity}


def test_tokens_and_targets_are_those_of_the_row(tmp_path: Path) -> None:
    module = make(table(tmp_path, rows()))
    module.setup("fit")
    assert module.class_names == ["cold", "warm"]
    for split in ("train", "val", "test"):
        for number, sample in enumerate(module.datasets[split]):
            text = module.shown(split, number)
            assert sample["inputs"]["tokens"].tolist() == module.tokenizer.encode(text)
            assert COLOURS[text.split()[0]] == module.class_names[sample["target"]]


def test_a_batch_is_padded(tmp_path: Path) -> None:
    module = make(table(tmp_path, [*rows(), "red,warm"]))
    module.setup("fit")
    batch = next(iter(module.val_dataloader()))
    assert batch["inputs"]["padding"].shape == batch["inputs"]["tokens"].shape
    assert batch["inputs"]["tokens"][batch["inputs"]["padding"]].eq(0).all()


def test_only_words_of_the_training_split_are_known(tmp_path: Path) -> None:
    first, second = table(tmp_path, rows()), table(tmp_path, ["purple red,warm"], "test.csv")
    module = make(first, test_table=second)
    assert "purple" not in module.tokenizer.vocabulary
    known = {word for text in module.rows.of("train") for word in text.split()}
    assert set(module.tokenizer.vocabulary) == known
    assert module.tokenizer.encode("purple") == [1]


def test_tables_of_their_own_are_the_splits(tmp_path: Path) -> None:
    module = make(
        table(tmp_path, rows(20)),
        val_table=table(tmp_path, rows(8, 20), "val.csv"),
        test_table=table(tmp_path, rows(4, 28), "test.csv"),
    )
    assert [len(module.rows.of(split)) for split in ("train", "val", "test")] == [20, 8, 4]
    module.setup("fit")
    assert module.names("test") == [f"test.csv:{line}" for line in (2, 3, 4, 5)]


def test_a_column_says_the_splits(tmp_path: Path) -> None:
    said = [f"{row},{'test' if n % 5 == 0 else 'train'}" for n, row in enumerate(rows())]
    module = make(table(tmp_path, said, header="text,label,split"))
    assert len(module.rows.of("test")) == 8
    assert all(int(text.split()[-1]) % 5 == 0 for text in module.rows.of("test"))


def test_equal_texts_never_come_into_two_splits(tmp_path: Path) -> None:
    doubled = [row for row in rows(60) for row in (row, row.replace("thing", " THING "))]
    module = make(table(tmp_path, doubled))
    found = [{" ".join(t.lower().split()) for t in module.rows.of(s)} for s in ("train", "val")]
    assert len(module.rows.of("train")) == 2 * len(found[0])
    assert found[0].isdisjoint(found[1])


def test_the_order_of_the_rows_does_not_matter(tmp_path: Path) -> None:
    module, turned = make(table(tmp_path, rows())), make(table(tmp_path, rows()[::-1], "b.csv"))
    assert sorted(module.rows.of("test")) == sorted(turned.rows.of("test"))
    assert module.tokenizer == turned.tokenizer


def test_groups_are_not_divided_whether_stated_or_by_equal_texts() -> None:
    # a and b share a text, b and c a group
    assert len(set(joined(["1", "2", "2", ""], ["x", "x", "y", "z"]))) == 2
    assert len(set(joined(["", ""], ["x", "y"]))) == 2
    assert joined(["2", "1"], ["x", "x"]) == joined(["1", "2"], ["x", "x"])


def test_rows_that_cannot_be_used_stop_or_are_left_out(tmp_path: Path) -> None:
    path = table(tmp_path, [*rows(), " ,warm", "red book,"])
    test = table(tmp_path, [*rows(4, 40), rows(1)[0].upper().replace("WARM", "warm")], "test.csv")
    module = make(path, test_table=test)
    expected = {
        "rows without a text": 1,
        "rows without a label": 1,
        "equal texts in several splits": 1,
    }
    assert titles(module, "error") == expected
    with pytest.raises(UserError, match=r"texts.csv:42\).*\n.*texts.csv:43|without a text"):
        module.setup("fit")
    skipping = make(path, test_table=test, on_bad="skip")
    skipping.setup("fit")
    assert len(skipping.rows.texts) == 44
    assert len(skipping.rows.of("test")) == 5  # of equal ones, that of test is kept


def test_equal_texts_of_several_labels_are_told(tmp_path: Path) -> None:
    module = make(table(tmp_path, [*rows(), "lime,warm", "Lime,cold", "teal,cold", "teal,cold"]))
    assert titles(module, "warning")["equal texts with different labels"] == 1
    assert titles(module, "note")["equal texts in several rows"] == 1


def test_unknown_words_and_cut_texts_are_told(tmp_path: Path) -> None:
    val = table(tmp_path, ["violet lilac mauve,warm", "blue thing,cold"], "val.csv")
    vocabulary = Vocabulary(min_count=1, max_length=3)
    module = make(table(tmp_path, rows()), val_table=val, vocabulary=vocabulary)
    (told,) = [title for title in titles(module, "warning") if "known" in title]
    assert told.endswith("of those in the validation texts 60.0% are not")
    assert titles(module, "note")["texts cut to 3"] == 40


def test_texts_to_predict_on_need_no_labels(tmp_path: Path) -> None:
    path = table(tmp_path, ["a blue sky", "", "red"], "new.csv", "text")
    module = make(table(tmp_path, rows()), predict_table=path, on_bad="skip")
    module.setup("predict")
    assert module.names("predict") == ["new.csv:2", "new.csv:4"]  # blank lines are no rows
    assert module.shown("predict", 1) == "red"
    batch = next(iter(module.predict_dataloader()))
    assert "target" not in batch
    assert batch["inputs"]["tokens"].shape == (2, 3)
    state = module.state_dict()
    known = state["description"]["tokenizer"]
    known = {**known, "vocabulary": list(reversed(known["vocabulary"]))}
    state["description"] = {**state["description"], "tokenizer": known}
    module.load_state_dict(state)  # as happens after setup, with what the network was trained on
    numbers = module.datasets["predict"][0]["inputs"]["tokens"].tolist()
    assert numbers == module.tokenizer.encode("a blue sky") != batch["inputs"]["tokens"][0].tolist()


def test_columns_that_are_not_found_are_named(tmp_path: Path) -> None:
    path = table(tmp_path, rows(), header="words,mood")
    with pytest.raises(UserError, match=r"hold the text; found words, mood.*columns.text 'words'"):
        make(path)
    assert make(path, columns=Columns(text="words", label="mood")).class_names == ["cold", "warm"]


def test_tables_without_the_one_that_is_trained_on(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"--data.test_table need --data.table"):
        Texts(test_table=table(tmp_path, rows()))


def test_the_vocabulary_of_the_checkpoint_holds(tmp_path: Path) -> None:
    module = make(table(tmp_path, rows()))
    state = module.state_dict()
    other = table(tmp_path, [row.replace("thing", "matter") for row in rows()], "other.csv")
    changed = make(other)
    changed.setup("fit")
    with pytest.warns(UserWarning, match="data have changed"):
        changed.load_state_dict(state)
    assert changed.tokenizer == module.tokenizer
    tokens = changed.datasets["train"][0]["inputs"]["tokens"].tolist()
    assert tokens == module.tokenizer.encode(changed.shown("train", 0))
    assert 1 in tokens  # "matter", which the checkpoint does not know
    larger = make(table(tmp_path, rows(60), "larger.csv"))
    said = pytest.raises(UserError, match=r"num_tokens 36 .*, this data has 52")
    with said:
        larger.load_state_dict(state)


def test_several_labels(tmp_path: Path) -> None:
    labels = ["warm|red", "cold", "|", "red"]
    path = table(tmp_path, [f"text {n},{labels[n % 4]}" for n in range(40)])
    module = make(path, columns=Columns(separator="|"), splits=Splits(0.25, 0.25))
    module.setup("fit")
    assert module.class_names == ["cold", "red", "warm"]
    assert module.num_samples == len(module.rows.of("train"))
    assert module.class_counts == module.rows.target_of("train").sum(0).tolist()
    for number, sample in enumerate(module.datasets["train"]):
        label = labels[int(module.shown("train", number).split()[1]) % 4]
        said = [name for name, one in zip(module.class_names, sample["target"], strict=True) if one]
        assert said == sorted(filter(None, label.split("|")))
    assert next(iter(module.train_dataloader()))["target"].dtype == torch.int64


def test_labels_that_look_like_several_point_to_the_task_for_them() -> None:
    found = classes(["a|b", "b|c", "a|c"], unlabelled=(), merge_similar=False).findings
    assert "columns.separator '|' and --model project.tasks.MultiLabel" in found[0].advice


def test_the_example_has_each_name_in_one_language() -> None:
    names, languages = names_by_language()
    assert len(names) == len(set(names)) > 9000
    assert set(languages) == set(LANGUAGES)
    assert names == sorted(names)
