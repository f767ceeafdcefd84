"""Snakemake's logger plugin of fedatlas: `snakemake --logger fedatlas` shows a bar, in few words.

Snakemake imports this at every start, by its name: fedatlas is loaded only where it is asked for.
"""

from logging import LogRecord

from snakemake_interface_logger_plugins.base import LogHandlerBase


class LogHandler(LogHandlerBase):
    """Shows Snakemake's events; see `fedatlas.cli.progress`."""

    def __post_init__(self) -> None:
        """Begin to show them where Snakemake would print its messages."""
        from fedatlas.cli.progress import Display

        settings = self.common_settings
        quiet = "all" in {str(getattr(each, "value", each)) for each in settings.quiet or ()}
        self._display = Display(dry_run=settings.dryrun, quiet=quiet, to_errors=not settings.stdout)

    def emit(self, record: LogRecord) -> None:
        """Show a record, if people need it."""
        try:
            self._display.heed(record)
        except Exception:  # as logging does: a fault of what is shown must stop no run
            self.handleError(record)

    def close(self) -> None:
        """Take the bar away, or print what a dry run would make."""
        self._display.end()
        super().close()

    @property
    def writes_to_stream(self) -> bool:
        """In place of Snakemake's messages."""
        return True

    @property
    def writes_to_file(self) -> bool:
        """Snakemake writes its log besides."""
        return False

    @property
    def has_filter(self) -> bool:
        """Events say enough."""
        return True

    @property
    def has_formatter(self) -> bool:
        """Events are put into words here."""
        return True

    @property
    def needs_rulegraph(self) -> bool:
        """It draws none."""
        return False
