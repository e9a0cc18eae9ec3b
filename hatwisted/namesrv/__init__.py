"""The name server: brokers tell it which topics they serve, clients ask it where a topic lives."""
