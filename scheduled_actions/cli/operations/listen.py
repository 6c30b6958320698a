"""`scheduled-actions listen`: a process that stays, and runs each action at its instant."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from scheduled_actions.cli.output import one_line
from scheduled_actions.cli.project import Project, pass_project
from scheduled_actions.cli.signals import stopping_early

if TYPE_CHECKING:
    from scheduled_actions.ticks.report import Report

#: Each tick of a listener keeps the watch so long; then maintenance has its turn, as with any ping.
_LINGER_SECONDS = 60.0


@click.command()
@click.option("--ping", is_flag=True, help="Run nothing here: ping the setting `url` whenever something comes due.")
@pass_project
def listen(project: Project, *, ping: bool) -> None:
    """Stay, and run each action at its instant: new ones are heard of at once, by LISTEN and NOTIFY.

    For servers that can have one long-lived process. It takes the place of the external cron, or stands beside it;
    of two listeners one works and the other stands by. Behind a transaction-mode pooler it looks every second.
    Ctrl-C or SIGTERM lets what runs finish.
    """
    from scheduled_actions.core.errors import NotConfigured  # noqa: PLC0415 - help needs no database driver
    from scheduled_actions.ticks.listener import Listener  # noqa: PLC0415 - as above

    runtime = project.open_without_handlers() if ping else project.open()
    listener = Listener(runtime.database, tell=lambda line: click.echo(one_line(line)))
    if ping:
        if not runtime.wake.is_on:
            raise NotConfigured("url and CRON_SECRET", "both, for a listener that pings")
        with stopping_early(listener.stop):
            listener.ping(runtime.wake)
        return
    settings = runtime.config.settings
    runtime.config = replace(
        runtime.config,
        settings=replace(
            settings,
            linger_seconds=_LINGER_SECONDS,
            max_duration_seconds=_LINGER_SECONDS + max(settings.default_timeout_seconds, settings.max_duration_seconds),
        ),
    )
    processor = runtime.processor

    def stop() -> None:
        listener.stop()
        processor.stop()

    with stopping_early(stop):
        listener.process(processor, on_report=_tell)


def _tell(report: Report) -> None:
    if report.processed:
        click.echo(f"{report.processed} processed, {report.succeeded} succeeded")
    for error in report.errors:
        click.echo(one_line(f"  {error['action_id'] or ''} {error['action_type'] or 'tick'}: {error['error']}"))
