"""The broker: request processors over a store and its replication, topics, registration, config sync."""
