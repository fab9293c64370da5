"""What other folders may know of serving: identities, signatures, manifests, verdicts, log columns, states, errors."""
