"""The command `completion`, and how shells are told what `completion` offers; `viewer.cli` adds it to the group.

The protocol is click's: the shell's script runs the program with `_WIRETAPE_COMPLETE` set. Bash and zsh have scripts of
their own here. Bash takes a word apart at `:` and `=`, of which filters are full, and puts what it is given on the line
as it is; and in both, no space may follow a word that is not whole yet. Fish has click's.
"""

import os

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    add_completion_class,
    split_arg_string,
)

VARIABLE = "_WIRETAPE_COMPLETE"
"""The variable in which a shell's script asks."""

_BASH = """\
%(complete_func)s() {
    local IFS=$'\\n' response type value
    COMPREPLY=()
    response=$(env COMP_WORDS="${COMP_LINE:0:COMP_POINT}" COMP_WORD="$2" \
%(complete_var)s=bash_complete "$1" 2>/dev/null)
    while IFS=, read -r type value; do
        case $type in
            plain) COMPREPLY+=("$value") ;;
            open) COMPREPLY+=("$value"); compopt -o nospace ;;
            file) compopt -o default ;;
            dir) compopt -o dirnames ;;
        esac
    done <<< "$response"
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""

_ZSH = """\
#compdef %(prog_name)s

%(complete_func)s() {
    local -a response whole told unended
    local type value help option
    (( ! $+commands[%(prog_name)s] )) && return 1
    response=("${(@f)$(env COMP_WORDS="${words[1,CURRENT]}" COMP_CWORD=$((CURRENT-1)) \
%(complete_var)s=zsh_complete %(prog_name)s 2>/dev/null)}")
    [[ $words[CURRENT] == --*=* ]] && option="${words[CURRENT]%%%%=*}="
    for type value help in "${response[@]}"; do
        value="$option$value"
        case $type in
            plain) if [[ $help == _ ]]; then whole+=("$value"); else told+=("${value//:/\\\\:}:$help"); fi ;;
            open) unended+=("$value") ;;
            file) [[ -n $option ]] && compset -P 1 '*='; _path_files -f ;;
            dir) [[ -n $option ]] && compset -P 1 '*='; _path_files -/ ;;
        esac
    done
    (( $#told )) && _describe -V unsorted told -U
    (( $#whole )) && compadd -U -V unsorted -a whole
    (( $#unended )) && compadd -U -S '' -V unended -a unended
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    %(complete_func)s "$@"
else
    compdef %(complete_func)s %(prog_name)s
fi
"""


@add_completion_class
class Bash(BashComplete):
    """Bash: it is given the line up to the cursor, and replaces what it takes for the last word of it."""

    source_template = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        """Give the words before the one at the cursor, and that one as far as it is typed."""
        # The cursor is in a word if one more letter there would be part of it, else before a new one.
        *words, last = split_arg_string(os.environ["COMP_WORDS"] + "x")
        return words[1:], last.removesuffix("x")

    def complete(self) -> str:
        """Give what is offered, each without what bash will leave on the line."""
        arguments, incomplete = self.get_completion_args()
        offered = self.get_completions(arguments, incomplete)
        is_joined = incomplete.startswith("--") and "=" in incomplete
        value = incomplete.partition("=")[2] if is_joined else incomplete
        own = os.environ.get("COMP_WORD", value)
        stays = len(value) - len(own) if value.endswith(own) else 0
        return "\n".join(f"{_type(item)},{item.value[stays:]}" for item in offered)


@add_completion_class
class Zsh(ZshComplete):
    """Zsh: three lines for each of what is offered."""

    source_template = _ZSH

    def format_completion(self, item: CompletionItem[str]) -> str:
        """Give the three lines: type, value and what is told of it."""
        return f"{_type(item)}\n{item.value}\n{item.help or '_'}"


def _type(item: CompletionItem[str]) -> str:
    return "open" if item.is_open else item.type


_SHELLS: dict[str, type[ShellComplete]] = {"bash": Bash, "zsh": Zsh, "fish": FishComplete}


@click.command()
@click.argument("shell", type=click.Choice(list(_SHELLS)))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that lets a shell complete ids, models, labels, filters and options at Tab.

    For bash, in ~/.bashrc: eval "$(wiretape completion bash)"; for zsh the same in ~/.zshrc, after compinit; for fish,
    in its config: wiretape completion fish | source
    """
    program = context.find_root().command
    click.echo(_SHELLS[shell](program, {}, "wiretape", VARIABLE).source(), nl=False)


COMMANDS: list[click.Command] = [completion]
"""The commands of this module, for the group."""
