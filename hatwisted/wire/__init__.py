"""What goes over the wire and into the files, as pure functions and small receivers: no Twisted, no I/O."""
