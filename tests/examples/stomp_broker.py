"""CoilMQ, a broker for STOMP, in memory and on a given port. As a process of its own: it leaves threads behind."""

from __future__ import annotations

import sys

from coilmq.queue import QueueManager
from coilmq.scheduler import RandomQueueScheduler, RandomSubscriberScheduler
from coilmq.server.socket_server import ThreadedStompServer
from coilmq.store.memory import MemoryQueue
from coilmq.topic import TopicManager

if __name__ == "__main__":
    queues = QueueManager(
        store=MemoryQueue(),
        subscriber_scheduler=RandomSubscriberScheduler(),
        queue_scheduler=RandomQueueScheduler(),
    )
    address = ("127.0.0.1", int(sys.argv[1]))
    ThreadedStompServer(address, queue_manager=queues, topic_manager=TopicManager()).serve_forever()
