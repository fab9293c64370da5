"""Many engines that look like one: nodes say that they are there, a controller places models on them, routers forward.

What a fleet agrees on lies in etcd; nothing here is asked once per request. An engine knows of this room only that it
registers as a node.
"""
