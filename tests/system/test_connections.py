"""The reactor's own TCP connections keep the rules that the network in memory keeps."""

from twisted.internet import reactor
from twisted.trial.unittest import TestCase

from tests.support.connectioncase import ConnectionCase


class SocketTests(ConnectionCase, TestCase):
    tcp = reactor
