"""What a docstring says of a function and its parameters."""

from __future__ import annotations

import pytest

from jianmu.tools.docstrings import parse_docstring

GOOGLE = """Find files.

    Looks everywhere: also in hidden folders.

    Args:
        pattern (str): what to look for:
            a glob.
        limit: at most this many

            in all.
        **rest: more

    Returns:
        names: the files.

    Raises:
        ValueError: no pattern.
    """

NUMPY = """Find files.

    Looks everywhere: also in hidden folders.

    Parameters
    ----------
    pattern : str
        what to look for:
        a glob.
    limit, rest : int, optional
        at most this many
        in all.

    Returns
    -------
    names : list
        the files.
    """

SPHINX = """Find files.

    Looks everywhere: also in hidden folders.

    :param str pattern: what to look for:
        a glob.
    :param limit: at most this many
        in all.
    :type limit: int
    :returns: the files.
    :raises ValueError: no pattern.
    """


@pytest.mark.parametrize("text", [GOOGLE, NUMPY, SPHINX], ids=["google", "numpy", "sphinx"])
def test_the_three_styles_say_the_same(text: str) -> None:
    """R47: schema descriptions come from Google, NumPy and Sphinx docstrings alike."""
    description, parameters = parse_docstring(text)
    assert description == "Find files.\n\nLooks everywhere: also in hidden folders."
    assert parameters["pattern"] == "what to look for: a glob."
    assert parameters["limit"] == "at most this many in all."
    assert set(parameters) <= {"pattern", "limit", "rest"}


def test_names_that_share_a_numpy_entry_share_its_text() -> None:
    _, parameters = parse_docstring(NUMPY)
    assert parameters["rest"] == parameters["limit"]


@pytest.mark.parametrize("text", [None, "", "Just one line.", "Note that: this is no section.\n\n- args: none"])
def test_text_without_sections_is_all_description(text: str | None) -> None:
    assert parse_docstring(text) == ((text or ""), {})


def test_an_empty_section_has_no_parameters() -> None:
    assert parse_docstring("Do.\n\nArgs:\n\nReturns:\n    x: y") == ("Do.", {})
