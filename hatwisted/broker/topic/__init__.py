"""Topics: which exist, with how many queues, who may do what.

`topicconfig` is all of it: the table behind `config/topics.json`, how a send to an unknown topic makes one,
and what a valid name is. What operators do with topics is in `admin`; how name servers hear of a change, in
`node.registration`.

It never touches a queue: a topic that is deleted here keeps its messages until retention takes them.
"""
