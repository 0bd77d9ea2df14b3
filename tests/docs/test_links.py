"""A link leads to a file that is there and to a heading that is in it, on a git forge and in the site."""

import pytest

from tests.docs.pages import broken, links, pages


@pytest.mark.parametrize("page", pages())
def test_should_link_only_to_files_and_headings_that_exist(page: str) -> None:
    assert [target for target in links(page) if broken(page, target)] == []


@pytest.mark.parametrize(
    ("target", "is_broken"),
    [
        ("explanation/rebalance.md", False),
        ("explanation/rebalance.md#why-one-starts", False),
        ("../assignor/pipeline/streams_partition_assignor.py", False),
        ("#where-to-go-from-here", False),
        ("explanation/rebalance.md#why-none-starts", True),
        ("explanation/missing.md", True),
        ("../assignor", True),
    ],
)
def test_should_tell_a_broken_link(target: str, is_broken: bool) -> None:
    assert broken("docs/index.md", target) is is_broken
