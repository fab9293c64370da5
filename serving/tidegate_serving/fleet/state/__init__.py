"""What all of a fleet agree on, as etcd has it: nodes, models, placement and routes, read together as one view.

Entries that cannot be are left out here, so that nothing above meets them.
"""
