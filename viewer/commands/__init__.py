"""The commands that read a tape, one module each; `wiretape.viewer.cli` adds them to the group.

At the top of a module only click is imported: `--help` and Tab must not wait for a database library or for Textual.
"""
