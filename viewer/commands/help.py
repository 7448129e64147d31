"""The command `help`: a topic, the definitions of a name, or another command's help; and `version`."""

import sys

import click

from wiretape.recorder import __version__, terminals
from wiretape.viewer.commands import completion, topics


@click.command("help")
@click.argument("words", nargs=-1, metavar="[TOPIC|COMMAND|NAME]...", shell_complete=completion.topics)
@click.option("--dashboard", is_flag=True, help="With metrics: print a dashboard for Grafana, as JSON.")
@click.pass_context
def help_(context: click.Context, words: tuple[str, ...], dashboard: bool) -> None:
    """Explain a topic, a command, or a name such as a metric, a flag or an outcome.

    wiretape help lists the topics and the commands. On a pipe, a topic is Markdown.
    """
    root = context.find_root()
    if dashboard:
        if words != ("metrics",):
            raise click.UsageError("--dashboard is that of the metrics: wiretape help metrics --dashboard")
        click.echo(topics.dashboard(), nl=False)
    elif not words:
        _print(topics.text())
        formatter = root.make_formatter()
        root.command.format_commands(root, formatter)  # type: ignore[attr-defined]
        click.echo("\n" + formatter.getvalue().strip())
    elif len(words) == 1 and words[0] in topics.names():
        _print(topics.text(words[0]))
    elif (matches := _command(root, words)) is not None:
        click.echo(matches.get_help())
    elif text := topics.definition(" ".join(words)) or topics.answer(" ".join(words)):
        _print(text)
    else:
        from wiretape.viewer.commands import guesses

        assert isinstance(root.command, click.Group)
        group = root.command.commands.get(words[0]) if len(words) > 1 else root.command
        if isinstance(group, click.Group) and group is not root.command:
            subjects = [*group.commands]
        else:
            subjects = [*topics.names(), *root.command.commands, *topics.defined()]
        guess = guesses.did_you_mean(words[-1], subjects)
        raise click.UsageError(f"there is no help on {' '.join(words)!r}{guess}; wiretape help lists all topics")


@click.command(hidden=True)
def version() -> None:
    """Print the version."""
    click.echo(f"wiretape {__version__}")


def _command(root: click.Context, path: tuple[str, ...]) -> click.Context | None:
    context = root
    for name in path:
        group = context.command
        if not isinstance(group, click.Group) or name not in group.commands:
            return None
        context = click.Context(group.commands[name], info_name=name, parent=context)
    return context


def _print(markdown: str) -> None:
    from wiretape.viewer.commands import output

    if not (output.on_terminal() and terminals.has_utf8()):
        click.echo(markdown, nl=False)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    width = min(output.width() or output.PLAIN_WIDTH, output.PLAIN_WIDTH)
    lines = Markdown(topics.without_table(markdown), code_theme="ansi_dark", hyperlinks=False)
    Console(file=sys.stdout, width=width).print(lines)
