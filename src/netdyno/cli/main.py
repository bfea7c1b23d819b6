"""The entry point: finds the command, turns errors into one line and an exit code."""

from __future__ import annotations

import difflib
import importlib
import sys

import click

from netdyno import __version__
from netdyno.errors import NetdynoError

__all__ = ["main"]

# The summaries stand here so that `netdyno --help` imports no command.
COMMANDS = {
    "calibrate": "Compare cells with themselves: what can be trusted on this machine?",
    "compare": "Say which of two runs or cells is slower, by how much, and how certain that is.",
    "doctor": "Show frameworks, environments and devices, and what is missing.",
    "history": "Show runs over time, and where a cell became slower or faster.",
    "limits": "Measure what a device can do at most, and what that means for a network.",
    "memory": "Measure the memory of a pass, or find the largest batch that fits.",
    "networks": "List the networks, or print the layers and costs of one.",
    "paper": "Put figures of published papers beside what they are today.",
    "run": "Measure frameworks on networks and print the table.",
    "setup": "Make the environments of frameworks.",
    "show": "Print the table of an earlier run again.",
    "verify": "Hold frameworks against a reference in double precision.",
}


class LazyGroup(click.Group):
    """Imports ``netdyno.cli.NAME`` only when NAME is the command that was asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"netdyno.cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f"; did you mean '{near[0]}'?" if near else ""
            ctx.fail(f"no such command '{args[0]}'{hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=False,
)
@click.version_option(__version__, prog_name="netdyno")
def cli() -> None:
    """A dynamometer for deep-learning frameworks: the same convnet, weights and data in each.

    Start with `netdyno setup`, then `netdyno run`.
    """


def main() -> None:
    """Run the command line. Exit codes: 0 done, 1 a trial failed, 2 bad input, 130 interrupted."""
    try:
        result = cli.main(prog_name="netdyno", standalone_mode=False)
    except NetdynoError as error:
        click.echo(f"netdyno: error: {error}", err=True)
        sys.exit(2)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        click.echo("netdyno: interrupted", err=True)
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(141)  # the reader (`| head`) has gone: what a shell reports for SIGPIPE
    sys.exit(result if isinstance(result, int) else 0)


if __name__ == "__main__":
    main()
