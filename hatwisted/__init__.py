"""RocketMQ's master/slave high availability as an event-driven server on Twisted."""

__version__ = "0.1.0"
