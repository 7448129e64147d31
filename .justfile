# The commands of .github/CONTRIBUTING.md as tasks: `just` lists them. It is a package of most systems, and on PyPI
# (rust-just).

_list:
    @just --list --unsorted

# Make the environment.
setup:
    python3 -m venv .venv && .venv/bin/pip install -q -e '.[dev]'

# Run the quick tests, or those that are named.
test *names:
    .venv/bin/python -m pytest -q {{names}}

# Check style, types and layers.
lint:
    .venv/bin/ruff check . && .venv/bin/ruff format --check . && .venv/bin/mypy && .venv/bin/lint-imports

# Renew the generated parts of the README and the topics.
docs:
    .venv/bin/python -m cogapp -c -r README.md recorder/tape/tables.py viewer/help/*.md

# Build the topics as a site, in build/site.
site:
    .venv/bin/mkdocs build -q -f .mkdocs.yml --strict

# Run everything that CI runs, in an environment of its own.
ci:
    .ci/run
