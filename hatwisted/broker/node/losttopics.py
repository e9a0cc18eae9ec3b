"""Topics that have messages and stand in no file, made again at a master's start.

A message makes its topic, and its answer waits only so long for the file of topics (`put.newtopics`). A broker
that is killed before that is written, or promoted before it has copied it, comes back with messages that nobody
can read, since to readers their topic doesn't exist. RocketMQ's stays so until somebody sends to it.

A topic whose newest message is younger than the last change of the table can't be one that was deleted: the
deletion would have been a change. One that is older may be, and is left alone. (If a clock was ahead when the
message was put, and right again when the topic was deleted, a deleted one whose messages are still here comes
back.)
"""

from __future__ import annotations

from twisted.logger import Logger

from hatwisted.broker.topic.topicconfig import TopicConfigTable
from hatwisted.store.messagestore import MessageStore
from hatwisted.wire.topics import DLQ_PREFIX, RETRY_PREFIX

QUEUES = 4
"""Of such a topic, at least: RocketMQ's producers ask for as many. Of a group's own topics 1, as always."""

_log = Logger()


def make_lost_topics(store: MessageStore, topics: TopicConfigTable) -> list[str]:
    """The names of those made.

    - store: has the messages
    - topics: the table, as its file had it
    """
    newest: dict[str, int] = {}
    queues: dict[str, int] = {}
    for queue in store.queues:
        topic = queue.topic
        if topics.get(topic) is None and not topics.is_system(topic):
            time = store.message_time(topic, queue.queue_id, queue.max_offset - 1)
            newest[topic] = max(time, newest.get(topic, 0))
            queues[topic] = max(queue.queue_id + 1, queues.get(topic, 0))
    last_change = topics.filed
    lost = sorted(topic for topic, time in newest.items() if time > last_change)
    for topic in lost:
        least = 1 if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)) else QUEUES
        topics.ensure(topic, max(queues[topic], least))
        _log.warn("topic {topic} has messages, but wasn't in config/topics.json: made again", topic=topic)
    return lost
