"""What an engine does by itself, so that the platform does not do it as well."""

from dataclasses import dataclass


@dataclass(frozen=True)
class RuntimeCapabilities:
    """Flags that only move who implements a thing; the platform never skips messages, activity or events.

    A flag is set only where a conformance test of the adapter proves it.
    """

    provides_native_heartbeat: bool = False
    provides_native_scheduler: bool = False
    provides_native_session: bool = False
    provides_native_status_mgmt: bool = False
    provides_native_retry: bool = False
    provides_activity_decoration: bool = False
    provides_channel_dispatch: bool = False

    def to_dict(self) -> dict[str, bool]:
        """The flags by their names on the wire."""
        return {
            "heartbeat": self.provides_native_heartbeat,
            "scheduler": self.provides_native_scheduler,
            "session": self.provides_native_session,
            "status_mgmt": self.provides_native_status_mgmt,
            "retry": self.provides_native_retry,
            "activity_decoration": self.provides_activity_decoration,
            "channel_dispatch": self.provides_channel_dispatch,
        }
