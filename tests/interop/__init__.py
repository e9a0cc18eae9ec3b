"""hatwisted and the real Apache RocketMQ as each other's master, slave, name server and store."""
