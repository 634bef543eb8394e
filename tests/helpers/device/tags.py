"""A queue that matches tags, and a queue pair that sends to it."""

from emu.driver.verbs.connect import connect
from emu.driver.verbs.tag_queue import TagQueue


class TaggedEnds:
    """Two nodes; the right one has a queue with tags. ``size`` bytes of memory on either side."""

    def __init__(self, left, right, size=16 << 10, **context):
        self.left, self.right = left, right
        self.queue = TagQueue(right, **context).start()
        self.source, self.target = left.region(size), right.region(size)
        self.sender, self.receiver = left.queue_pair(), self.queue.queue_pair()
        connect(self.sender, self.receiver)
        self.spare = right.region(16 << 10)
        for number in range(8):
            self.queue.post(self.spare.sge(number * 2048, 2048))

    def send(self, data, **options):
        """A message, inline if it is short; after what the queue has been asked to do."""
        self.right.settle()
        if len(data) > 200:
            self.source.write(data, 0)
            self.sender.send(self.source.sge(0, len(data)), **options)
        else:
            self.sender.send(data, **options)
        self.settle()

    def settle(self):
        self.left.settle()
        self.right.settle()
        self.left.settle()

    def completions(self):
        self.settle()
        return self.queue.drain()
