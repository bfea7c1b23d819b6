"""``netdyno show``: print the table of an earlier run again."""

from __future__ import annotations

from pathlib import Path

import click

from netdyno.cli.memory import show as show_memory
from netdyno.cli.options import strict_option
from netdyno.cli.terminal import console, print_json
from netdyno.errors import NetdynoError
from netdyno.report.published import published_json
from netdyno.report.published_table import print_published, published_markdown
from netdyno.report.ranking import like_for_like
from netdyno.report.summary import summary_json
from netdyno.report.table import print_run
from netdyno.store.run import read_run


@click.command()
@click.argument("run", required=False, type=click.Path(path_type=Path))
@strict_option
@click.option(
    "--published",
    is_flag=True,
    help="Forward+backward at a glance, beside times that were published.",
)
@click.option("--markdown", "as_markdown", is_flag=True, help="With --published: print Markdown.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")
def command(
    run: Path | None, strict: bool, published: bool, as_markdown: bool, as_json: bool
) -> int:
    """Print the table of RUN, a run folder; by default the newest one in runs/."""
    if as_markdown and not published:
        raise click.UsageError("--markdown needs --published: other tables have no Markdown")
    if as_markdown and as_json:
        raise click.UsageError("--markdown and --json exclude each other")
    found = read_run(run or _newest(Path("runs")))
    if found.memory_trials and not found.trials:
        if published:
            raise NetdynoError(f"{found.path.name} measured memory only: --published shows times")
        show_memory(found, as_json)
        return 0
    if as_json:
        beside = {"published": published_json(found)} if published else {}
        print_json({**summary_json(found, strict=strict), **beside})
    elif as_markdown:
        click.echo(published_markdown(found, strict=strict), nl=False)
    elif published:
        print_published(found, console(), strict=strict)
    else:
        print_run(found, console(), strict=strict)
    return 1 if strict and not like_for_like(found) else 0


def _newest(folder: Path) -> Path:
    runs = sorted(folder.glob("*/run.json"), key=lambda path: path.stat().st_mtime)
    if not runs:
        raise NetdynoError(f"there is no run in {folder}/: name a run folder")
    return runs[-1].parent
