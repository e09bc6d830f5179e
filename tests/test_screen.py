"""A mistake found in a worker is said in its own words."""

from project.cli.screen import own_words


def test_the_workers_traceback_is_left_out() -> None:
    text = (
        "Caught Unreadable in DataLoader worker process 0.\n"
        "Original Traceback (most recent call last):\n"
        '  File "loader.py", line 1, in fetch\n'
        "project.data.decoding.Unreadable: photos/a.jpg can't be read: it is cut off.\n"
    )
    assert own_words(text) == "photos/a.jpg can't be read: it is cut off."
    assert own_words("data.batch_size is 0: raise it.") == "data.batch_size is 0: raise it."
