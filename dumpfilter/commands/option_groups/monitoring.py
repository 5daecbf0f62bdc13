"""The options for monitoring a process: the endpoint of its metrics, and its log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dumpfilter.base.logs import Format, Level, configure
from dumpfilter.base.options.settings import Settings, setting

if TYPE_CHECKING:
    from dumpfilter.base.security.tls import TlsSource
    from dumpfilter.console.metrics.endpoint import MetricsEndpoint


class LogOptions(Settings, panel="Log"):
    """The format of a process's log on standard error, and the lowest level of its lines."""

    log_format: Format | None = setting(None, show_default=Format.TEXT.value)
    """The form of the log: text for people, or json with one object a line for programs."""
    log_level: Level | None = setting(None, show_default=Level.INFO.value)
    """The least level of the log's lines. Lines of the audit log have no level, and always appear."""

    def begin(self, *, colors: bool) -> None:
        """Configure the log of this process. ``colors`` says whether text lines may have colors."""
        configure(self.log_format, self.log_level, colors=colors)


class MetricsOptions(Settings, panel="Metrics"):
    """The address of the metrics' HTTP endpoint, and the file to which its port is written."""

    metrics_port: int | None = setting(None, min=0, max=65535)
    """Port at which Prometheus reads metrics; 0 takes a free one. Without this option there are none."""
    metrics_address: str = "127.0.0.1"
    """Address of --metrics-port. For an address that other machines can reach, Prometheus needs a certificate signed
    by the CA of --tls-ca."""
    metrics_port_file: Path | None = None
    """Write the port to this file once Prometheus can connect."""
    metrics_insecure: bool = False
    """Show the metrics to other machines over plain HTTP. Everybody on the network can then read the names of
    slaves, channels and users."""

    def metrics(self, tls: TlsSource | None) -> MetricsEndpoint | None:
        """Return the settings of the HTTP endpoint for Prometheus, or None without ``--metrics-port``. ``tls`` is the
        process's certificate, or None.
        """
        from dumpfilter.console.metrics.endpoint import MetricsEndpoint

        if self.metrics_port is None:
            return None
        return MetricsEndpoint(
            self.metrics_address,
            self.metrics_port,
            port_file=self.metrics_port_file,
            tls=tls,
            insecure=self.metrics_insecure,
        )


class MonitoringOptions(MetricsOptions, LogOptions):
    """The endpoint of a process's metrics, and the format of its log."""
