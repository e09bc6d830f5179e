"""From a text to numbers: words or characters, numbered by a vocabulary. Plain Python, no torch."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from project.errors import UserError

Unit = Literal["word", "character"]

PADDING = 0
"""The number that fills up a shorter text; no token has it."""

UNKNOWN = 1
"""The number of every token that is not in the vocabulary, and of a text without any."""

WORDS = r"\w+(?:['\u2019]\w+)*|[^\w\s]"  # or the apostrophe that phones write


def normalised(text: str) -> str:
    """In Unicode's composed form (NFC), with single blanks and none around."""
    return " ".join(unicodedata.normalize("NFC", text).split())


@dataclass(frozen=True)
class Tokenizer:
    """Splits texts into tokens and numbers them. Its fields are plain and travel in a checkpoint.

    Words are what stands between blanks, signs apart: `can't` is one, `late?` are two. A language
    that is written without blanks wants characters.

    Args:
        unit: What a token is.
        lowercase: Make no difference between large and small letters.
        max_length: Tokens of a text that are kept, from its start.
        vocabulary: The tokens with the numbers 2, 3, …
    """

    unit: Unit
    lowercase: bool
    max_length: int
    vocabulary: list[str]
    _number: dict[str, int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        numbers = {token: number for number, token in enumerate(self.vocabulary, UNKNOWN + 1)}
        object.__setattr__(self, "_number", numbers)

    @property
    def num_tokens(self) -> int:
        """Different numbers, padding and unknown among them."""
        return len(self.vocabulary) + UNKNOWN + 1

    def split(self, text: str) -> list[str]:
        """The tokens of a text, all of them."""
        return split(text, self.unit, lowercase=self.lowercase)

    def encode(self, text: str) -> list[int]:
        """Numbers of the tokens, at most `max_length`, at least one."""
        tokens = self.split(text)[: self.max_length]
        return [self._number.get(token, UNKNOWN) for token in tokens] or [UNKNOWN]

    def decode(self, numbers: Iterable[int]) -> list[str]:
        """The tokens of some numbers, without padding; `?` for an unknown one."""
        return [
            self.vocabulary[number - UNKNOWN - 1] if number > UNKNOWN else "?"
            for number in numbers
            if number != PADDING
        ]

    def description(self) -> dict[str, Any]:
        """The arguments that make this tokenizer again; JSON keeps them."""
        return {name: value for name, value in asdict(self).items() if name != "_number"}


def split(text: str, unit: Unit, *, lowercase: bool) -> list[str]:
    """The tokens of a text."""
    text = normalised(text.lower() if lowercase else text)
    return re.findall(WORDS, text) if unit == "word" else list(text)


def fitted(
    texts: Iterable[str],
    *,
    unit: Unit,
    lowercase: bool,
    max_length: int,
    min_count: int,
    max_tokens: int | None,
) -> Tokenizer:
    """A tokenizer that knows the tokens of some texts, which should be the training split's.

    Args:
        texts: The texts.
        unit: What a token is.
        lowercase: Make no difference between large and small letters.
        max_length: Tokens of a text that are kept.
        min_count: A token that occurs less often is unknown: so the network learns what to make of
            one that it does not know.
        max_tokens: The most frequent ones, that many; None for all.

    Raises:
        UserError: A setting leaves no token.
    """
    if min_count < 1 or max_length < 1 or (max_tokens is not None and max_tokens < 1):
        raise UserError(
            f"data.vocabulary has min_count {min_count}, max_tokens {max_tokens}, max_length "
            f"{max_length}; each must be 1 or more."
        )
    counts = Counter(token for text in texts for token in split(text, unit, lowercase=lowercase))
    frequent = [(token, count) for token, count in counts.items() if count >= min_count]
    if not frequent:
        raise UserError(
            f"No {unit} occurs {min_count} times in the training texts (data.vocabulary.min_count)."
        )
    frequent.sort(key=lambda pair: (-pair[1], pair[0]))  # not by first appearance: order may change
    return Tokenizer(unit, lowercase, max_length, [token for token, _ in frequent[:max_tokens]])
