"""Pure: a number and its noun, in singular or plural."""


def counted(number: int, thing: str) -> str:
    """Return a number and its noun: `1 exchange`, `1,234 exchanges`, `0 retries`."""
    return f"{number:,} {thing if number == 1 else plural(thing)}"


def plural(thing: str) -> str:
    """Return the plural of a regular noun."""
    if thing.endswith("y") and thing[-2:-1] not in "aeiou":
        return f"{thing[:-1]}ies"
    return f"{thing}{'es' if thing.endswith(('s', 'x', 'ch', 'sh')) else 's'}"
