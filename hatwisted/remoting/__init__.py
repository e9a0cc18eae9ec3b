"""RocketMQ remoting on Twisted: the server side with its table of request processors, and a client."""
