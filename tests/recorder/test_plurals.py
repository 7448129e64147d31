"""Numbers of things in words."""

from tests.support.cases import each_case
from wiretape.recorder.plurals import counted


@each_case(
    ("number", "thing", "said"),
    [
        (0, "exchange", "0 exchanges"), (1, "exchange", "1 exchange"), (1234, "byte", "1,234 bytes"),
        (2, "retry", "2 retries"), (1, "retry", "1 retry"), (2, "key", "2 keys"), (2, "match", "2 matches"),
        (3, "live exchange", "3 live exchanges"),
    ],
)  # fmt: skip
def test_a_number_agrees_with_what_it_counts(number: int, thing: str, said: str) -> None:
    assert counted(number, thing) == said
