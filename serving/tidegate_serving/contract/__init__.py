"""What other folders may know of serving: identities, signatures, manifests, desired state, log columns, errors.

Values and pure functions only: nothing here runs, watches files or opens a connection.
"""
