"""Texts to numbers."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from project.data.tokens import UNKNOWN, Tokenizer, Unit, fitted, normalised
from project.errors import UserError


def words(*texts: str, **options: object) -> Tokenizer:
    settings = {"unit": "word", "lowercase": True, "max_length": 10, "min_count": 1}
    return fitted(texts, **{**settings, "max_tokens": None, **options})


def test_numbers_by_hand() -> None:
    tokenizer = words("the cat", "the hat!")
    assert tokenizer.vocabulary == ["the", "!", "cat", "hat"]  # by count, then by alphabet
    assert tokenizer.encode("The CAT sat!") == [2, 4, UNKNOWN, 3]
    assert tokenizer.decode([2, 4, 1, 3, 0, 0]) == ["the", "cat", "?", "!"]
    assert tokenizer.num_tokens == 6


@pytest.mark.parametrize(
    ("text", "unit", "expected"),
    [
        ("Can't pay?", "word", ["can't", "pay", "?"]),
        ("don\u2019t", "word", ["don\u2019t"]),
        ("3.5 €", "word", ["3", ".", "5", "€"]),
        ("naïve café", "word", ["naïve", "café"]),
        ("  two \n lines ", "word", ["two", "lines"]),
        ("Łódź", "character", ["ł", "ó", "d", "ź"]),
        ("a b", "character", ["a", " ", "b"]),
        ("東京へ", "character", ["東", "京", "へ"]),
        ("ok👍🏽", "word", ["ok", "👍", "🏽"]),
        ("", "word", []),
    ],
)
def test_split(text: str, unit: Unit, expected: list[str]) -> None:
    assert words("a", unit=unit).split(text) == expected


def test_unicode_forms_of_one_letter_are_one_token() -> None:
    tokenizer = words("caf\u00e9")
    assert tokenizer.encode("cafe\u0301") == tokenizer.encode("caf\u00e9") == [2]


def test_a_text_without_a_token_is_one_unknown_token() -> None:
    assert words("a").encode("") == words("a").encode(" \t") == [UNKNOWN]


def test_long_texts_are_cut_at_the_end() -> None:
    assert words("a b c", max_length=2).encode("c b a") == [4, 3]


def test_rare_tokens_are_unknown() -> None:
    tokenizer = words("a a b b c", min_count=2)
    assert tokenizer.encode("a b c") == [2, 3, UNKNOWN]
    assert words("a a b c", max_tokens=1).vocabulary == ["a"]


def test_case_counts_where_it_is_said_to() -> None:
    assert words("Mark mark", lowercase=False).num_tokens == words("Mark mark").num_tokens + 1


def test_the_order_of_the_texts_does_not_matter() -> None:
    assert words("b a", "c") == words("c", "a b")


def test_travels_as_json() -> None:
    tokenizer = words("the cat", "der Löwe", lowercase=False)
    again = Tokenizer(**json.loads(json.dumps(tokenizer.description())))
    assert again == tokenizer
    assert again.encode("der cat") == tokenizer.encode("der cat")


@given(st.text(), st.sampled_from(["word", "character"]))
def test_any_text_has_numbers_of_the_network(text: str, unit: Unit) -> None:
    tokenizer = words("some known words", unit=unit)
    numbers = tokenizer.encode(text)
    assert 1 <= len(numbers) <= 10
    assert all(UNKNOWN <= number < tokenizer.num_tokens for number in numbers)
    assert normalised(normalised(text)) == normalised(text)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"min_count": 0}, "min_count 0"),
        ({"max_length": 0}, "max_length 0"),
        ({"max_tokens": 0}, "max_tokens 0"),
        ({"min_count": 5}, "No word occurs 5 times"),
    ],
)
def test_nonsense_is_refused(options: dict, said: str) -> None:
    with pytest.raises(UserError, match=said):
        words("a b", **options)
